"""Worker processes, and ingestions that are killed."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from components.example_gen import local_pool

ROOT = pathlib.Path(__file__).resolve().parents[3]


def big_csv(path, rows):
    with open(path, "w") as file:
        file.write("a,b,c\n")
        for start in range(0, rows, 1000):
            file.write("".join(f"{i},{i * 0.5},text {i}\n" for i in range(start, start + 1000)))


def test_processes_give_what_one_process_gives(ingest_files):
    content = "a,b\n" + "".join(f"{i},{i * 0.25}\n" for i in range(2000))
    alone = ingest_files({"d.csv": content}, chunk_bytes=4096)
    together = ingest_files({"d.csv": content}, chunk_bytes=4096, workers=2)
    assert [path.read_bytes() for path in sorted(alone.output.glob("Split-*/*"))] == [
        path.read_bytes() for path in sorted(together.output.glob("Split-*/*"))
    ]


def test_errors_in_a_process_come_back(ingest_files):
    with pytest.raises(ValueError, match=r"d\.csv:3"):
        ingest_files({"d.csv": "a,b\n1,2\n3\n"}, workers=2)


def test_a_process_that_dies_is_an_error_that_says_so():
    pool = local_pool.LocalPool(1)
    try:
        with pytest.raises(RuntimeError, match="exit code"):
            pool.submit(os.abort).result(timeout=60)
    finally:
        pool.close()


@pytest.mark.e2e
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_ingestion_leaves_nothing_that_looks_whole(how, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    big_csv(folder / "d.csv", 150_000)
    output = tmp_path / "out" / "examples"
    output.parent.mkdir()
    command = [sys.executable, "-m", "pipeline.cli", "ingest", "--input", str(folder), "--output", str(output)]
    command += ["--chunk-bytes", "65536", "--workers", "2"]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list(output.parent.rglob("*-first-*")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(how)
    assert process.wait(timeout=60) != 0
    assert not output.exists()
    visible = [path.name for path in output.parent.iterdir() if not path.name.startswith(".")]
    assert visible == []
    if how != signal.SIGKILL:
        assert process.returncode == {signal.SIGTERM: 143, signal.SIGINT: 130}[how]
        assert list(output.parent.iterdir()) == []
        return
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert (output / "report.json").exists()
