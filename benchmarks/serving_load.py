"""Clients that keep a model server busy: one process, many threads, one JSON line with what they saw.

    python benchmarks/serving_load.py grpc 127.0.0.1:8500 mlp BODY_FILE CLIENTS SECONDS

Each client sends its next request when the last is answered. The request is built once and answers are not parsed,
so that the clients take as little of the machine as they can.
"""

import http.client
import json
import pathlib
import sys
import threading
import time
from collections.abc import Callable

WARM_UP_SECONDS = 1.0


def main() -> None:
    """Run the clients and print the latencies in seconds."""
    protocol, address, model, body_file, clients, seconds = sys.argv[1:]
    body = pathlib.Path(body_file).read_bytes()
    latencies: list[list[float]] = [[] for _ in range(int(clients))]
    start = time.perf_counter()
    errors: list[str] = []
    threads = [
        threading.Thread(target=_client, args=(protocol, address, model, body, start, float(seconds), seen, errors))
        for seen in latencies
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    json.dump({"latencies": [value for seen in latencies for value in seen], "errors": errors}, sys.stdout)


def _client(
    protocol: str,
    address: str,
    model: str,
    body: bytes,
    start: float,
    seconds: float,
    seen: list[float],
    errors: list[str],
) -> None:
    try:
        call = _grpc(address) if protocol == "grpc" else _rest(address, model)
        while (sent := time.perf_counter()) < start + WARM_UP_SECONDS + seconds:
            call(body)
            if sent >= start + WARM_UP_SECONDS:
                seen.append(time.perf_counter() - sent)
    except Exception as error:  # counted by the benchmark, which fails when there is any
        errors.append(f"{type(error).__name__}: {error}")


def _grpc(address: str) -> Callable[[bytes], object]:
    import grpc

    # A channel for each client, as separate clients would have; by default they would share one connection.
    channel = grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
    return channel.unary_unary("/tensorflow.serving.PredictionService/Predict")


def _rest(address: str, model: str) -> Callable[[bytes], object]:
    connection = http.client.HTTPConnection(address)

    def call(body: bytes) -> None:
        connection.request("POST", f"/v1/models/{model}:predict", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        text = response.read()
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {text[:200]!r}")

    return call


if __name__ == "__main__":
    main()
