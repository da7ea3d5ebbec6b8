"""How good and how fast the gate is: precision and recall over known changes of real data, and its cost.

    python benchmarks/validation.py [--output validation.json] [--rows 300040]

Recall counts bad data that was blocked with the right column and rule; precision counts blocked data that was bad.
What the gate advises to accept bad data is then done, and must be enough.
The cost is the gate's own time beside StatisticsGen's over the same rows. Takes about two minutes.
"""

import argparse
import json
import os
import pathlib
import tempfile
import time
from typing import Any

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import validation_advice as advised
import validation_cases as cases
import validation_data as data


def main() -> None:
    """Prints a line for every miss and false alarm, the totals, and writes JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("build/bench/validation.json"))
    parser.add_argument("--rows", type=int, default=300_040, help="for the cost; 0 leaves it out")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # The cost first: what the cases leave in memory would be searched by the garbage collector meanwhile.
        cost = {"cost": measure_cost(args.rows, pathlib.Path(folder, "cost"))} if args.rows else {}
        result: dict[str, Any] = judge_all(pathlib.Path(folder)) | cost
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"written to {args.output}")


def judge_all(folder: pathlib.Path) -> dict[str, Any]:
    """Every case once; which were missed, found for another reason, or blocked without need."""
    good = {"taxi": data.taxi(), "flights": data.flights()}
    bad = {"taxi": cases.BAD_TAXI, "flights": cases.BAD_FLIGHTS}
    harmless = {"taxi": cases.HARMLESS_TAXI, "flights": cases.HARMLESS_FLIGHTS}
    missed, false_alarms, not_enough, num_bad, num_harmless = [], [], [], 0, 0
    for source, case in good.items():
        for name, column, rule, change in bad[source]:
            num_bad += 1
            changed = change(case)
            found = {(f.feature, f.rule) for f in changed.judge(folder).blocking}
            left = advised.after_following(changed, folder)
            if left:
                not_enough.append(f"{source}: {name}: {'; '.join(left)}")
            if (column, rule) not in found:
                missed.append(f"{source}: {name}: expected {column or 'data set'} {rule}, found {sorted(found)}")
        for name, change in harmless[source]:
            num_harmless += 1
            verdict = change(case).judge(folder)
            if verdict.blocking:
                false_alarms.append(f"{source}: {name}: {'; '.join(f.sentence() for f in verdict.blocking)}")
    caught = num_bad - len(missed)
    result = {
        "bad": num_bad,
        "caught": caught,
        "harmless": num_harmless,
        "falsely_blocked": len(false_alarms),
        "recall": caught / num_bad,
        "precision": caught / (caught + len(false_alarms)),
        "missed": missed,
        "false_alarms": false_alarms,
        "advice_not_enough": not_enough,
    }
    lines = {"MISSED": missed, "FALSE ALARM": false_alarms, "ADVICE NOT ENOUGH": not_enough}
    for line in [f"{what} {line}" for what, named in lines.items() for line in named]:
        print(line)
    print(
        f"{caught} of {num_bad} kinds of bad data caught with the right column and rule, "
        f"{len(false_alarms)} of {num_harmless} harmless changes blocked: "
        f"recall {result['recall']:.3f}, precision {result['precision']:.3f}; "
        f"following the advice was enough for {num_bad - len(not_enough)} of {num_bad}"
    )
    return result


def measure_cost(num_rows: int, folder: pathlib.Path) -> dict[str, float]:
    """Seconds of processor time of StatisticsGen's work (TFDV on Beam) and of the gate's, over the same files.

    Processor time, because both are one process and the share of it does not depend on what else runs.
    """
    import apache_beam as beam
    import tensorflow_data_validation as tfdv
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    from tfx_bsl.tfxio import tf_example_record

    from components.data_gate.config import GatePolicy
    from components.data_gate.context import GateInputs
    from components.data_gate.gate import judge

    case, files = data.many_taxi_files(num_rows, folder)
    start = time.process_time()
    for split, names in files.items():
        with beam.Pipeline(runner=FnApiRunner(), argv=[]) as pipeline:
            reader = tf_example_record.TFExampleRecord(file_pattern=list(names), telemetry_descriptors=["bench"])
            _ = (
                pipeline
                | reader.BeamSource()
                | tfdv.GenerateStatistics(tfdv.StatsOptions(schema=case.schema))
                | tfdv.WriteStatisticsToBinaryFile(str(folder / f"{split}.pb"))
            )
    statistics_seconds = time.process_time() - start
    inputs = GateInputs(
        schema=case.schema,
        statistics={split: tfdv.load_stats_binary(str(folder / f"{split}.pb")) for split in files},
        baseline=data.inputs_of(case, folder).baseline,
        examples=files,
        now=case.now,
    )
    start = time.process_time()
    verdict = judge(inputs, GatePolicy.from_dict({**case.policy, "time": None}))
    gate_seconds = time.process_time() - start
    share = gate_seconds / statistics_seconds
    print(
        f"{num_rows} rows: statistics {statistics_seconds:.1f} s, gate {gate_seconds:.2f} s ({share:.1%}), "
        f"verdict {verdict.word}"
    )
    return {"rows": num_rows, "statistics_s": statistics_seconds, "gate_s": gate_seconds, "share": share}


if __name__ == "__main__":
    main()
