"""The commands that talk to Kubeflow, against a real HTTP server that speaks its API."""

import json
import pathlib
import ssl
import subprocess
from collections.abc import Iterator

import kfp_server
import pytest
import yaml
from small_pipeline import PLATFORM, SPEC

from kubeflow import auth, client, pods
from kubeflow.errors import KubeflowError
from pipeline import cli


@pytest.fixture
def pipeline_file(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump_all([SPEC, PLATFORM]))
    return str(path)


@pytest.fixture
def server() -> Iterator[kfp_server.Server]:
    with kfp_server.Server() as running:
        yield running


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch) -> None:
    """Whatever cluster this machine's kubectl knows is none of ours."""
    monkeypatch.setattr(pods, "call", lambda *arguments: subprocess.CompletedProcess(arguments, 1, "", "no cluster"))


def connect(server: kfp_server.Server, **values) -> client.KubeflowClient:
    return client.KubeflowClient(client.Connection(host=server.url, **values), pause=lambda _: None)


def submit(server: kfp_server.Server, pipeline_file: str, *extra: str) -> int:
    return cli.main(["submit", "--pipeline", pipeline_file, "--host", server.url, "--param", "steps=3", *extra])


def details(*states: tuple[str, str]) -> dict:
    tasks = [{"display_name": "root-driver", "state": "SUCCEEDED"}, {"display_name": "root", "state": "RUNNING"}]
    for index, (name, state) in enumerate(states):
        children = [{"pod_name": f"small-x-{index}"}]
        start = f"2026-01-01T00:00:0{index}Z"
        tasks += [
            {"display_name": f"{name}-driver", "state": "SUCCEEDED"},
            {"display_name": name, "state": state, "start_time": start, "child_tasks": children},
            {"display_name": "executor", "state": state},
        ]
    return {"task_details": tasks}


def test_submits_both_documents_with_typed_parameters(server, pipeline_file, capsys):
    assert submit(server, pipeline_file, "--run-name", "first", "--pipeline-root", "s3://b/r", "--json") == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    run = server.runs[result["run_id"]]
    assert run["display_name"] == "first"
    assert run["pipeline_spec"] == {"pipeline_spec": SPEC, "platform_spec": PLATFORM}
    assert run["runtime_config"] == {"parameters": {"steps": 3}, "pipeline_root": "s3://b/r"}
    [experiment] = server.experiments.values()
    assert experiment["display_name"] == "sluice"
    assert run["experiment_id"] == experiment["experiment_id"]


def test_takes_the_experiment_that_is_there(server, pipeline_file):
    assert submit(server, pipeline_file) == 0
    assert submit(server, pipeline_file) == 0
    assert len(server.experiments) == 1
    assert len(server.runs) == 2


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--param", "stepps=3"], "no parameter 'stepps'; it has data, steps"),
        (["--param", "steps"], "expected NAME=VALUE"),
        (["--param", "steps=4"], "--param steps: given twice"),
        (["--cron", "0 3 * * *"], "six fields, seconds first"),
        (["--cron", ""], "six fields, seconds first"),
        (["--cron", "0 0 3 * * $(date)"], "six fields, seconds first"),
        (["--cron", "0 0 3 * * *", "--wait"], "a recurring run has no end"),
        (["--pipeline-root", "s3://"], "expected a bucket after ://"),
        (["--pipeline-root", "minio://two words/x"], "expected a bucket after ://"),
        (["--experiment", ""], "--experiment: expected 1 to 128 characters, found 0"),
        (["--run-name", "x" * 129], "--run-name: expected 1 to 128 characters, found 129"),
        (["--service-account", "Bad Name"], "--service-account"),
        (["--image", "other:1"], "is compiled already; leave out --pipeline or --image"),
        (["--workload", "images"], "leave out --pipeline or --workload"),
        (["--train-steps", "5"], "leave out --pipeline or --train-steps"),
        (["--no-cache"], "leave out --pipeline or --no-cache"),
        (["--pipeline-root", "/tmp/runs"], "Kubeflow stores artifacts in minio://, s3://, gs:// only"),
        (["--pipeline-root", "bucket/runs"], "Kubeflow stores artifacts in"),
    ],
)
def test_wrong_arguments_are_told_before_anything_is_created(server, pipeline_file, capsys, extra, message):
    assert submit(server, pipeline_file, *extra) == 2
    assert message in capsys.readouterr().err
    assert not server.runs
    assert not server.recurring_runs


def test_a_missing_parameter_is_told(server, pipeline_file, capsys):
    assert cli.main(["submit", "--pipeline", pipeline_file, "--host", server.url]) == 2
    assert "give it with --param steps=VALUE" in capsys.readouterr().err


def test_recurring_run(server, pipeline_file, capsys):
    assert submit(server, pipeline_file, "--cron", "0 0 3 * * *") == 0
    [made] = server.recurring_runs.values()
    assert made["trigger"] == {"cron_schedule": {"cron": "0 0 3 * * *"}}
    assert (made["mode"], made["max_concurrency"], made["no_catchup"]) == ("ENABLE", "1", True)
    [identifier] = server.recurring_runs
    assert f"to stop it: sluice cancel --recurring {identifier}" in capsys.readouterr().out
    assert cli.main(["cancel", "--recurring", identifier, "--host", server.url]) == 0
    assert made["status"] == "DISABLED"
    assert cli.main(["cancel", "--recurring", "other", "--host", server.url]) == 1


def test_waits_and_shows_each_step_once(server, pipeline_file, capsys, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    server.states = [
        {"state": "RUNNING", "run_details": details(("work", "RUNNING"))},
        {"state": "RUNNING", "run_details": details(("work", "RUNNING"))},
        {"state": "FAILED", "run_details": details(("work", "FAILED")), "error": {"message": "ImagePullBackOff"}},
    ]
    assert submit(server, pipeline_file, "--wait", "--json") == 1
    out, err = capsys.readouterr()
    assert err.splitlines()[-2:] == ["work: running", "work: failed"]
    result = json.loads(out.splitlines()[-1])
    assert result["state"] == "FAILED"
    assert result["steps"] == [{"name": "work", "state": "FAILED", "error": "", "pods": ["small-x-0"]}]


def test_status_names_the_failed_step_and_what_to_do(server, pipeline_file, capsys):
    submit(server, pipeline_file)
    [run_id] = server.runs
    failed = {"state": "FAILED", "run_details": details(("a", "SUCCEEDED"), ("b", "FAILED"))}
    server.states = [{**failed, "error": {"message": "b: ErrImagePull"}}]
    capsys.readouterr()
    assert cli.main(["status", run_id, "--host", server.url]) == 0
    text = capsys.readouterr().out
    assert "the image cannot be pulled" in text
    assert text.splitlines()[-1] == f"next: sluice logs {run_id} b"


def test_logs_are_found_under_argos_pod_names(server, pipeline_file, capsys):
    submit(server, pipeline_file)
    [run_id] = server.runs
    server.states = [{"run_details": details(("work", "FAILED"))}]
    server.logs["small-x-retry-system-container-impl-0"] = "the reason\n"
    capsys.readouterr()
    assert cli.main(["logs", run_id, "--host", server.url]) == 0
    assert capsys.readouterr().out == "--- work (failed)\nthe reason\n"
    assert cli.main(["logs", run_id, "nothing", "--host", server.url]) == 1
    assert "no step 'nothing'; it has work" in capsys.readouterr().err


def test_one_missing_log_does_not_hide_the_others(server, pipeline_file, capsys):
    submit(server, pipeline_file)
    [run_id] = server.runs
    server.states = [{"run_details": details(("a", "FAILED"), ("b", "FAILED"))}]
    server.logs["small-x-1"] = "the reason\n"
    capsys.readouterr()
    assert cli.main(["logs", run_id, "--host", server.url]) == 1
    out, err = capsys.readouterr()
    assert out == "--- a (failed)\n--- b (failed)\nthe reason\n"
    assert "Kubeflow has no log of a; the reasons are above" in err


def pods_of(*statuses: dict) -> subprocess.CompletedProcess:
    items = [
        {"metadata": {"name": f"small-system-container-impl-{index}"}, "status": status}
        for index, status in enumerate(statuses)
    ]
    return subprocess.CompletedProcess([], 0, json.dumps({"items": items}), "")


PULL = {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": 'image "x:1"'}}}]}
UNSCHEDULABLE = {
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}]
}
KILLED = {"containerStatuses": [{"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}]}
STARTS = {"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]}


@pytest.mark.parametrize(
    ("status", "state", "message"),
    [
        (PULL, "PENDING", 'waits    work ImagePullBackOff: image "x:1"\n    the image cannot be pulled'),
        (UNSCHEDULABLE, "PENDING", "waits    work Unschedulable: 0/3 nodes"),
        (KILLED, "FAILED", "FAILED   work OOMKilled\n    the step wanted more memory"),
        (STARTS, "PENDING", "waits    work\n"),
    ],
)
def test_status_asks_kubernetes_why_a_step_waits(server, pipeline_file, capsys, monkeypatch, status, state, message):
    """Kubeflow itself gives no reason."""
    asked: list[str] = []

    def call(*arguments: str) -> subprocess.CompletedProcess:
        asked.extend(arguments)
        return pods_of(status)

    monkeypatch.setattr(pods, "call", call)
    monkeypatch.setattr(pods.shutil, "which", lambda _: "/bin/kubectl")
    submit(server, pipeline_file)
    [run_id] = server.runs
    task = {"display_name": "work", "state": state, "child_tasks": [{"pod_name": "small-0"}]}
    server.states = [{"state": "RUNNING", "run_details": {"task_details": [task]}}]
    capsys.readouterr()
    assert cli.main(["status", run_id, "--host", server.url]) == 0
    assert message in capsys.readouterr().out
    assert asked == ["get", "pods", "-n", "kubeflow", "-l", f"pipeline/runid={run_id}", "-o", "json"]


def test_waiting_for_an_image_that_cannot_be_pulled_says_so(server, pipeline_file, capsys, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(pods, "call", lambda *_: pods_of(PULL))
    monkeypatch.setattr(pods.shutil, "which", lambda _: "/bin/kubectl")
    task = {"display_name": "work", "state": "PENDING", "child_tasks": [{"pod_name": "small-0"}]}
    waits = {"state": "RUNNING", "run_details": {"task_details": [task]}}
    server.states = [waits, waits, waits, {"state": "CANCELED"}]
    assert submit(server, pipeline_file, "--wait") == 1
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if line.startswith("work:")] == [
        "work: pending",
        'work: pending ImagePullBackOff: image "x:1"',
    ]


def test_cancel(server, pipeline_file):
    submit(server, pipeline_file)
    [run_id] = server.runs
    assert cli.main(["cancel", run_id, "--host", server.url]) == 0
    assert server.runs[run_id]["state"] == "CANCELING"


def test_token(pipeline_file, tmp_path, capsys):
    token = tmp_path / "token"
    token.write_text("secret\n")
    with kfp_server.Server(kfp_server.Behaviour(token="secret")) as server:
        assert submit(server, pipeline_file) == 1
        assert "does not know who you are" in capsys.readouterr().err
        assert submit(server, pipeline_file, "--token-file", str(token)) == 0
        assert submit(server, pipeline_file, "--token-file", str(tmp_path / "no")) == 2
        assert "No such file" in capsys.readouterr().err


def test_dex_login(pipeline_file, capsys, monkeypatch):
    users = kfp_server.Behaviour(dex_users={"ann@example.com": "right"}, namespaces=("ann",))
    with kfp_server.Server(users) as server:
        assert submit(server, pipeline_file, "--namespace", "ann") == 1
        assert "wants a login: give --token-file, or --dex-user" in capsys.readouterr().err
        monkeypatch.setenv("SLUICE_DEX_PASSWORD", "wrong")
        assert submit(server, pipeline_file, "--namespace", "ann", "--dex-user", "ann@example.com") == 1
        assert "Dex did not let ann@example.com in" in capsys.readouterr().err
        monkeypatch.setenv("SLUICE_DEX_PASSWORD", "right")
        assert submit(server, pipeline_file, "--namespace", "ann", "--dex-user", "ann@example.com") == 0
    assert len(server.runs) == 1


def test_dex_login_where_there_is_no_dex(server):
    credentials = auth.Credentials(dex_user="ann", dex_password="x")
    with pytest.raises(KubeflowError, match="no Dex answers there"):
        connect(server, credentials=credentials)


def test_namespaces(pipeline_file, capsys):
    with kfp_server.Server(kfp_server.Behaviour(namespaces=("ann",))) as server:
        assert submit(server, pipeline_file) == 1
        assert "give --namespace" in capsys.readouterr().err
        assert submit(server, pipeline_file, "--namespace", "bob") == 1
        assert "you may not do this in namespace 'bob'" in capsys.readouterr().err
        assert submit(server, pipeline_file, "--namespace", "ann") == 0


def test_overload_is_waited_out_for_questions_only(server):
    server.behaviour.statuses = [503, 502]
    with connect(server) as session:
        assert session.health() == {"multi_user": False, "version": "2.5.0"}
        experiment = session.experiment("e")
        server.behaviour.statuses = [503]
        with pytest.raises(KubeflowError, match="answered 503: upstream connect error"):
            session.create_run("r", experiment, [SPEC, PLATFORM], {"steps": 1})
    assert not server.runs
    assert sum(request == "POST /apis/v2beta1/runs" for request in server.requests) == 1


def test_waiting_outlives_a_port_forward_that_breaks(server):
    """Long waits see lost connections; creating a run is never repeated."""
    with connect(server) as session:
        session.health()
        server.behaviour.drops = 2
        assert session.experiments() == []
        server.behaviour.drops = 9
        with pytest.raises(KubeflowError, match=r"disconnected|reset|cannot be reached"):
            session.experiments()
        server.behaviour.drops = 1
        with pytest.raises(KubeflowError):
            session.create_run("r", "e", [SPEC, PLATFORM], {"steps": 1})
    assert not server.runs


def test_identifiers_do_not_leave_their_place(server):
    with connect(server) as session:
        with pytest.raises(KubeflowError, match="no such run"):
            session.run("../experiments")
        with pytest.raises(KubeflowError, match="no such run"):
            session.cancel("x/../../runs")
    assert server.requests[0] == "GET /apis/v2beta1/runs/..%2Fexperiments"


def test_address_of_a_page_of_the_ui_will_do(server):
    for page in ("/#/runs", "/?ns=a#/experiments", "/"):
        with client.KubeflowClient(client.Connection(host=server.url + page)) as session:
            assert session.health()["version"] == "2.5.0"


@pytest.mark.parametrize("option", [("--timeout", "0"), ("--deadline", "nan"), ("--timeout", "-1")])
def test_times_are_above_nought(pipeline_file, capsys, option):
    with pytest.raises(SystemExit, match="2"):
        cli.main(["submit", "--pipeline", pipeline_file, *option])
    assert f"expected a number of seconds above 0, found {option[1]}" in capsys.readouterr().err


def test_text_where_a_number_is_declared(server, pipeline_file, capsys):
    arguments = ["submit", "--pipeline", pipeline_file, "--host", server.url, "--param", 'steps="3"']
    assert cli.main(arguments) == 2
    assert "parameter 'steps' must be a whole number" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "many", ""])
def test_numbers_that_json_does_not_have(server, pipeline_file, capsys, text):
    assert cli.main(["submit", "--pipeline", pipeline_file, "--host", server.url, "--param", f"steps={text}"]) == 2
    assert f"expected a NUMBER_INTEGER in JSON, found {text!r}" in capsys.readouterr().err


def test_backend_that_is_too_old_for_the_outcome_step(server, pipeline_file, capsys):
    """What the API server of 2.5.0 itself says of a pipeline with one."""
    server.behaviour.refuses_runs = (
        'InternalServerError: Failed to compile job: compiling DAG "root": failed to add implicit deps: '
        "task final status not supported yet"
    )
    assert submit(server, pipeline_file) == 1
    assert "`outcome` of the config needs Kubeflow Pipelines 2.14 or newer" in capsys.readouterr().err


def test_slow_server(server):
    server.behaviour.delay_seconds = 0.5
    with connect(server, timeout_seconds=0.1) as session, pytest.raises(KubeflowError, match="did not answer within"):
        session.health()


def test_nobody_there():
    with kfp_server.Server() as server:
        url = server.url
    session = client.KubeflowClient(client.Connection(host=url), pause=lambda _: None)
    with session, pytest.raises(KubeflowError, match=r"cannot be reached .* port-forward"):
        session.health()


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        (kfp_server.Behaviour(is_old=True), "older than Kubeflow Pipelines 2.0"),
        (kfp_server.Behaviour(not_kubeflow=True), "not as Kubeflow Pipelines does"),
    ],
)
def test_something_else_answers(behaviour, message):
    with (
        kfp_server.Server(behaviour) as server,
        connect(server) as session,
        pytest.raises(KubeflowError, match=message),
    ):
        session.health()


def test_certificate_of_its_own(tmp_path, pipeline_file):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = kfp_server.Server()
    server.socket = context.wrap_socket(server.socket, server_side=True)
    with server:
        url = server.url.replace("http:", "https:")
        untrusting = client.KubeflowClient(client.Connection(host=url))
        with untrusting, pytest.raises(KubeflowError, match=r"not trusted here .* --ca-file"):
            untrusting.health()
        with client.KubeflowClient(client.Connection(host=url, ca_file=str(certificate))) as session:
            assert not session.health()["multi_user"]


def test_unknown_run(server):
    with connect(server) as session, pytest.raises(KubeflowError, match="no such run"):
        session.run("no-such-run")


def test_namespace_where_there_is_one_user(server, pipeline_file, capsys):
    assert submit(server, pipeline_file, "--namespace", "kubeflow") == 1
    assert "leave out --namespace" in capsys.readouterr().err
