"""The entrypoint's parts: paths and back, types of properties, nulls, plans, exit codes, metrics of a step."""

import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest
from tfx.types import standard_artifacts

from components.artifacts import DataVerdict
from kubeflow import artifact_codec, blessed_model, executor_input, launcher_paths, plan, portable, report_outcome
from kubeflow.errors import CompileError, StepInputError

PROJECT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("minio://mlpipeline/v2/a", "/minio/mlpipeline/v2/a"),
        ("s3://b/k", "/s3/b/k"),
        ("gs://b/k", "/gcs/b/k"),
        ("/mnt/data", "/mnt/data"),
    ],
)
def test_paths_of_the_launcher(uri, path):
    assert launcher_paths.local_path(uri) == path


def test_custom_path_wins_and_another_root_is_possible(monkeypatch):
    assert launcher_paths.local_path("s3://b/k", "/here") == "/here"
    monkeypatch.setenv("SLUICE_LAUNCHER_ROOT", "/box")
    assert launcher_paths.local_path("s3://b/k") == "/box/s3/b/k"


def test_paths_in_properties_become_uris_longest_first():
    uris = {"/s3/b/model": "s3://b/model", "/s3/b/model/deep": "s3://c/deep"}
    value = {"a": "/s3/b/model/deep/x", "b": ["/s3/b/model", 3, None]}
    assert launcher_paths.with_uris(value, uris) == {"a": "s3://c/deep/x", "b": ["s3://b/model", 3, None]}


def runtime(metadata: dict, name: str = "42") -> executor_input.RuntimeArtifact:
    return executor_input.RuntimeArtifact(name=name, uri="s3://b/k", path="/s3/b/k", metadata=metadata)


def test_properties_survive_kubeflows_store():
    sent = {
        "span": 3.0,
        "split_names": '["train"]',
        "blessed": 1.0,
        "ratio": 0.5,
        "note": "x",
        "list": {"list": [1, "a"]},
    }
    sent |= {"display_name": "examples", "store_session_info": "{}"}
    made = artifact_codec.to_tfx(runtime(sent), "tfx.types.standard_artifacts.Examples")
    assert isinstance(made, standard_artifacts.Examples)
    assert (made.uri, made.id, made.span, made.split_names) == ("/s3/b/k", 42, 3, '["train"]')
    assert made.get_int_custom_property("blessed") == 1
    assert made.get_float_custom_property("ratio") == 0.5
    assert made.get_string_custom_property("note") == "x"
    assert made.get_json_value_custom_property("list") == [1, "a"]
    back = artifact_codec.metadata(made)
    assert not {"display_name", "store_session_info"} & back.keys()
    assert back["span"] == 3
    assert back["list"] == [1, "a"]


def test_own_types_and_ids_that_are_no_numbers():
    made = artifact_codec.to_tfx(runtime({"accepted": 1.0}, "artifacts/abc"), "components.artifacts.DataVerdict")
    assert isinstance(made, DataVerdict)
    assert made.accepted == 1
    assert 0 < made.id < 1 << 63


def test_class_that_the_image_lacks():
    with pytest.raises(StepInputError, match=r"has no nowhere\.Type .* other code"):
        artifact_codec.load_class("nowhere.Type")


def request_json(folder: pathlib.Path) -> str:
    kind = {"schemaTitle": "tfx.Model"}
    return json.dumps(
        {
            "inputs": {"artifacts": {"model": {"artifacts": [{"name": "1", "uri": "s3://b/in", "type": {}}]}}},
            "outputs": {
                "artifacts": {"out": {"artifacts": [{"name": "out", "uri": "s3://b/out", "type": kind}]}},
                "parameters": {"p": {"outputFile": "/tmp/kfp/outputs/p"}},
                "outputFile": str(folder / "s3/b/output_metadata.json"),
            },
            "somethingNew": True,
        }
    )


def test_output_has_no_nulls_no_local_paths_and_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("SLUICE_LAUNCHER_ROOT", str(tmp_path))
    request = executor_input.ExecutorInput.from_json(request_json(tmp_path))
    metadata = {"gone": None, "model": f"{tmp_path}/s3/b/in/x", "deep": {"gone": None, "kept": 1}}
    metadata |= {"loss": float("nan"), "list": [float("-inf"), 1.5]}
    request.write_output({"out": metadata}, {"p": "v"})
    said = json.loads((tmp_path / "s3/b/output_metadata.json").read_text())
    [artifact] = said["artifacts"]["out"]["artifacts"]
    kept = {"model": "s3://b/in/x", "deep": {"kept": 1}, "loss": "nan", "list": ["-inf", 1.5]}
    assert artifact == {"name": "out", "uri": "s3://b/out", "metadata": kept}
    assert said["parameterValues"] == {"p": "v"}
    assert launcher_paths.has_files(str(tmp_path / "s3/b/out"))


def test_what_argo_would_take_for_a_template():
    """A rejection quotes values of the data, and anybody may write those."""
    assert executor_input.without_templates("country: {{{workflow.name}}") == "country: { { {workflow.name}}"
    assert executor_input.without_templates('{"a": {"b": 1}}') == '{"a": {"b": 1}}'


def test_plan_is_read_back():
    condition = plan.ConditionOutput(output="blessing", key="blessed", numeric=True)
    made = plan.StepPlan(step="S", executor="a.B", conditions={"c": condition}, exec_properties={"n": "int"}, page=True)
    assert plan.StepPlan.from_json(made.to_json()) == made


def test_packages_become_paths_again(tmp_path):
    path = portable.from_image("package:modules/taxi/schema.pbtxt")
    assert pathlib.Path(path).is_file()
    assert portable.to_image(path, "s", "k", ()) == "package:modules/taxi/schema.pbtxt"
    assert portable.to_image(str(tmp_path), "s", "k", (str(tmp_path),)) == str(tmp_path)
    assert portable.to_image("/mnt/nowhere", "s", "k", ()) == "/mnt/nowhere"
    settings = json.dumps({"schema_file": path, "deep": [{"again": json.dumps({"file": path})}], "delimiter": "/"})
    sent = portable.to_image(settings, "s", "k", ())
    assert str(PROJECT) not in sent
    assert json.loads(sent)["schema_file"] == "package:modules/taxi/schema.pbtxt"
    assert json.loads(portable.from_image(sent)) == json.loads(settings)
    untouched = '{"b":1,  "a": "/mnt/nowhere"}'
    assert portable.to_image(untouched, "s", "k", ()) == untouched
    with pytest.raises(CompileError, match=r"step 's': k is .* no pod sees"):
        portable.to_image(json.dumps({"file": str(tmp_path)}), "s", "k", ())
    with pytest.raises(StepInputError, match="the image has no package 'nowhere'"):
        portable.from_image("package:nowhere/x")


STEP = """
import sys
from kubeflow import step_process
class Told(Exception):
    exit_code = 3
def work():
    {body}
sys.exit(step_process.guarded("Gate", work))
"""


def run_step(body: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", STEP.format(body=body)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT), **environment},
    )


def test_exit_code_and_one_line_for_what_people_caused():
    result = run_step("raise Told('fare: 12 % of the rows are negative')")
    assert result.returncode == 3
    [line] = result.stderr.splitlines()
    assert line.startswith("Gate ")
    assert line.endswith("s: fare: 12 % of the rows are negative")


def test_trace_and_one_for_the_unexpected():
    result = run_step("raise KeyError('x')")
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].endswith("KeyError('x')")


class _Gateway(http.server.BaseHTTPRequestHandler):
    received: list[tuple[str, str]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.received.append((self.path, body))
        self.send_response(202)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def test_metrics_reach_a_pushgateway_and_its_absence_harms_nobody():
    server = http.server.HTTPServer(("127.0.0.1", 0), _Gateway)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02))
    thread.start()
    address = f"127.0.0.1:{server.server_address[1]}"
    try:
        assert run_step("raise Told('no')", SLUICE_PUSHGATEWAY=address, SLUICE_PIPELINE="taxi").returncode == 3
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    [(path, body)] = _Gateway.received
    assert path == "/metrics/job/sluice/pipeline/taxi/step/Gate"
    assert "sluice_step_last_exit_code 3.0" in body
    result = run_step("pass", SLUICE_PUSHGATEWAY=address)
    assert result.returncode == 0
    assert "did not take the metrics" in result.stderr


def test_step_ends_when_its_launcher_dies():
    """The launcher is killed; the step gets SIGTERM and may clean up."""
    body = "import signal, time; signal.signal(15, lambda *_: sys.exit(9)); print(1, flush=True); time.sleep(60)"
    step = STEP.format(body=body)
    launcher = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {step!r}])"
    process = subprocess.Popen(
        [sys.executable, "-c", launcher],
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(PROJECT)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"1\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout.read() == b""  # the pipe closes when the step, which holds its other end, is gone


def test_outcome_message():
    status = {"state": "FAILED", "pipelineTaskName": "pipeline", "error": {"message": "trainer: OOMKilled"}}
    message = report_outcome.outcome_of({"status": status, "run_name": "nightly", "run_id": "r1"})
    assert message == {
        "run": "nightly",
        "run_id": "r1",
        "succeeded": False,
        "state": "FAILED",
        "error": "trainer: OOMKilled",
    }
    assert report_outcome.outcome_of({"status": {"state": "COMPLETE"}})["succeeded"]


def test_baseline_is_what_was_there_before_the_candidate(tmp_path):
    from components.model_registry.registry import ModelRegistry

    registry = ModelRegistry(str(tmp_path / "registry"), "taxi")
    assert blessed_model.baseline_version(str(tmp_path / "registry"), "taxi", None) is None
    folders = []
    for number in range(3):
        folder = tmp_path / f"model-{number}"
        folder.mkdir()
        (folder / "saved_model.pb").write_text(str(number))
        folders.append(folder)
    for folder in folders[:2]:
        registry.promote(registry.register(folder).version, "stable")
    root = str(tmp_path / "registry")
    assert blessed_model.baseline_version(root, "taxi", folders[2]) == 2
    assert blessed_model.baseline_version(root, "taxi", folders[1]) == 1
    assert blessed_model.baseline_version(root, "taxi", folders[0]) is None
    registry.promote(1, "stable")
    assert blessed_model.baseline_version(root, "taxi", folders[2]) == 1
