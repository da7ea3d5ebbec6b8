"""The same ingestion on other engines: another process's workers, and Flink where its job server is."""

import collections
import os
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


@pytest.mark.e2e
def test_a_portable_job_service_gives_what_this_process_gives(folder, tmp_path):
    """Beam's portable path: the pipeline is serialized, sent to a job service, and its workers call back."""
    command = [sys.executable, "-m", "apache_beam.runners.portability.local_job_service_main", "--port_file"]
    port_file = tmp_path / "port"
    service = subprocess.Popen([*command, str(port_file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 120
        while not (port_file.exists() and port_file.read_text().strip()):
            assert service.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        endpoint = f"localhost:{port_file.read_text().strip()}"
        flags = ["--runner=PortableRunner", f"--job_endpoint={endpoint}", "--environment_type=LOOPBACK"]
        assert run(folder, tmp_path / "portable", flags) == run(folder, tmp_path / "here", [])
    finally:
        service.terminate()
        service.wait(timeout=30)


@pytest.mark.flink
def test_flink_gives_what_this_process_gives(folder, tmp_path):
    """An embedded Flink. FLINK_JOB_SERVER_JAR is the path of a beam-runners-flink-*-job-server jar."""
    jar = os.environ.get("FLINK_JOB_SERVER_JAR")
    if not jar:
        pytest.fail("set FLINK_JOB_SERVER_JAR to a beam-runners-flink-<version>-job-server jar")
    flags = ["--runner=FlinkRunner", "--flink_master=[local]", f"--flink_job_server_jar={jar}"]
    flags += ["--environment_type=LOOPBACK", "--parallelism=2"]
    assert run(folder, tmp_path / "flink", flags) == run(folder, tmp_path / "here", [])
