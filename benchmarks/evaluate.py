"""The Evaluator against the stock one: the same model, rows, metrics, slices and baseline.

    make run && make bench-evaluate             300,040 rows, some ten minutes; writes build/bench/evaluate.json
    make bench-evaluate ARGS="--copies 2"       30,004 rows

The rows and the model are those of the latest `make run`: both splits of its examples, repeated. The model is its own
baseline, so that both models are loaded and called. Each side is one process; measured is the executor's work, imports
are not counted on either side. All metrics of both sides must agree.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

TARGET = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default="build", help="the root of the run whose model and examples are taken")
    parser.add_argument("--copies", type=int, default=20, help="how often the run's 15,002 rows are repeated")
    parser.add_argument("--output", default="build/bench/evaluate.json")
    parser.add_argument("--side", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        _evaluate(*args.side)
        return
    pipeline = pathlib.Path(args.root) / "pipelines" / "taxi"
    model, examples = (_latest(pipeline / part) for part in ("Trainer/model", "ExampleGen/examples"))
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        _repeat(examples, work / "examples" / "Split-eval", args.copies)
        sides = {side: _run(side, work, model) for side in ("sluice", "stock")}
    difference = _difference(sides["sluice"].pop("rows"), sides["stock"].pop("rows"))
    ratio = sides["sluice"]["seconds"] / sides["stock"]["seconds"]
    num_rows = sides["sluice"]["num_examples"]
    print(f"{num_rows:,} rows: sluice {sides['sluice']['seconds']:.1f} s, stock {sides['stock']['seconds']:.1f} s")
    print(f"  ratio {ratio:.2f} (target at most {TARGET}); largest difference of a metric {difference:.1g}")
    path = pathlib.Path(args.output)
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    result = {"machine": machine, **sides, "ratio": ratio, "target": TARGET, "largest_difference": difference}
    path.write_text(json.dumps(result, indent=1), encoding="utf-8")
    print(f"written to {path}")
    if difference > 1e-5:
        sys.exit("the two sides disagree")


def _latest(folder: pathlib.Path) -> pathlib.Path:
    found = sorted((path for path in folder.glob("*") if path.name.isdigit()), key=lambda path: int(path.name))
    if not found:
        sys.exit(f"nothing in {folder}: `make run` first, or name another --root")
    return found[-1]


def _repeat(examples: pathlib.Path, target: pathlib.Path, copies: int) -> None:
    """All shards of the run's examples, `copies` times over."""
    target.mkdir(parents=True)
    shards = sorted(examples.glob("Split-*/*.gz"))
    for index in range(copies * len(shards)):
        name = f"data_tfrecord-{index:05d}-of-{copies * len(shards):05d}.gz"
        (target / name).write_bytes(shards[index % len(shards)].read_bytes())


def _run(side: str, work: pathlib.Path, model: pathlib.Path) -> dict:
    command = [sys.executable, __file__, "--side", side, str(work), str(model)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        sys.exit(f"the {side} side failed:\n{process.stderr[-2000:]}")
    return json.loads(process.stdout.splitlines()[-1])


def _evaluate(side: str, work: str, model: str) -> None:
    from tfx.components.evaluator import executor as stock
    from tfx.types import standard_artifacts
    from tfx.utils import proto_utils

    from components.evaluator import tfma_hooks
    from components.evaluator.executor import Executor
    from components.evaluator.grouped_metrics import grouped_eval_config
    from components.evaluator.verdict import judge
    from pipeline.config import load_workload
    from pipeline.eval_config import build_eval_config

    def artifact(kind, uri, number=1):
        result = kind()
        result.uri, result.id = str(uri), number
        pathlib.Path(uri).mkdir(parents=True, exist_ok=True)
        return result

    evaluate = load_workload("taxi")[0].evaluate
    config = build_eval_config(evaluate, model_type="") if side == "stock" else build_eval_config(evaluate)
    grouped = None if side == "stock" else grouped_eval_config(config)
    examples = artifact(standard_artifacts.Examples, f"{work}/examples")
    examples.split_names = '["eval"]'
    evaluation = artifact(standard_artifacts.ModelEvaluation, f"{work}/{side}/evaluation")
    inputs = {
        "examples": [examples],
        "model": [artifact(standard_artifacts.Model, model)],
        "baseline_model": [artifact(standard_artifacts.Model, model, 2)],
    }
    outputs = {
        "evaluation": [evaluation],
        "blessing": [artifact(standard_artifacts.ModelBlessing, f"{work}/{side}/blessing")],
    }
    properties = {
        "eval_config": proto_utils.proto_to_json(grouped or config),
        "module_path": tfma_hooks.__name__ if grouped else None,
        "example_splits": '["eval"]',
        "fairness_indicator_thresholds": "null",
    }
    executor = stock.Executor() if side == "stock" else Executor()
    start = time.monotonic()
    executor.Do(inputs, outputs, properties)
    seconds = time.monotonic() - start
    verdict = judge(evaluation.uri, grouped or config)
    rows = {f"{row.metric} on {row.slice}": row.value for row in verdict.rows}
    print(json.dumps({"seconds": round(seconds, 2), "num_examples": verdict.num_examples, "rows": rows}))


def _difference(ours: dict, stock: dict) -> float:
    if ours.keys() != stock.keys():
        sys.exit(f"the two sides have different metrics: {sorted(ours.keys() ^ stock.keys())}")
    return max(abs(ours[name] - stock[name]) for name in ours)


if __name__ == "__main__":
    main()
