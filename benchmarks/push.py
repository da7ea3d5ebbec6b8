"""Deploying a large model at disk speed: the Pusher against `cp -r` + `sync` + `sha256sum`, and stock TFX's copies.

    python benchmarks/push.py [--megabytes 1024] [--rounds 3] [--output build/bench/push.json]

Expected: the Pusher's copy, checked and durable, takes about as long as copying and hashing with the system's own
tools (ratio near 1); loading the model to verify it comes on top and is printed apart. Every way starts with the source
in the page cache and an empty target; the ways take turns, and the medians are compared.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

GOAL = 1.5  # near 1, with room for what a shared disk varies by

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build" / "bench" / "push.json")
    parser.add_argument("--export", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.export:
        export(args.export, args.megabytes)
        return
    args.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.output.parent) as scratch:
        result = measure(pathlib.Path(scratch), args.megabytes, args.rounds)
    args.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for name, value in result.items():
        print(f"{name:34} {value}")
    ratio = result["ratio_to_cp_sync_sha256"]
    verdict = "kept" if ratio <= GOAL else "MISSED"
    print(f"copy to published over cp + sync + sha256: target <= {GOAL}, measured {ratio}: {verdict}")
    print(f"written to {args.output}")


def export(folder: pathlib.Path, megabytes: int) -> None:
    """A SavedModel whose one variable has `megabytes` MB of random values, so that nothing compresses or is sparse."""
    import tensorflow as tf

    class Large(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = tf.Variable(tf.random.stateless_uniform([megabytes << 18], seed=[1, 2]))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int32)])
        def serve(self, rows):
            return {"values": tf.gather(self.table, rows)}

    model = Large()
    tf.saved_model.save(model, str(folder), signatures=model.serve)


def measure(scratch: pathlib.Path, megabytes: int, rounds: int) -> dict:
    """Seconds by way, and their ratios."""
    model = scratch / "model"
    subprocess.run([sys.executable, __file__, "--export", str(model), "--megabytes", str(megabytes)], check=True)
    ways: dict[str, Callable[[pathlib.Path], dict[str, float]]] = {
        "system": lambda target: {"system": system_copy(model, target)},
        "pusher": lambda target: pusher(model, target),
        "stock": lambda target: {"stock": stock_copy(model, target)},
    }
    seconds: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, way in ways.items():
            target = scratch / name
            target.mkdir()
            subprocess.run(["cat", *map(str, model.rglob("*.data*"))], stdout=subprocess.DEVNULL, check=True)
            os.sync()
            for key, value in way(target).items():
                seconds.setdefault(key, []).append(value)
            shutil.rmtree(target)
    medians = {name: round(statistics.median(values), 3) for name, values in seconds.items()}
    return {
        "megabytes": megabytes,
        "rounds": rounds,
        "cores": os.cpu_count(),
        "cp_sync_sha256_s": medians["system"],
        "pusher_copy_to_published_s": medians["copy"],
        "pusher_verification_s": medians["verification"],
        "pusher_unchanged_s": medians["unchanged"],
        "stock_tfx_copies_s": medians["stock"],
        "ratio_to_cp_sync_sha256": round(medians["copy"] / medians["system"], 3),
        "megabytes_per_s": round(megabytes / medians["copy"], 1),
        "all_s": seconds,
    }


def system_copy(model: pathlib.Path, target: pathlib.Path) -> float:
    """Copy, make durable, hash: what one would do by hand and be as sure."""
    started = time.monotonic()
    subprocess.run(["cp", "-r", str(model), str(target / "1")], check=True)
    files = [str(path) for path in (target / "1").rglob("*") if path.is_file()]
    subprocess.run(["sync", *files], check=True)  # these files only, as the Pusher does
    subprocess.run(["sha256sum", *files], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - started


def pusher(model: pathlib.Path, target: pathlib.Path) -> dict[str, float]:
    """A whole push; verification apart, since the others do not load the model. Then the same model once more."""
    from components.pusher.config import PushTarget
    from components.pusher.deployer import Deployer

    where = PushTarget(base=str(target), name="large")
    result = Deployer(where).push(model)
    copying = sum(spent for state, spent in result.seconds.items() if state != "VERIFIED")
    started = time.monotonic()
    assert Deployer(where).push(model).outcome == "unchanged"
    unchanged = time.monotonic() - started
    return {"copy": copying, "verification": result.seconds["VERIFIED"], "unchanged": unchanged}


def stock_copy(model: pathlib.Path, target: pathlib.Path) -> float:
    """What TFX's Pusher does: a copy to the destination and one to its output artifact, neither checked nor durable."""
    from tfx.utils import io_utils

    started = time.monotonic()
    for place in ("serving", "pushed_model"):
        io_utils.copy_dir(str(model), str(target / place), deny_regex_patterns=[r"saved_model\.pb"])
        io_utils.copy_file(str(model / "saved_model.pb"), str(target / place / "saved_model.pb"))
    return time.monotonic() - started


if __name__ == "__main__":
    main()
