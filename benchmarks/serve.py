"""What serving costs: batching against none, REST and gRPC over a bare session call, KServe's Python server, a push.

    python benchmarks/serve.py [--seconds 4] [--push-mb 1024] [--out build/bench/serve.json]

Everything compared is measured in one run on one machine; ratios are what to look at. The model is a multilayer
perceptron 784-2048-2048-10 in float32, one row a request.
"""

import argparse
import concurrent.futures
import contextlib
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
BATCHING = """max_batch_size { value: 32 }
batch_timeout_micros { value: 2000 }
num_batch_threads { value: 2 }
max_enqueued_batches { value: 100 }
allowed_batch_sizes: [1, 2, 4, 8, 16, 32]
"""
KSERVE = "kserve==0.21.0"
GOAL_BATCHING = 1.8


def main() -> int:
    """Measure, print a table, write the JSON; 1 when batching misses its goal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="length of each measurement")
    parser.add_argument("--push-mb", type=int, default=1024, help="size of the pushed model; 0 leaves it out")
    parser.add_argument("--no-kserve", action="store_true", help="leave KServe's server out")
    parser.add_argument("--out", default=str(ROOT / "build" / "bench" / "serve.json"))
    args = parser.parse_args()
    os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    out = pathlib.Path(args.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"cpus": os.cpu_count(), "seconds": args.seconds, "batching": BATCHING}
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        work = pathlib.Path(scratch)
        _export_mlp(work / "mlp" / "1")
        _write_requests(work)
        (work / "batching.config").write_text(BATCHING)
        result["in_process"] = _in_process(work, args.seconds)
        result["bare_call_ms"] = result["in_process"].pop("bare_call_ms")
        for name, options in (("unbatched", []), ("batched", ["--batching", str(work / "batching.config")])):
            with _sluice_server(work, options) as ready:
                result[name] = {
                    protocol: {clients: _load(protocol, address, work, clients, args.seconds) for clients in CLIENTS}
                    for protocol, address in (("grpc", ready["grpc"]), ("rest", ready["rest"].removeprefix("http://")))
                }
        result["kserve"] = {"left_out": "--no-kserve"} if args.no_kserve else _kserve(work, args.seconds)
        result["push"] = _push(work, args.push_mb) if args.push_mb else {"left_out": "--push-mb 0"}
    result["ratios"] = _ratios(result)
    out.write_text(json.dumps(result, indent=1))
    _print(result, out)
    return 0 if result["ratios"]["batching_in_process_32"] >= GOAL_BATCHING else 1


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


def _in_process(work: pathlib.Path, seconds: float) -> dict[str, Any]:
    """Requests a second of threads in this process: calls of their own against batches."""
    from modules.serving.batching import Batcher
    from modules.serving.batching_file import parse_batching
    from modules.serving.saved_model import LoadedModel

    inputs = {"x": _row()}
    found: dict[str, Any] = {"unbatched": {}, "batched": {}}
    with LoadedModel(str(work / "mlp" / "1")) as model:
        signature = model.signature()
        bare = _hammer(lambda: model.run(signature, inputs), 1, seconds)
        found["bare_call_ms"] = bare["p50_ms"]
        batcher = Batcher(model.run, parse_batching(BATCHING))
        for clients in CLIENTS:
            found["unbatched"][clients] = _hammer(lambda: model.run(signature, inputs), clients, seconds)
            found["batched"][clients] = _hammer(lambda: batcher.run(signature, inputs), clients, seconds)
        batcher.close()
    return found


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


def _kserve(work: pathlib.Path, seconds: float) -> dict[str, Any]:
    """KServe's Python server on the same model over REST, from a folder of its own beside this environment."""
    site = ROOT / "build" / "bench" / KSERVE.replace("==", "-")
    if not site.is_dir():
        uv = ROOT / ".venv" / "tools" / "bin" / "uv"
        command = [str(uv), "pip", "install", "--quiet", "--python", sys.executable, "--target", str(site), KSERVE]
        if subprocess.run(command, check=False).returncode:
            shutil.rmtree(site, ignore_errors=True)
            return {"left_out": f"{KSERVE} could not be installed"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    log = work / "kserve.log"
    with log.open("w") as stream:
        command = [sys.executable, str(ROOT / "benchmarks" / "kserve_model.py"), str(work / "mlp" / "1"), str(port)]
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment)
        try:
            if not _answers(f"http://127.0.0.1:{port}/v1/models/mlp", process):
                return {"left_out": f"the server did not start: {log.read_text()[-500:]}"}
            return {
                "rest": {clients: _load("rest", f"127.0.0.1:{port}", work, clients, seconds) for clients in CLIENTS}
            }
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
        "batching_in_process_32": rate("in_process", "batched", 32) / rate("in_process", "unbatched", 32),
        "batching_grpc_32": rate("batched", "grpc", 32) / rate("unbatched", "grpc", 32),
        "batching_rest_32": rate("batched", "rest", 32) / rate("unbatched", "rest", 32),
        "grpc_overhead_ms": result["unbatched"]["grpc"][1]["p50_ms"] - result["bare_call_ms"],
        "rest_overhead_ms": result["unbatched"]["rest"][1]["p50_ms"] - result["bare_call_ms"],
    }
    if "rest" in result["kserve"]:
        for clients in CLIENTS:
            kserve = rate("kserve", "rest", clients)
            ratios[f"unbatched_over_kserve_{clients}"] = rate("unbatched", "rest", clients) / kserve
            ratios[f"batched_over_kserve_{clients}"] = rate("batched", "rest", clients) / kserve
    return {name: round(value, 3) for name, value in ratios.items()}


def _print(result: dict[str, Any], out: pathlib.Path) -> None:
    print(f"{'':24}{'clients':>8}{'req/s':>10}{'p50 ms':>10}{'p99 ms':>10}")
    lines = [("in process, unbatched", result["in_process"]["unbatched"])]
    lines.append(("in process, batched", result["in_process"]["batched"]))
    for name in ("unbatched", "batched"):
        lines += [(f"{protocol}, {name}", result[name][protocol]) for protocol in ("grpc", "rest")]
    lines.append(("kserve rest", result["kserve"].get("rest", {})))
    for name, by_clients in lines:
        for clients, seen in by_clients.items():
            print(f"{name:24}{clients:>8}{seen['requests_per_second']:>10}{seen['p50_ms']:>10}{seen['p99_ms']:>10}")
    print(f"bare session call: {result['bare_call_ms']} ms")
    if "push_seconds" in result["push"]:
        line = "push of {megabytes} MB: {push_seconds} s, on disk {push_over_copy} x cp + sha256; {seconds_by_state}"
        print(line.format(**result["push"]))
    for name, value in result["ratios"].items():
        print(f"  {name:28} {value}")
    print(f"written to {out}")


if __name__ == "__main__":
    sys.exit(main())
