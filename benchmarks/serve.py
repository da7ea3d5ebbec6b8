"""What serving costs: batching against none, REST and gRPC over a bare session call, KServe's Python server, a push.

    python benchmarks/serve.py [--seconds 2] [--rounds 3] [--push-mb 1024] [--out build/bench/serve.json]

Everything compared is measured in one run on one machine, in rounds: each round measures every cell once, and a cell
keeps its median round, so that what else the machine does falls on all alike. Ratios are what to look at. The model is
a multilayer perceptron 784-2048-2048-10 in float32, one row a request.
"""

import argparse
import concurrent.futures
import contextlib
import functools
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLIENTS = (1, 8, 32)
BATCHING = """max_batch_size {{ value: 32 }}
batch_timeout_micros {{ value: {timeout} }}
num_batch_threads {{ value: 2 }}
max_enqueued_batches {{ value: 100 }}
allowed_batch_sizes: [1, 2, 4, 8, 16, 32]
"""
# "eager" takes what is there whenever a thread is free; "batched" waits up to 2 ms for a full batch.
WAYS = {"unbatched": None, "eager": BATCHING.format(timeout=0), "batched": BATCHING.format(timeout=2000)}
KSERVE = "kserve==0.21.0"
GOAL_BATCHING = 1.8
GOAL_PUSH = 1.5  # copied, made durable and checked, over cp + sha256; disks of virtual machines vary that much


def main() -> int:
    """Measure, print a table, write the JSON; 1 when batching misses its goal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="measurements of each cell, of which the median counts")
    parser.add_argument("--push-mb", type=int, default=1024, help="size of the pushed model; 0 leaves it out")
    parser.add_argument("--no-kserve", action="store_true", help="leave KServe's server out")
    parser.add_argument("--out", default=str(ROOT / "build" / "bench" / "serve.json"))
    args = parser.parse_args()
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    out = pathlib.Path(args.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"cpus": os.cpu_count(), "seconds": args.seconds, "rounds": args.rounds, "batching": WAYS}
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        work = pathlib.Path(scratch)
        _export_mlp(work / "mlp" / "1")
        _write_requests(work)
        result["in_process"] = _in_process(work, args)
        result["bare_call_ms"] = result["in_process"]["unbatched"][1]["p50_ms"]
        result |= _served(work, args)
        result["push"] = _push(work, args.push_mb) if args.push_mb else {"left_out": "--push-mb 0"}
    result["ratios"] = _ratios(result)
    result["targets"] = _targets(result)
    out.write_text(json.dumps(result, indent=1))
    _print(result, out)
    return 0 if result["targets"][0]["kept"] else 1


def _export_mlp(path: pathlib.Path) -> None:
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(0)
    sizes = (784, 2048, 2048, 10)
    module = tf.Module()
    module.weights = [
        tf.Variable(random.normal(0, n**-0.5, (n, m)).astype(np.float32)) for n, m in itertools.pairwise(sizes)
    ]

    @tf.function(input_signature=[tf.TensorSpec([None, 784], tf.float32, name="x")])
    def serve(x: Any) -> dict[str, Any]:
        for weights in module.weights[:-1]:
            x = tf.nn.relu(x @ weights)
        return {"scores": tf.nn.softmax(x @ module.weights[-1])}

    tf.saved_model.save(module, str(path), signatures={"serving_default": serve})


def _row() -> Any:
    import numpy as np

    return np.random.default_rng(1).random((1, 784)).astype(np.float32).round(4)


def _write_requests(work: pathlib.Path) -> None:
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name = "mlp"
    request.inputs["x"].CopyFrom(tf.make_tensor_proto(_row()))
    (work / "grpc.bin").write_bytes(request.SerializeToString())
    (work / "rest.bin").write_text(json.dumps({"instances": [[round(float(v), 4) for v in _row()[0]]]}))


def _in_process(work: pathlib.Path, args: argparse.Namespace) -> dict[str, Any]:
    """Requests a second of threads in this process: calls of their own against batches."""
    from modules.serving.batching import Batcher
    from modules.serving.batching_file import parse_batching
    from modules.serving.saved_model import LoadedModel

    with LoadedModel(str(work / "mlp" / "1")) as model, contextlib.ExitStack() as stack:
        calls = {}
        for way, parameters in WAYS.items():
            batcher = Batcher(model.run, parse_batching(parameters)) if parameters else None
            if batcher:
                stack.callback(batcher.close)
            calls[way] = functools.partial(batcher.run if batcher else model.run, model.signature(), {"x": _row()})
        return _rounds(calls, args, lambda call, clients: _hammer(call, clients, args.seconds))


def _rounds(
    subjects: dict[str, Any], args: argparse.Namespace, measure: Callable[[Any, int], dict[str, float]]
) -> dict[str, dict[int, dict[str, float]]]:
    """Every subject with every number of clients, in turn, several times; the median round of each."""
    seen: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(args.rounds):
        for clients in CLIENTS:
            for name, subject in subjects.items():
                seen.setdefault((name, clients), []).append(measure(subject, clients))
    found: dict[str, dict[int, dict[str, float]]] = {name: {} for name in subjects}
    for (name, clients), rounds in seen.items():
        found[name][clients] = sorted(rounds, key=lambda one: one["requests_per_second"])[len(rounds) // 2]
    return found


def _served(work: pathlib.Path, args: argparse.Namespace) -> dict[str, Any]:
    """The same over the network: a server for each way, and KServe's, all idle but the one that is measured."""
    subjects: dict[str, tuple[str, str]] = {}
    left_out = ""
    with contextlib.ExitStack() as stack:
        for way, parameters in WAYS.items():
            options = []
            if parameters:
                (work / f"{way}.config").write_text(parameters)
                options = ["--batching", str(work / f"{way}.config")]
            ready = stack.enter_context(_sluice_server(work, options))
            subjects[f"{way} grpc"] = ("grpc", ready["grpc"])
            subjects[f"{way} rest"] = ("rest", ready["rest"].removeprefix("http://"))
        if args.no_kserve:
            left_out = "--no-kserve"
        else:
            address, left_out = stack.enter_context(_kserve_server(work))
            if address:
                subjects["kserve rest"] = ("rest", address)
        found = _rounds(subjects, args, lambda where, clients: _load(where[0], where[1], work, clients, args.seconds))
    result: dict[str, Any] = {"kserve": {"left_out": left_out}} if left_out else {}
    for name, cells in found.items():
        way, protocol = name.split()
        result.setdefault(way, {})[protocol] = cells
    return result


def _hammer(call: Callable[[], object], clients: int, seconds: float) -> dict[str, float]:
    for _ in range(20):
        call()
    end = time.perf_counter() + seconds

    def client() -> list[float]:
        seen = []
        while (sent := time.perf_counter()) < end:
            call()
            seen.append(time.perf_counter() - sent)
        return seen

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        latencies = [value for future in [pool.submit(client) for _ in range(clients)] for value in future.result()]
    return _summary(latencies, seconds)


def _summary(latencies: list[float], seconds: float) -> dict[str, float]:
    ordered = sorted(latencies)
    at = lambda share: round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)  # noqa: E731
    return {"requests_per_second": round(len(ordered) / seconds, 1), "p50_ms": at(0.5), "p99_ms": at(0.99)}


@contextlib.contextmanager
def _sluice_server(work: pathlib.Path, options: list[str]) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", "pipeline.cli", "serve", str(work / "mlp"), "--port", "0", "--grpc-port", "0"]
    process = subprocess.Popen(
        [*command, "--json", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(60)


def _load(protocol: str, address: str, work: pathlib.Path, clients: int, seconds: float) -> dict[str, float]:
    body = str(work / f"{protocol}.bin")
    command = [str(ROOT / "benchmarks" / "serving_load.py"), protocol, address, "mlp", body, str(clients), str(seconds)]
    done = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True)
    seen = json.loads(done.stdout)
    if seen["errors"]:
        raise RuntimeError(f"{len(seen['errors'])} clients failed: {seen['errors'][0]}")
    return _summary(seen["latencies"], seconds)


@contextlib.contextmanager
def _kserve_server(work: pathlib.Path) -> Iterator[tuple[str, str]]:
    """KServe's Python server on the same model: its address, or why there is none."""
    site = ROOT / "build" / "bench" / KSERVE.replace("==", "-")  # a folder of its own, beside this environment
    if not site.is_dir():
        uv = ROOT / ".venv" / "tools" / "bin" / "uv"
        command = [str(uv), "pip", "install", "--quiet", "--python", sys.executable, "--target", str(site), KSERVE]
        if subprocess.run(command, check=False).returncode:
            shutil.rmtree(site, ignore_errors=True)
            yield "", f"{KSERVE} could not be installed"
            return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = work / "kserve.log"
    with log.open("w") as stream:
        command = [sys.executable, str(ROOT / "benchmarks" / "kserve_model.py"), str(work / "mlp" / "1"), str(port)]
        environment = {**os.environ, "PYTHONPATH": str(site)}
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment)
        try:
            if _answers(f"http://127.0.0.1:{port}/v1/models/mlp", process):
                yield f"127.0.0.1:{port}", ""
            else:
                yield "", f"the server did not start: {log.read_text()[-500:]}"
        finally:
            process.terminate()
            process.wait(60)


def _answers(url: str, process: "subprocess.Popen[bytes]") -> bool:
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                return response.status == 200
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    return False


def _push(work: pathlib.Path, megabytes: int) -> dict[str, Any]:
    """Deploying a large model against copying it and hashing it once, each from a cold start of its own file set."""
    model = work / "large"
    _export_table(model, megabytes)
    os.sync()
    started = time.perf_counter()
    shutil.copytree(model, work / "copied")
    for path in (work / "copied").rglob("*"):
        if path.is_file():
            with path.open("rb") as stream:
                hashlib.file_digest(stream, "sha256")
    os.sync()
    copied = time.perf_counter() - started
    shutil.rmtree(work / "copied")
    started = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "pipeline.cli",
        "push",
        str(model),
        "--to",
        str(work / "pushed"),
        "--name",
        "large",
    ]
    done = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True, cwd=ROOT)
    pushed = time.perf_counter() - started
    states = json.loads(done.stdout.splitlines()[-1])["seconds"]
    on_disk = sum(seconds for state, seconds in states.items() if state != "VERIFIED")
    return {
        "megabytes": megabytes,
        "copy_and_sha256_seconds": round(copied, 2),
        "push_seconds": round(pushed, 2),  # the whole process, imports and the verifying subprocess included
        "seconds_by_state": states,
        "push_over_copy": round(on_disk / copied, 2),  # everything but loading the model to verify it
    }


def _export_table(path: pathlib.Path, megabytes: int) -> None:
    import numpy as np
    import tensorflow as tf

    module = tf.Module()
    module.table = tf.Variable(np.random.default_rng(0).random((megabytes * 256, 1024), np.float32))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, name="row")])
    def serve(row: Any) -> dict[str, Any]:
        return {"values": tf.gather(module.table, row)[:, :4]}

    tf.saved_model.save(module, str(path), signatures={"serving_default": serve})


def _ratios(result: dict[str, Any]) -> dict[str, float]:
    """What the numbers come to; above 1 is better for batching and against KServe."""

    def rate(*path: Any) -> float:
        node = result
        for key in path:
            node = node[key]
        return node["requests_per_second"]

    ratios = {
        f"{way}_over_unbatched_{where}_32": rate(*path, 32) / rate(*base, 32)
        for way in ("eager", "batched")
        for where, path, base in (
            ("in_process", ("in_process", way), ("in_process", "unbatched")),
            ("grpc", (way, "grpc"), ("unbatched", "grpc")),
            ("rest", (way, "rest"), ("unbatched", "rest")),
        )
    }
    for protocol in ("grpc", "rest"):
        ratios[f"{protocol}_overhead_ms"] = result["unbatched"][protocol][1]["p50_ms"] - result["bare_call_ms"]
    if "rest" in result["kserve"]:
        for clients in CLIENTS:
            kserve = rate("kserve", "rest", clients)
            for way in WAYS:
                ratios[f"{way}_over_kserve_rest_{clients}"] = rate(way, "rest", clients) / kserve
    return {name: round(value, 3) for name, value in ratios.items()}


def _targets(result: dict[str, Any]) -> list[dict[str, Any]]:
    """What was promised beside what was measured; the first decides the exit code."""
    gain = max(result["ratios"][f"{way}_over_unbatched_in_process_32"] for way in ("eager", "batched"))
    targets = [("batching over none, in process, 32 clients", f">= {GOAL_BATCHING}", gain, gain >= GOAL_BATCHING)]
    if "push_over_copy" in result["push"]:
        ratio = result["push"]["push_over_copy"]
        targets.append(("push on disk over cp + sha256", f"<= {GOAL_PUSH}", ratio, ratio <= GOAL_PUSH))
    return [dict(zip(("what", "target", "measured", "kept"), target, strict=True)) for target in targets]


def _print(result: dict[str, Any], out: pathlib.Path) -> None:
    print(f"{'':24}{'clients':>8}{'req/s':>10}{'p50 ms':>10}{'p99 ms':>10}")
    lines = [(f"in process, {way}", result["in_process"][way]) for way in WAYS]
    lines += [(f"{protocol}, {way}", result[way][protocol]) for way in WAYS for protocol in ("grpc", "rest")]
    lines.append(("rest, kserve", result["kserve"].get("rest", {})))
    for name, by_clients in lines:
        for clients, seen in by_clients.items():
            print(f"{name:24}{clients:>8}{seen['requests_per_second']:>10}{seen['p50_ms']:>10}{seen['p99_ms']:>10}")
    print(f"bare session call: {result['bare_call_ms']} ms")
    if "push_seconds" in result["push"]:
        line = "push of {megabytes} MB: {push_seconds} s, on disk {push_over_copy} x cp + sha256; {seconds_by_state}"
        print(line.format(**result["push"]))
    for name, value in result["ratios"].items():
        print(f"  {name:40} {value}")
    for target in result["targets"]:
        print(
            "{what}: target {target}, measured {measured}: {0}".format("kept" if target["kept"] else "MISSED", **target)
        )
    print(f"written to {out}")


if __name__ == "__main__":
    sys.exit(main())
