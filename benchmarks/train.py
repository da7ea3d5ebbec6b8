"""The training engine against hand-written loops, and what several workers cost.

    python benchmarks/train.py [--rounds 8] [--steps 60] [--quick] [--part NAME ...] [--output build/bench/train.json]

Prints every number that has a target beside it. mixed_bfloat16 is measured where the CPU has AMX; NCCL, float16 and XLA
where there is a GPU; elsewhere they say "not measured" and why. Takes about ten minutes on two quiet cores; on a busy
machine the ratios move by several hundredths.
"""

import argparse
import json
import os
import pathlib
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras
from training_models import WORKLOADS, BareLoop, Engine, has_amx, plain_dataset, write_records

from modules.training.cluster import ClusterSpec

ROOT = pathlib.Path(__file__).resolve().parents[1]
ALONE = ClusterSpec(tasks={})
NOT_MEASURED = "not measured"
PARTS = ("loops", "mixed_bfloat16", "communication", "million_examples", "gpu")

# Where a number is in the result, whether it must be at least or at most the target, and the target.
TARGETS = (
    ("loops/mlp/engine_over_bare_loop", ">=", 0.97),
    ("loops/conv/engine_over_bare_loop", ">=", 0.97),
    ("loops/mlp/input_wait_share", "<=", 0.02),
    ("loops/conv/input_wait_share", "<=", 0.02),
    ("mixed_bfloat16/speedup_over_float32/wide", ">=", 2.0),
    ("mixed_bfloat16/speedup_over_float32/conv", ">=", 2.0),
    ("communication/conv/communication_share", "<=", 0.12),
    ("communication/mlp, accumulate 8/communication_share", "<=", 0.20),
    ("communication/mlp, accumulate 8, bfloat16 reduce/communication_share", "<=", 0.20),
    ("communication/mlp, accumulate 16, bfloat16 reduce/communication_share", "<=", 0.20),
    ("million_examples/last_over_first_half", "<=", 1.05),
    ("million_examples/memory_growth_mib", "<=", 20),
    ("gpu/speedup_over_float32/mixed_float16", ">=", 2.0),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8, help="of all ways, one after the other")
    parser.add_argument("--steps", type=int, default=60, help="steps per round")
    parser.add_argument("--quick", action="store_true", help="a trial run: 2 rounds of 10 steps, 100,000 examples")
    parser.add_argument("--part", nargs="*", choices=PARTS, default=PARTS, help="measure these; keep the other numbers")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build" / "bench" / "train.json")
    args = parser.parse_args()
    rounds, steps = (2, 10) if args.quick else (args.rounds, args.steps)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-train-") as scratch:
        folder = pathlib.Path(scratch)
        for name, count in {"mlp": 20_000, "conv": 8_000, "wide": 4_000, "small": 100_000}.items():
            write_records(WORKLOADS[name], folder, count)
        parts: dict[str, Callable[[], Any]] = {
            "loops": lambda: {name: compare_loops(name, folder, rounds, steps) for name in ("mlp", "conv")},
            "mixed_bfloat16": lambda: compare_precision(folder, rounds, steps),
            "communication": lambda: communication(folder, max(2, rounds // 2), steps // 2),
            "million_examples": lambda: million(folder, 100_000 if args.quick else 1_000_000),
            "gpu": lambda: gpu(folder, rounds, steps),
        }
        result = json.loads(args.output.read_text()) if args.output.exists() else {}
        result |= {name: parts[name]() for name in args.part}
    args.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))
    for target in TARGETS:
        if target[0].partition("/")[0] in args.part:
            print(judged(result, *target), file=sys.stderr)
    print(f"written to {args.output}", file=sys.stderr)


def judged(result: Any, path: str, direction: str, target: float) -> str:
    """One line: the number at `path`, its target and whether it is kept, or why it was not measured."""
    value = result
    for key in path.split("/"):
        if isinstance(value, str):
            break
        value = value[key]
    if isinstance(value, str):
        return f"{path}: {value} (target {direction} {target:g})"
    kept = value >= target if direction == ">=" else value <= target
    return f"{path}: {value:g} (target {direction} {target:g}): {'kept' if kept else 'MISSED'}"


def take_turns(ways: dict[str, Callable[[int], Any]], rounds: int, steps: int) -> dict[str, np.ndarray]:
    """Seconds per step of each way, float64 [rounds]. They take turns, so that a slow minute hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    names = list(ways)
    for run in ways.values():
        run(3)  # traces and warms up
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            started = time.perf_counter()
            ways[name](steps)
            times[name].append((time.perf_counter() - started) / steps)
    return {name: np.array(values) for name, values in times.items()}


def ratio(of: np.ndarray, to: np.ndarray, digits: int = 3) -> float:
    """The median over the rounds of one way's time over another's in the same round."""
    return round(float(np.median(of / to)), digits)


def quartiles(values: np.ndarray) -> list[float]:
    """The first and third quartile."""
    return [round(float(value), 3) for value in np.percentile(values, (25, 75))]


def compare_loops(name: str, folder: pathlib.Path, rounds: int, steps: int) -> dict[str, Any]:
    """The engine, a bare loop, tf_keras fit and a step-by-step loop on the same model, files and optimizer."""
    workload = WORKLOADS[name]
    engine = Engine(workload, folder, tf.distribute.get_strategy(), ALONE, steps_per_loop=steps)
    bare = BareLoop(workload, folder)
    fitted = workload.build()
    fitted.compile(
        tf_keras.optimizers.Adam(1e-3, jit_compile=False), tf_keras.losses.SparseCategoricalCrossentropy(True)
    )
    fit_data = plain_dataset(workload, folder)
    by_step = StepByStep(BareLoop(workload, folder))
    waits: list[tuple[float, float]] = []

    def run_engine(count: int) -> None:
        for records in engine.run(count):
            waits.append((records.wait_s.sum(), records.step_s.sum()))

    # The two whose ratio has a target alternate often, without the peers between them.
    pair: dict[str, Callable[[int], Any]] = {
        "bare_loop": lambda count: bare.run(tf.constant(count)),
        "engine": run_engine,
    }
    closely = take_turns(pair, 4 * rounds, steps // 2)
    peers = {
        "engine": run_engine,
        "tf_keras_fit": lambda count: fitted.fit(fit_data, steps_per_epoch=count, verbose=0),
        "step_by_step": by_step.run,
    }
    seconds = take_turns(peers, rounds, steps)
    waited, total = (sum(column) for column in zip(*waits[1:], strict=True))
    return {
        "examples_per_s": {
            way: round(workload.batch_size / np.median(value)) for way, value in (closely | seconds).items()
        },
        "engine_over_bare_loop": ratio(closely["bare_loop"], closely["engine"]),
        "engine_over_bare_loop_quartiles": quartiles(closely["bare_loop"] / closely["engine"]),
        "engine_over_fit": ratio(seconds["tf_keras_fit"], seconds["engine"]),
        "engine_over_step_by_step": ratio(seconds["step_by_step"], seconds["engine"]),
        "input_wait_share": round(waited / total, 4),
    }


class StepByStep:
    """The loop of most tutorials: one tf.function call and one read of the loss per step."""

    def __init__(self, bare: BareLoop):
        self._bare = bare

    def run(self, steps: int) -> float:
        total = 0.0
        for _ in range(steps):
            total += float(self._bare.run(tf.constant(1)))
        return total


def compare_precision(folder: pathlib.Path, rounds: int, steps: int) -> Any:
    """float32 / mixed_bfloat16 step time, where the CPU has AMX."""
    if not has_amx():
        return f"{NOT_MEASURED}: this CPU has no AMX"
    ratios = {}
    for name in ("wide", "conv"):
        engines = {
            precision: Engine(
                WORKLOADS[name], folder, tf.distribute.get_strategy(), ALONE, precision=precision, steps_per_loop=steps
            )
            for precision in ("float32", "mixed_bfloat16")
        }
        seconds = take_turns({key: engine.run for key, engine in engines.items()}, rounds, max(5, steps // 4))
        ratios[name] = ratio(seconds["float32"], seconds["mixed_bfloat16"])
    return {"speedup_over_float32": ratios}


def communication(folder: pathlib.Path, rounds: int, steps: int) -> dict[str, Any]:
    """1 - step time of two independent concurrent workers / step time of the two under MWMS, by case."""
    micro_batch = WORKLOADS["mlp"].batch_size

    def mlp(accumulate: int, compress: str = "none") -> dict[str, Any]:
        # Micro-batches of the same size: K times the work for one all-reduce.
        settings = {"accumulate": accumulate, "batch_size": accumulate * micro_batch, "compress": compress}
        return {"workload": "mlp", "steps": max(5, steps // accumulate), "settings": settings}

    cases = {
        "conv": {"workload": "conv", "steps": steps, "settings": {}},
        "mlp": mlp(1),
        "mlp, bfloat16 reduce": mlp(1, "bfloat16"),
        "mlp, accumulate 4": mlp(4),
        "mlp, accumulate 8": mlp(8),
        "mlp, accumulate 8, bfloat16 reduce": mlp(8, "bfloat16"),
        "mlp, accumulate 16, bfloat16 reduce": mlp(16, "bfloat16"),
    }
    for case in cases.values():
        case["settings"]["sharding"] = "auto"  # the engine's default: by file here, so that nobody reads all records
    results = run_workers(folder, [{"name": name, **case} for name, case in cases.items()], rounds)
    shares = {}
    for name in cases:
        apart, together = (np.mean([result[name][way] for result in results], axis=0) for way in ("apart", "together"))
        shares[name] = {
            "communication_share": round(float(np.median(1 - apart / together)), 3),
            "by_round": [round(float(share), 3) for share in 1 - apart / together],
            "step_ms_apart": round(float(np.median(apart)) * 1e3, 2),
            "step_ms_together": round(float(np.median(together)) * 1e3, 2),
            "all_reduce_share_as_telemetry_says": round(float(np.mean([r[name]["reduce_share"] for r in results])), 3),
        }
    return shares


def run_workers(folder: pathlib.Path, cases: list[dict[str, Any]], rounds: int) -> list[dict[str, Any]]:
    """What two worker processes of one cluster measured; see training_worker.py."""
    meeting = folder / "meeting"
    meeting.mkdir()
    path = meeting / "spec.json"
    path.write_text(json.dumps({"folder": str(meeting), "data": str(folder), "rounds": rounds, "cases": cases}))
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    processes = []
    threads = str(max(1, (os.cpu_count() or 1) // 2))  # as the Trainer step's local workers have it, both ways
    for index in range(2):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        environment = dict(os.environ, CUDA_VISIBLE_DEVICES="-1", TF_CONFIG=json.dumps(config))
        environment["TF_NUM_INTRAOP_THREADS"] = threads
        command = [sys.executable, str(ROOT / "benchmarks" / "training_worker.py"), str(path)]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    try:
        outputs = [process.communicate(timeout=1200)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(process.returncode for process in processes):
        raise RuntimeError("a benchmark worker failed")
    return [json.loads(output.strip().splitlines()[-1]) for output in outputs]


def free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    for holder in sockets:
        holder.bind(("127.0.0.1", 0))
    ports = [holder.getsockname()[1] for holder in sockets]
    for holder in sockets:
        holder.close()
    return ports


def million(folder: pathlib.Path, num_examples: int) -> dict[str, Any]:
    """Cost per step and memory in ten slices of a long training, many epochs of a small model."""
    workload = WORKLOADS["small"]
    engine = Engine(workload, folder, tf.distribute.get_strategy(), ALONE)
    engine.run(50)
    per_slice = -(-num_examples // workload.batch_size // 10)
    medians, memory = [], []
    for _ in range(10):
        records = engine.run(per_slice)
        medians.append(float(np.median(np.concatenate([r.step_s for r in records]))))
        memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return {
        "examples": per_slice * workload.batch_size * 10,
        "step_ms_by_tenth": [round(value * 1e3, 3) for value in medians],
        "last_over_first_half": round(statistics.median(medians[5:]) / statistics.median(medians[:5]), 3),
        "peak_memory_mib_by_tenth": [round(value) for value in memory],
        "memory_growth_mib": round(memory[-1] - memory[1]),
    }


def gpu(folder: pathlib.Path, rounds: int, steps: int) -> Any:
    """float16, bfloat16 and XLA over float32, and all GPUs over one, where there are any."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        return f"{NOT_MEASURED}: no GPU"
    result: dict[str, Any] = {"gpus": len(gpus)}
    one = tf.distribute.OneDeviceStrategy("/gpu:0")
    variants: dict[str, dict[str, Any]] = {
        "float32": {},
        "mixed_float16": {"precision": "mixed_float16"},
        "mixed_bfloat16": {"precision": "mixed_bfloat16"},
        "mixed_float16 + XLA": {"precision": "mixed_float16", "jit_compile": True, "drop_remainder": True},
    }
    engines = {
        name: Engine(WORKLOADS["wide"], folder, one, ALONE, steps_per_loop=steps, **settings)
        for name, settings in variants.items()
    }
    seconds = take_turns({name: engine.run for name, engine in engines.items()}, rounds, steps)
    result["speedup_over_float32"] = {name: ratio(seconds["float32"], value) for name, value in seconds.items()}
    if len(gpus) > 1:
        everywhere = Engine(WORKLOADS["conv"], folder, tf.distribute.MirroredStrategy(), ALONE, steps_per_loop=steps)
        alone = Engine(WORKLOADS["conv"], folder, one, ALONE, steps_per_loop=steps)
        times = take_turns({"one": alone.run, "all": everywhere.run}, rounds, steps)
        result["scaling"] = round(ratio(times["one"], times["all"]) * len(gpus), 2)
    else:
        result["scaling"] = f"{NOT_MEASURED}: one GPU"
    return result


if __name__ == "__main__":
    main()
