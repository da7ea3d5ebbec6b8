"""Deploying to model servers that speak TensorFlow Serving's API: two replicas of the development server.

With SLUICE_SERVING_IMAGE (`make e2e-serving`) the same tests run against two containers of TensorFlow Serving, too.
"""

import concurrent.futures
import contextlib
import dataclasses
import os
import pathlib
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest

from components.pusher.base_folder import BaseFolder
from components.pusher.config import PushTarget
from components.pusher.configured import ModelConfigFile
from components.pusher.deployer import Deployer
from components.pusher.errors import PushConfigError, PushError
from components.pusher.golden import read_golden
from components.pusher.journal import State
from components.pusher.replica import ReplicaError, connect
from components.pusher.servers import Servers, resolve
from components.pusher.targets import make_deployer

IMAGE = os.environ.get("SLUICE_SERVING_IMAGE", "")
KINDS = ["sluice", *([pytest.param("real", marks=pytest.mark.docker)] if IMAGE else [])]
DATA = "variables/variables.data-00000-of-00001"


class CrashError(BaseException):
    """Stands for a crash at a boundary: nothing in the deployer catches it."""


@dataclasses.dataclass(frozen=True)
class Address:
    grpc: str
    rest: str


@contextlib.contextmanager
def replicas(kind: str, folder: pathlib.Path, config_file: pathlib.Path | None = None) -> Iterator[list[Address]]:
    """Two servers of the model folder `folder`, or of a model config file under it."""
    with contextlib.ExitStack() as stack:
        if kind == "real":
            yield [stack.enter_context(_container(folder, config_file)) for _ in range(2)]
            return
        from modules.serving.manager import LoadingConfig
        from modules.serving.model_config import ModelConfig, read_model_config
        from modules.serving.server import ModelServer, ServerConfig

        loading = LoadingConfig(poll_seconds=0.05, max_retries=0, retry_seconds=0.05)
        config = ServerConfig(rest_port=0, grpc_port=0, drain_seconds=1.0, loading=loading)
        models = read_model_config(str(config_file)) if config_file else [ModelConfig("line", str(folder))]
        servers = [stack.enter_context(ModelServer(models, config, roots=["/"])) for _ in range(2)]
        yield [Address(server.grpc_address, server.rest_url) for server in servers]


@contextlib.contextmanager
def _container(folder: pathlib.Path, config_file: pathlib.Path | None) -> Iterator[Address]:
    """TensorFlow Serving itself. It does not listen before its first model is loaded: the deployer has to bear that."""
    mounted = folder.parents[1]
    what = (
        [f"--model_config_file={config_file}", "--allow_version_labels_for_unavailable_models=true"]
        if config_file
        else ["--model_name=line", f"--model_base_path={folder}"]
    )
    options = ["--port=8500", "--rest_api_port=8501", "--file_system_poll_wait_seconds=1", "--max_num_load_retries=0"]
    published = ["-p", "127.0.0.1::8500", "-p", "127.0.0.1::8501", "-v", f"{mounted}:{mounted}"]
    command = ["docker", "run", "-d", "--rm", *published, "--entrypoint", "tensorflow_model_server", IMAGE]
    container = subprocess.run([*command, *options, *what], check=True, capture_output=True, text=True).stdout.strip()
    try:
        grpc_address, rest = (
            subprocess.run(["docker", "port", container, port], check=True, capture_output=True, text=True)
            .stdout.splitlines()[0]
            .strip()
            for port in ("8500", "8501")
        )
        yield Address(grpc_address, f"http://{rest}")
    finally:
        subprocess.run(["docker", "stop", container], check=False, capture_output=True)


@pytest.fixture(params=KINDS)
def polled(request, tmp_path) -> Iterator[PushTarget]:
    """A target whose two replicas poll the folder; one is addressed by gRPC and one by REST."""
    base = tmp_path / "serving"
    (base / "line").mkdir(parents=True)
    with replicas(request.param, base / "line") as servers:
        addresses = (servers[0].grpc, servers[1].rest)
        yield PushTarget(base=str(base), name="line", servers=addresses, available_timeout_s=20.0)


@pytest.fixture(params=KINDS)
def configured(request, tmp_path, exported, pushing) -> Iterator[PushTarget]:
    """A target whose two replicas read a model config that lists another model too."""
    base = tmp_path / "serving"
    (base / "line").mkdir(parents=True)
    pushing.deployer(base).push(exported["double"])
    (base / "line").rename(base / "other")
    (base / "line").mkdir()
    config = tmp_path / "models.config"
    config.write_text(
        f'model_config_list {{ config {{ name: "other" base_path: "{base}/other" model_platform: "tensorflow" }} }}\n'
    )
    with replicas(request.param, base / "line", config) as servers:
        yield PushTarget(
            base=str(base),
            name="line",
            kind="model_config",
            servers=tuple(server.grpc for server in servers),
            model_config_file=str(config),
            available_timeout_s=20.0,
        )


def deployer(target: PushTarget, **overrides) -> Deployer:
    return make_deployer(target, **{"verify": lambda *_: {}, **overrides})


def answers(target: PushTarget, **which) -> list[list[float]]:
    """What every replica answers to the golden examples."""
    golden = read_golden(next(iter(BaseFolder(target.base, target.name).versions().values())))
    assert golden is not None
    return [
        list(map(float, replica.predict(target.name, golden, **which)["scores"]))
        for replica in Servers(target).replicas()
    ]


DOUBLE, TRIPLE = [0.0, 2.0, -5.0, 2e6], [0.0, 3.0, -7.5, 3e6]


def test_pushed_version_is_available_everywhere_and_answers(polled, exported):
    first = deployer(polled).push(exported["double"])
    assert first.observed
    second = deployer(polled).push(exported["triple"])
    assert answers(polled) == answers(polled, version=second.version) == [TRIPLE, TRIPLE]
    states = [record.state for record in deployer(polled).folder.journal.records() if record.version == second.version]
    assert states == [
        State.RESERVED,
        State.STAGED,
        State.VERIFIED,
        State.PUBLISHED,
        State.AVAILABLE,
        State.PROBED,
        State.PROMOTED,
        State.DONE,
    ]
    for replica in Servers(polled).replicas():
        assert replica.status("line")[second.version].state == "AVAILABLE"


def test_version_that_the_server_cannot_load_is_withdrawn(polled, exported, models):
    deployer(polled).push(exported["triple"])
    data = models["double"] / DATA
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(PushError, match="failed to load on"):
        deployer(polled).push(models["double"])
    assert answers(polled) == [TRIPLE, TRIPLE]
    assert deployer(polled).folder.journal.records()[-1].state == State.UNDONE


def test_version_that_answers_wrongly_is_withdrawn_and_the_one_before_comes_back(polled, exported, models):
    first = deployer(polled).push(exported["triple"])
    golden = models["double"] / "assets.extra" / "golden_predictions.json"
    golden.write_text((exported["triple"] / "assets.extra" / "golden_predictions.json").read_text())
    with pytest.raises(PushError, match="differs from the trainer's golden predictions"):
        deployer(polled).push(models["double"])
    assert list(deployer(polled).folder.versions()) == [first.version]
    assert answers(polled) == [TRIPLE, TRIPLE]


def test_first_version_that_fails_leaves_an_empty_folder(polled, models):
    data = models["double"] / DATA
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(PushError, match="failed to load on"):
        deployer(polled).push(models["double"])
    assert deployer(polled).folder.versions() == {}


def test_rollback_waits_until_the_version_before_answers(polled, exported):
    first = deployer(polled).push(exported["double"])
    deployer(polled).push(exported["triple"])
    assert deployer(polled).rollback().version == first.version
    assert answers(polled) == [DOUBLE, DOUBLE]


def test_model_without_golden_predictions_is_probed_by_its_signatures(polled, exported):
    assert deployer(polled).push(exported["constant"]).observed


def test_server_that_is_not_there_stops_the_push_before_it_begins(polled, exported):
    deployer(polled).push(exported["double"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{free.getsockname()[1]}"
    target = PushTarget(base=polled.base, name="line", servers=(*polled.servers, dead))
    with pytest.raises(PushError, match="nothing was pushed, because a model server does not answer"):
        deployer(target).push(exported["triple"])
    assert answers(polled) == [DOUBLE, DOUBLE]
    with pytest.raises(PushError, match="nothing was pushed, because a model server does not answer"):
        deployer(target).push(exported["double"])  # on disk already, but that server does not have it
    again = deployer(polled).push(exported["double"])
    assert (again.outcome, again.observed) == ("unchanged", True)


def test_deadline_names_the_replica(polled, exported, tmp_path):
    elsewhere = PushTarget(
        base=str(tmp_path / "elsewhere"), name="line", servers=polled.servers, available_timeout_s=0.3
    )
    with pytest.raises(PushError, match=r"is not available on every replica after 0.3 s: .*127.0.0.1.*: unknown there"):
        deployer(elsewhere).push(exported["double"])


def test_labels_move_one_reload_at_a_time_and_the_other_model_stays(configured, exported):
    first = deployer(configured).push(exported["double"])
    assert labels(configured) == {"stable": first.version, "canary": first.version}
    second = deployer(configured).push(exported["triple"])
    assert labels(configured) == {"stable": second.version, "canary": second.version}
    assert answers(configured, label="stable") == answers(configured, version=second.version) == [TRIPLE, TRIPLE]
    for replica in Servers(configured).replicas():
        assert [status.state for status in replica.status("other").values()] == ["AVAILABLE"]
    assert 'name: "other"' in pathlib.Path(configured.model_config_file).read_text()


def test_canary_is_asked_while_stable_is_still_the_one_before(configured, exported):
    first = deployer(configured).push(exported["double"])
    seen = {}

    def look(boundary: str) -> None:
        if boundary == "after CANARY":
            seen["labels"] = labels(configured)
            seen["stable"], seen["canary"] = (answers(configured, label=label) for label in ("stable", "canary"))

    second = deployer(configured, boundary=look).push(exported["triple"])
    assert seen == {
        "labels": {"stable": first.version, "canary": second.version},
        "stable": [DOUBLE, DOUBLE],
        "canary": [TRIPLE, TRIPLE],
    }


def test_two_models_deployed_at_once_share_the_config_file(configured, exported):
    targets = [dataclasses.replace(configured, name=name) for name in ("line", "bus", "tram")]
    for target in targets:
        BaseFolder(target.base, target.name).prepare()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda target: deployer(target).push(exported["double"]), targets))
    for target, result in zip(targets, results, strict=True):
        assert labels(target) == {"stable": result.version, "canary": result.version}
        assert answers(target, label="stable") == [DOUBLE, DOUBLE]


@pytest.mark.parametrize("problem", ["cannot load", "answers wrongly"])
def test_failed_deployment_restores_the_config_and_stable(problem, configured, exported, models):
    deployer(configured).push(exported["triple"])
    before = pathlib.Path(configured.model_config_file).read_text()
    if problem == "cannot load":
        (models["double"] / DATA).write_bytes(b"short")
    else:
        golden = models["double"] / "assets.extra" / "golden_predictions.json"
        golden.write_text((exported["triple"] / "assets.extra" / "golden_predictions.json").read_text())
    with pytest.raises(PushError, match=r"failed to load on|differs from"):
        deployer(configured).push(models["double"])
    assert pathlib.Path(configured.model_config_file).read_text() == before
    assert answers(configured, label="stable") == answers(configured) == [TRIPLE, TRIPLE]


def test_failed_first_deployment_leaves_the_other_model_alone(configured, models):
    (models["double"] / DATA).write_bytes(b"short")
    with pytest.raises(PushError):
        deployer(configured).push(models["double"])
    assert ModelConfigFile(configured.model_config_file, "line", "").entry() is None
    for replica in Servers(configured).replicas():
        assert [status.state for status in replica.status("other").values()] == ["AVAILABLE"]


@pytest.mark.parametrize("kind", ["polled", "configured"])
def test_folder_emptied_after_a_crash_does_not_block_the_next_push(kind, tmp_path, exported):
    if IMAGE:
        pytest.skip("one server is enough for this")
    base = tmp_path / "serving"
    (base / "line").mkdir(parents=True)
    config = tmp_path / "models.config"
    config.write_text("model_config_list {}")
    with replicas("sluice", base / "line", config if kind == "configured" else None) as servers:
        extra = {"kind": "model_config", "model_config_file": str(config)} if kind == "configured" else {}
        target = PushTarget(
            base=str(base), name="line", servers=(servers[0].grpc, servers[1].grpc), available_timeout_s=10.0, **extra
        )
        deployer(target).push(exported["double"])

        def crash(name: str) -> None:
            if name == "after PUBLISHED":
                raise CrashError

        with contextlib.suppress(CrashError):
            deployer(target, boundary=crash).push(exported["triple"])
        for version in BaseFolder(str(base), "line").versions().values():
            shutil.rmtree(version)
        assert deployer(target).push(exported["triple"]).outcome == "pushed"
        assert answers(target) == [TRIPLE, TRIPLE]


def test_rollback_by_labels(configured, exported):
    first = deployer(configured).push(exported["double"])
    deployer(configured).push(exported["triple"])
    assert deployer(configured).rollback().version == first.version
    assert answers(configured, label="stable") == [DOUBLE, DOUBLE]
    assert labels(configured)["stable"] == first.version


def test_held_canary_is_promoted_or_ended_by_hand(configured, exported):
    first = deployer(configured).push(exported["double"])
    holding = dataclasses.replace(configured, hold_canary=True)
    held = deployer(holding).push(exported["triple"])
    assert held.outcome == "held as canary"
    assert labels(configured) == {"stable": first.version, "canary": held.version}
    assert deployer(holding).push(exported["triple"]).outcome == "unchanged"
    assert deployer(configured).recover() is None

    assert deployer(configured).rollback().version == first.version
    assert answers(configured, label="stable") == answers(configured, label="canary") == [DOUBLE, DOUBLE]

    again = deployer(holding).push(exported["triple"])
    assert deployer(configured).promote().version == again.version
    assert labels(configured) == {"stable": again.version, "canary": again.version}
    assert answers(configured, label="stable") == [TRIPLE, TRIPLE]
    with pytest.raises(PushError, match="no canary is held"):
        deployer(configured).promote()


def test_crash_while_holding_holds_again(configured, exported):
    deployer(configured).push(exported["double"])
    holding = dataclasses.replace(configured, hold_canary=True)

    def crash(name: str) -> None:
        if name == "within CANARY":
            raise CrashError

    with contextlib.suppress(CrashError):
        deployer(holding, boundary=crash).push(exported["triple"])
    recovered = deployer(configured).recover()
    assert recovered is not None
    assert recovered.outcome == "recovered: held as canary"


BOUNDARIES = [
    f"{side} {state}"
    for state in ("PUBLISHED", "AVAILABLE", "PROBED", "CANARY", "PROMOTED", "DONE")
    for side in ("before", "within", "after")
]


def test_the_default_answers_whole_through_a_crash_at_every_boundary(polled, exported):
    crash_everywhere(polled, exported, {})


def test_stable_answers_whole_through_a_crash_at_every_boundary(configured, exported):
    crash_everywhere(configured, exported, {"label": "stable"})


def crash_everywhere(target: PushTarget, exported: dict, which: dict) -> None:
    """One client asks all the time: each answer is the old model's or the new one's, and never an error."""
    deployer(target).push(exported["double"])
    with client(target, which) as wrong:
        for number, boundary in enumerate(BOUNDARIES):
            model = exported["triple" if number % 2 == 0 else "double"]

            def crash(name: str, boundary: str = boundary) -> None:
                if name == boundary:
                    raise CrashError

            with contextlib.suppress(CrashError):
                deployer(target, boundary=crash).push(model)
            deployer(target).recover()
            deployer(target).push(model)
            assert answers(target, **which) == [TRIPLE if number % 2 == 0 else DOUBLE] * 2
            assert wrong == []


@contextlib.contextmanager
def client(target: PushTarget, which: dict) -> Iterator[list]:
    wrong: list = []
    stop = threading.Event()
    golden = read_golden(next(iter(BaseFolder(target.base, target.name).versions().values())))
    assert golden is not None

    def ask() -> None:
        replica = connect(Servers(target).replicas()[0].address, 30.0)
        while not stop.wait(0.002):
            try:
                scores = list(map(float, replica.predict("line", golden, **which)["scores"]))
            except ReplicaError as error:
                wrong.append(str(error))
            else:
                wrong.extend([] if scores in (DOUBLE, TRIPLE) else [scores])

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield wrong
    finally:
        stop.set()
        thread.join()


def labels(target: PushTarget) -> dict[str, int]:
    entry = ModelConfigFile(target.model_config_file, target.name, "").entry()
    return dict(entry.version_labels) if entry else {}


def test_config_file_that_does_not_parse(tmp_path):
    path = tmp_path / "models.config"
    path.write_text("model_config_list {")
    with pytest.raises(PushError, match="not a ModelServerConfig in text form"):
        ModelConfigFile(str(path), "line", "/x").read()


def test_rest_address_cannot_reload():
    with pytest.raises(ReplicaError, match="give the gRPC address"):
        connect("http://127.0.0.1:1", 1.0).reload(None, 1.0)


def test_addresses_resolve_to_every_server():
    assert resolve("127.0.0.1:8500") == ["127.0.0.1:8500"]
    assert resolve("http://127.0.0.1:8501/") == ["http://127.0.0.1:8501"]
    assert resolve("https://models.example:443") == ["https://models.example:443"]
    for address in ("no-port", "host:https", ":8500", "host:70000"):
        with pytest.raises(PushConfigError, match="expected HOST:PORT"):
            resolve(address)
    with pytest.raises(PushError, match="its name does not resolve"):
        resolve("no-such-host.invalid:8500")


def test_model_config_needs_servers_and_file():
    with pytest.raises(PushConfigError, match="needs `servers` and `model_config_file`"):
        PushTarget(base="b", name="n", kind="model_config")


def test_model_service_messages_come_without_the_module_that_cannot_be_imported():
    from components.pusher import grpc_replica

    assert grpc_replica.GrpcReplica("127.0.0.1:1", 0.2).address == "127.0.0.1:1"
    with pytest.raises(ReplicaError, match=r"UNAVAILABLE|DEADLINE_EXCEEDED"):
        grpc_replica.GrpcReplica("127.0.0.1:1", 0.2).status("line")
