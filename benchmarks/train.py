"""The training engine against hand-written loops, and what several workers cost.

    python benchmarks/train.py [--rounds 5] [--steps 60] [--quick] [--part NAME ...] [--output build/bench/train.json]

Expected on two quiet cores: engine / bare loop at least 0.97 (examples/s) for both models; communication share at most
0.12 for the convolutional net, at most 0.20 for the MLP with compression or accumulation; input-wait share at most
0.02; cost per step and memory flat over 1,000,000 examples. mixed_bfloat16 is measured where the CPU has AMX, NCCL,
float16 and XLA where there is a GPU; elsewhere they say "not measured". Takes about ten minutes.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
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
            "communication": lambda: communication(folder, rounds, steps),
            "million_examples": lambda: million(folder, 100_000 if args.quick else 1_000_000),
            "gpu": lambda: gpu(folder, rounds, steps),
        }
        result = json.loads(args.output.read_text()) if args.output.exists() else {}
        result |= {name: parts[name]() for name in args.part}
    args.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2))
    print(f"written to {args.output}", file=sys.stderr)


def take_turns(ways: dict[str, Callable[[int], Any]], rounds: int, steps: int) -> dict[str, float]:
    """Median seconds per step of each way. The ways take turns, so that a slow minute hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for run in ways.values():
        run(3)  # traces and warms up
    for _ in range(rounds):
        for name, run in ways.items():
            started = time.perf_counter()
            run(steps)
            times[name].append((time.perf_counter() - started) / steps)
    return {name: statistics.median(values) for name, values in times.items()}


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

    seconds = take_turns(
        {
            "bare_loop": lambda count: bare.run(tf.constant(count)),
            "engine": run_engine,
            "tf_keras_fit": lambda count: fitted.fit(fit_data, steps_per_epoch=count, verbose=0),
            "step_by_step": by_step.run,
        },
        rounds,
        steps,
    )
    waited, total = (sum(column) for column in zip(*waits[1:], strict=True))
    return {
        "examples_per_s": {way: round(workload.batch_size / value) for way, value in seconds.items()},
        "engine_over_bare_loop": round(seconds["bare_loop"] / seconds["engine"], 3),
        "engine_over_fit": round(seconds["tf_keras_fit"] / seconds["engine"], 3),
        "engine_over_step_by_step": round(seconds["step_by_step"] / seconds["engine"], 3),
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
        ratios[name] = round(seconds["float32"] / seconds["mixed_bfloat16"], 2)
    return {"speedup_over_float32": ratios}


def communication(folder: pathlib.Path, rounds: int, steps: int) -> dict[str, Any]:
    """1 - step time of two independent concurrent workers / step time of the two under MWMS, by case."""
    cases: list[dict[str, Any]] = [
        {"name": "conv", "workload": "conv", "settings": {}},
        {"name": "mlp", "workload": "mlp", "settings": {}},
        {"name": "mlp bfloat16 reduce", "workload": "mlp", "settings": {"compress": "bfloat16"}},
        # Four micro-batches of the same size: four times the work for one all-reduce.
        {"name": "mlp accumulate 4", "workload": "mlp", "settings": {"batch_size": 512, "accumulate": 4}},
    ]
    shares: dict[str, list[float]] = {case["name"]: [] for case in cases}
    measured: dict[str, list[float]] = {case["name"]: [] for case in cases}
    for number in range(max(1, rounds // 2)):
        apart = run_workers(folder, cases, steps, f"apart{number}", together=False)
        together = run_workers(folder, cases, steps, f"together{number}", together=True)
        for name in shares:
            shares[name].append(1 - apart[name]["step_s"] / together[name]["step_s"])
            measured[name].append(together[name]["all_reduce_share"])
    return {
        name: {
            "communication_share": round(statistics.median(values), 3),
            "all_reduce_share_as_telemetry_says": round(statistics.median(measured[name]), 3),
        }
        for name, values in shares.items()
    }


def run_workers(
    folder: pathlib.Path, cases: list[dict[str, Any]], steps: int, name: str, *, together: bool
) -> dict[str, dict[str, float]]:
    """Two worker processes, as one cluster or each on its own; the mean of their numbers by case."""
    meeting = folder / name
    meeting.mkdir()
    spec = {"folder": str(meeting), "data": str(folder), "steps": steps, "workers": 2, "cases": cases}
    path = meeting / "spec.json"
    path.write_text(json.dumps(spec))
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    processes = []
    for index in range(2):
        environment = dict(os.environ, CUDA_VISIBLE_DEVICES="-1")
        if together:
            task = {"type": "worker", "index": index}
            environment["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
        command = [sys.executable, str(ROOT / "benchmarks" / "training_worker.py"), str(path), str(index)]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate(timeout=1200)[0] for process in processes]
    if any(process.returncode for process in processes):
        raise RuntimeError(f"a benchmark worker failed in {name}")
    results = [json.loads(output.strip().splitlines()[-1]) for output in outputs]
    return {
        case: {key: statistics.mean(result[case][key] for result in results) for key in results[0][case]}
        for case in results[0]
    }


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
    per_slice = num_examples // workload.batch_size // 10
    medians, memory = [], []
    for _ in range(10):
        records = engine.run(per_slice)
        medians.append(float(np.median(np.concatenate([r.step_s for r in records]))))
        memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return {
        "examples": num_examples,
        "step_ms_by_tenth": [round(value * 1e3, 3) for value in medians],
        "last_over_first_half": round(statistics.median(medians[5:]) / statistics.median(medians[:5]), 3),
        "peak_memory_mib_by_tenth": [round(value) for value in memory],
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
    result["speedup_over_float32"] = {name: round(seconds["float32"] / value, 2) for name, value in seconds.items()}
    if len(gpus) > 1:
        everywhere = Engine(WORKLOADS["conv"], folder, tf.distribute.MirroredStrategy(), ALONE, steps_per_loop=steps)
        alone = Engine(WORKLOADS["conv"], folder, one, ALONE, steps_per_loop=steps)
        times = take_turns({"one": alone.run, "all": everywhere.run}, rounds, steps)
        result["scaling"] = round(times["one"] / times["all"] * len(gpus), 2)
    else:
        result["scaling"] = f"{NOT_MEASURED}: one GPU"
    return result


if __name__ == "__main__":
    main()
