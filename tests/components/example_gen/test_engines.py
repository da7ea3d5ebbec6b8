"""The same ingestion on other engines: another process's workers, and Flink where its job server is."""

import collections
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import pytest

from components.example_gen import report
from components.example_gen.config import IngestConfig
from components.example_gen.ingest import ingest

ROWS = "a,b,s\n" + "".join(f"{i},{i * 0.5 if i > 1500 else i},text {i}\n" for i in range(3000))


def run(folder, output, flags):
    """(rows per split, every record counted) of an ingestion; chunks of 8 KiB, so that there are several."""
    import apache_beam as beam
    import tensorflow as tf

    make_pipeline = (lambda: beam.Pipeline(argv=flags)) if flags else None
    config = IngestConfig(chunk_bytes=8192, shards=2, workers=1)
    done = ingest({"": str(folder)}, str(output), config, make_pipeline)
    content = report.summarize(done)
    assert content["columns"] == {"a": "int64_list", "b": "float_list", "s": "bytes_list"}
    assert 0 < content["converted_again"] < content["chunks"]
    files = [str(path) for path in output.glob("Split-*/*")]
    records = tf.data.TFRecordDataset(files, compression_type="GZIP").as_numpy_iterator()
    return content["splits"], collections.Counter(records)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "d.csv").write_text(ROWS)
    return folder


def wait_for(condition, process):
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, f"{process.args} ended"
        assert time.monotonic() < deadline, f"{process.args} did not get ready"
        time.sleep(0.05)


@contextlib.contextmanager
def service(module, *arguments):
    """A module run as a server in a process of its own; workers that it starts find `python` and the project."""
    environment = os.environ | {
        "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}",
        "PYTHONPATH": str(pathlib.Path(__file__).parents[3]),
    }
    command = [sys.executable, "-m", module, *arguments]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=environment, start_new_session=True, **quiet)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its workers too
        process.wait(timeout=30)


@contextlib.contextmanager
def job_service(tmp_path):
    """The endpoint of Beam's portable job service."""
    port_file = tmp_path / "port"
    with service("apache_beam.runners.portability.local_job_service_main", "--port_file", str(port_file)) as process:
        wait_for(lambda: port_file.exists() and port_file.read_text().strip(), process)
        yield f"localhost:{port_file.read_text().strip()}"


@contextlib.contextmanager
def worker_pool():
    """The address of a pool that starts worker processes when an engine asks for them, as a pod's second container."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    with service("apache_beam.runners.worker.worker_pool_main", f"--service_port={port}") as process:
        wait_for(lambda: socket.socket().connect_ex(("localhost", port)) == 0, process)
        yield f"localhost:{port}"


@pytest.mark.e2e
def test_a_portable_job_service_gives_what_this_process_gives(folder, tmp_path):
    """Beam's portable path: the pipeline is serialized, sent to a job service, and its workers call back."""
    with job_service(tmp_path) as endpoint:
        flags = ["--runner=PortableRunner", f"--job_endpoint={endpoint}", "--environment_type=LOOPBACK"]
        assert run(folder, tmp_path / "portable", flags) == run(folder, tmp_path / "here", [])


@pytest.mark.e2e
def test_workers_of_a_pool_give_what_this_process_gives(folder, tmp_path):
    """As on a cluster: workers are processes that know nothing but what the job service tells them."""
    with job_service(tmp_path) as endpoint, worker_pool() as pool:
        flags = ["--runner=PortableRunner", f"--job_endpoint={endpoint}"]
        flags += ["--environment_type=EXTERNAL", f"--environment_config={pool}", "--environment_cache_millis=60000"]
        assert run(folder, tmp_path / "pool", flags) == run(folder, tmp_path / "here", [])


@pytest.mark.flink
@pytest.mark.parametrize("workers", ["LOOPBACK", "EXTERNAL"])
def test_flink_gives_what_this_process_gives(folder, tmp_path, workers):
    """An embedded Flink; workers in this process, or processes of a pool."""
    with worker_pool() as pool:
        flags = [*flink_flags(), f"--environment_type={workers}"]
        flags += [f"--environment_config={pool}"] if workers == "EXTERNAL" else []
        assert run(folder, tmp_path / "flink", flags) == run(folder, tmp_path / "here", [])


def flink_flags():
    """Beam fetches the job server of its own version, unless FLINK_JOB_SERVER_JAR names one."""
    jar = os.environ.get("FLINK_JOB_SERVER_JAR")
    server = [f"--flink_job_server_jar={jar}"] if jar else []
    return ["--runner=FlinkRunner", "--flink_master=[local]", "--parallelism=2", *server]
