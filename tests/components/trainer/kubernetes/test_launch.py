"""The whole way: a step that trains on a cluster it finds through KUBECONFIG, its worker played by a real process."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest
import yaml

from components.trainer import backends, cluster_environment, heartbeat
from components.trainer.cluster_config import ClusterConfig
from components.trainer.errors import TrainingConfigError, TrainingError
from components.trainer.kubernetes.config import KubernetesConfig, VolumeClaim
from components.trainer.launch import launch


@pytest.fixture(autouse=True)
def kubeconfig(server, tmp_path, monkeypatch):
    """A kubeconfig file, as `kubectl` uses it."""
    path = tmp_path / "kubeconfig"
    context = {"cluster": "test", "user": "test", "namespace": "research"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server.url}}],
        "users": [{"name": "test", "user": {"token": "secret"}}],
        "contexts": [{"name": "test", "context": context}],
    }
    path.write_text(yaml.safe_dump(config))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    # The client reads KUBECONFIG when it is imported, which another test may have done.
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    return path


@pytest.fixture
def shared(tmp_path):
    folder = tmp_path / "shared"
    folder.mkdir()
    return folder


@pytest.fixture
def cluster(shared):
    volume = VolumeClaim(claim="artifacts", mount_path=str(shared))
    pods = KubernetesConfig(image="registry.example/sluice:1", volumes=(volume,), shared_dir=str(shared))
    return ClusterConfig(backends=("trainjob", "jobset", "indexed-job"), num_workers=2, kubernetes=pods)


@pytest.fixture
def controller(server):
    """Runs the pods of every JobSet that appears, as processes on this machine; one after the other will do here."""
    stopping = threading.Event()

    def run():
        while not stopping.is_set():
            with server.lock:
                server.lock.wait_for(lambda: server.closed or _new(server), timeout=0.2)
                job = _new(server)
            if job and not server.closed:
                _run_pods(server, job)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield
    stopping.set()
    thread.join(timeout=20)


def _new(server):
    jobs = [item for (plural, _), item in server.objects.items() if plural == "jobsets"]
    return next((job for job in jobs if not job.get("status") and not job["metadata"].get("deletionTimestamp")), None)


def _run_pods(server, job):
    name = job["metadata"]["name"]
    [template] = [entry["template"]["spec"] for entry in job["spec"]["replicatedJobs"]]
    [container] = template["template"]["spec"]["containers"]
    codes = []
    for index in range(template["completions"]):
        pod = server.add_pod(name, index)
        message_file = pathlib.Path(os.environ["PYTEST_TERMINATION_DIR"], pod)
        env = os.environ | {entry["name"]: entry["value"] for entry in container["env"]}
        env |= {"JOB_COMPLETION_INDEX": str(index), "SLUICE_TERMINATION_LOG": str(message_file)}
        env |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, *container["command"][1:]]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        for line in (done.stdout + done.stderr).splitlines():
            server.say(pod, "2026-01-01T00:00:00Z", line)
        codes.append(done.returncode)
        server.end_pod(pod, done.returncode, message_file.read_text() if message_file.exists() else "")
    server.set_condition("jobsets", name, "Failed" if any(codes) else "Completed")


@pytest.fixture(autouse=True)
def termination_dir(tmp_path, monkeypatch):
    (tmp_path / "termination").mkdir()
    monkeypatch.setenv("PYTEST_TERMINATION_DIR", str(tmp_path / "termination"))


@pytest.fixture
def examples(tmp_path):
    folder = tmp_path / "examples" / "Split-train"
    folder.mkdir(parents=True)
    (folder / "data-0").write_text("records")
    return folder


def test_training_on_a_cluster(make_spec, cluster, controller, examples, shared, capfd):
    spec = make_spec("scripted.trains")
    launch(spec, cluster)
    model = pathlib.Path(spec.fn_args["serving_model_dir"])
    assert (model / "saved_model.pb").read_text() == "exported by worker-0"
    given = json.loads(pathlib.Path(spec.fn_args["model_run_dir"], "marks", "given-worker-1").read_text())
    # The pods have read from and written to the shared folder, and nothing is left there.
    assert given["fn_args"]["train_files"][0].startswith(str(shared))
    assert list(shared.iterdir()) == []
    addresses = json.loads(given["tf_config"])["cluster"]["worker"]
    name = addresses[0].partition("-node-0-0.")[0]
    assert addresses == [f"{name}-node-0-{i}.{name}:2222" for i in range(2)]
    errors = capfd.readouterr().err
    assert "training on jobset, because these are not available: trainjob (the cluster has no trainjobs" in errors
    assert "[worker 1] hello from worker-1" in errors


def test_an_error_in_a_pod(make_spec, cluster, controller, examples):
    spec = make_spec("scripted.fails_with_code")
    with pytest.raises(TrainingError, match="worker 0: data/part-3: record 5 at byte") as caught:
        launch(spec, cluster)
    assert caught.value.exit_code == 3
    assert not pathlib.Path(spec.model_dir).exists()


def test_sigterm_deletes_the_job(make_spec, cluster, server, examples):
    def preempt():
        server.wait_until(lambda: any(plural == "jobsets" for plural, _ in server.objects))
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=preempt, daemon=True).start()
    with pytest.raises(TrainingError, match="training was stopped") as caught:
        launch(make_spec("scripted.trains"), cluster)
    assert caught.value.exit_code == 143
    assert not any(plural == "jobsets" for plural, _ in server.objects)


def test_the_name_is_the_same_for_the_same_execution(make_spec, cluster, examples, server):
    names = [backends.prepare(make_spec("scripted.trains"), cluster).job._spec.name for _ in range(2)]
    assert names[0] == names[1]


def test_paths_that_pods_would_not_see(make_spec, cluster, examples, tmp_path):
    pods = KubernetesConfig(image="x")
    lonely = ClusterConfig(backends=("jobset",), num_workers=2, kubernetes=pods)
    with pytest.raises(TrainingConfigError, match="is on this machine only and the training pods would not see it"):
        launch(make_spec("scripted.trains"), lonely)


def test_no_backend(make_spec, kubeconfig):
    kubeconfig.unlink()
    pods = KubernetesConfig(image="x")
    with pytest.raises(TrainingConfigError, match=r"no backend is available: jobset \(cluster: no Kubernetes cluster"):
        launch(make_spec("scripted.trains"), ClusterConfig(backends=("jobset",), kubernetes=pods))


def test_local_as_the_last_resort(make_spec, kubeconfig, capfd):
    kubeconfig.unlink()
    pods = KubernetesConfig(image="x")
    result = launch(make_spec("scripted.trains"), ClusterConfig(backends=("jobset", "local"), kubernetes=pods))
    assert result.is_done
    assert "training on local, because these are not available: jobset" in capfd.readouterr().err


def test_tf_config_of_a_pod():
    pod = {
        "SLUICE_NUM_WORKERS": "3",
        "SLUICE_WORKER_HOSTS": "taxi-node-0-{index}.taxi",
        "SLUICE_WORKER_PORT": "2222",
        "JOB_COMPLETION_INDEX": "2",
    }
    config = json.loads(cluster_environment.from_kubernetes(pod))
    assert config["task"] == {"type": "worker", "index": 2}
    assert config["cluster"] == {"worker": [f"taxi-node-0-{i}.taxi:2222" for i in range(3)]}
    assert cluster_environment.from_kubernetes(pod | {"SLUICE_NUM_WORKERS": "1"}) is None
    assert cluster_environment.from_kubernetes(pod | {"SLUICE_WORKER_HOSTS": ""}) is None
    with pytest.raises(ValueError, match="JOB_COMPLETION_INDEX is not set"):
        cluster_environment.from_kubernetes({k: v for k, v in pod.items() if k != "JOB_COMPLETION_INDEX"})


@pytest.mark.parametrize(("age", "expected"), [(None, 0), (5, 0), (900, 1)])
def test_the_liveness_probe(tmp_path, age, expected):
    path = tmp_path / "last-step"
    if age is not None:
        path.touch()
        os.utime(path, (time.time() - age,) * 2)
    probe = subprocess.run(
        [sys.executable, "-m", "components.trainer.heartbeat", "600"],
        env=os.environ | {heartbeat.FILE_VARIABLE: str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert probe.returncode == expected
    assert ("no training step for more than 600 s" in probe.stderr) == bool(expected)
