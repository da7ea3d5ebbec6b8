"""Deploying to model servers that speak TensorFlow Serving's API: the development server, two replicas of it.

The same tests run against TensorFlow Serving itself where SLUICE_TF_SERVING names a gRPC address per replica and the
folder they serve (see docs/deploying.md).
"""

import contextlib
import pathlib
import socket
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

DATA = "variables/variables.data-00000-of-00001"


class CrashError(BaseException):
    """Stands for a crash at a boundary: nothing in the deployer catches it."""


@contextlib.contextmanager
def replicas(models: list, count: int = 2) -> Iterator[list]:
    from modules.serving.manager import LoadingConfig
    from modules.serving.server import ModelServer, ServerConfig

    loading = LoadingConfig(poll_seconds=0.05, max_retries=0, retry_seconds=0.05)
    config = ServerConfig(rest_port=0, grpc_port=0, drain_seconds=1.0, loading=loading)
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(ModelServer(models, config, roots=["/"])) for _ in range(count)]


@pytest.fixture
def polled(tmp_path) -> Iterator[PushTarget]:
    """A target whose two replicas poll the folder; one is addressed by gRPC and one by REST."""
    from modules.serving.model_config import ModelConfig

    base = tmp_path / "serving"
    (base / "line").mkdir(parents=True)
    with replicas([ModelConfig("line", str(base / "line"))]) as servers:
        addresses = (servers[0].grpc_address, servers[1].rest_url)
        yield PushTarget(base=str(base), name="line", servers=addresses, available_timeout_s=20.0)


@pytest.fixture
def configured(tmp_path, exported, pushing) -> Iterator[PushTarget]:
    """A target whose two replicas read a model config that lists another model too."""
    from modules.serving.model_config import read_model_config

    base = tmp_path / "serving"
    (base / "line").mkdir(parents=True)
    pushing.deployer(base).push(exported["double"])
    (base / "line").rename(base / "other")
    (base / "line").mkdir()
    config = tmp_path / "models.config"
    config.write_text(
        f'model_config_list {{ config {{ name: "other" base_path: "{base}/other" model_platform: "tensorflow" }} }}\n'
    )
    with replicas(read_model_config(str(config))) as servers:
        yield PushTarget(
            base=str(base),
            name="line",
            kind="model_config",
            servers=tuple(server.grpc_address for server in servers),
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


def test_rollback_by_labels(configured, exported):
    first = deployer(configured).push(exported["double"])
    deployer(configured).push(exported["triple"])
    assert deployer(configured).rollback().version == first.version
    assert answers(configured, label="stable") == [DOUBLE, DOUBLE]
    assert labels(configured)["stable"] == first.version


BOUNDARIES = [
    f"{side} {state}"
    for state in ("PUBLISHED", "AVAILABLE", "PROBED", "CANARY", "PROMOTED", "DONE")
    for side in ("before", "within", "after")
]


@pytest.mark.parametrize("kind", ["polled", "configured"])
def test_stable_answers_whole_through_a_crash_at_every_boundary(kind, request, exported):
    """One client asks all the time: each answer is the old model's or the new one's, and never an error."""
    target: PushTarget = request.getfixturevalue(kind)
    deployer(target).push(exported["double"])
    which = {"label": "stable"} if kind == "configured" else {}
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
        connect("http://127.0.0.1:1", 1.0).reload(None)


def test_addresses_resolve_to_every_server():
    assert resolve("127.0.0.1:8500") == ["127.0.0.1:8500"]
    assert resolve("http://127.0.0.1:8501/") == ["http://127.0.0.1:8501"]
    assert resolve("https://models.example:443") == ["https://models.example:443"]
    with pytest.raises(PushError, match="expected host:port that resolves"):
        resolve("no-port")


def test_model_config_needs_servers_and_file():
    with pytest.raises(PushConfigError, match="needs `servers` and `model_config_file`"):
        PushTarget(base="b", name="n", kind="model_config")


def test_model_service_messages_come_without_the_module_that_cannot_be_imported():
    from components.pusher import grpc_replica

    assert grpc_replica.GrpcReplica("127.0.0.1:1", 0.2).address == "127.0.0.1:1"
    with pytest.raises(ReplicaError, match=r"UNAVAILABLE|DEADLINE_EXCEEDED"):
        grpc_replica.GrpcReplica("127.0.0.1:1", 0.2).status("line")
