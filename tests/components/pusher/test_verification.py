"""What may not be served is refused before it is published, with the reason; and what may is warmed up."""

import base64
import json
import pathlib
import shutil

import pytest

from components.pusher import verification, verify_process
from components.pusher.base_folder import BaseFolder
from components.pusher.config import PushTarget
from components.pusher.deployer import Deployer
from components.pusher.errors import PushError
from components.pusher.golden import GOLDEN_PATH, GoldenError

DATA = "variables/variables.data-00000-of-00001"


def verify(folder: pathlib.Path, **changes) -> dict:
    request = {"model": str(folder), "name": "line", "require_golden": False, "warmup_batch_sizes": [1, 32], **changes}
    return verify_process.main(request)


def cut(path: pathlib.Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def flip(path: pathlib.Path, where: float = 0.5) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * where)] ^= 0x10
    path.write_bytes(data)


def change_golden(folder: pathlib.Path, **changes) -> None:
    path = folder / GOLDEN_PATH
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_good_model(models):
    report = verify(models["double"])
    assert report["golden"] == {"rows": 4, "max_difference": 0.0}
    assert report["signatures"]["serving_default"] == ["examples"]
    assert report["warnings"] == []
    assert report["warmup_records"] == 2


def test_model_without_variables_or_golden_predictions(models):
    report = verify(models["constant"])
    assert report["golden"] is None
    assert "no assets.extra/golden_predictions.json" in report["warnings"][0]


def test_golden_predictions_can_be_required(models):
    with pytest.raises(verify_process.RefusedError, match="require_golden"):
        verify(models["constant"], require_golden=True)


def test_saved_model_as_text(models):
    from google.protobuf import text_format
    from tensorflow.core.protobuf import saved_model_pb2

    binary = models["double"] / "saved_model.pb"
    message = saved_model_pb2.SavedModel.FromString(binary.read_bytes())
    binary.with_suffix(".pbtxt").write_text(text_format.MessageToString(message))
    binary.unlink()
    assert verify(models["double"])["golden"] == {"rows": 4, "max_difference": 0.0}
    cut(binary.with_suffix(".pbtxt"))
    with pytest.raises(verify_process.RefusedError, match="damaged or cut short"):
        verify(models["double"])


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda model: shutil.rmtree(model / "variables"), "variables.index is missing"),
        (lambda model: (model / "variables/variables.index").unlink(), "variables.index is missing"),
        (lambda model: (model / DATA).unlink(), "does not load"),
        (lambda model: cut(model / DATA), "does not load: Read less bytes|does not load: .*TensorBundle"),
        (lambda model: flip(model / DATA), "does not load: .*Checksum does not match"),
        (lambda model: cut(model / "variables/variables.index"), "does not load"),
        (lambda model: cut(model / "saved_model.pb"), "damaged|edited"),
        (lambda model: flip(model / "saved_model.pb", 0.1), "damaged|edited"),
        (lambda model: flip(model / "saved_model.pb", 0.9), "damaged|edited"),
        (lambda model: (model / "saved_model.pb").unlink(), "not a SavedModel"),
        (lambda model: (model / "saved_model.pb").write_bytes(b""), "tagged 'serve'|damaged"),
    ],
    ids=[
        "no variables folder",
        "no index",
        "no data",
        "data cut short",
        "data flipped",
        "index cut short",
        "graph cut short",
        "graph flipped near its start",
        "graph flipped near its end",
        "no graph",
        "empty graph",
    ],
)
def test_damaged_model_is_refused(damage, reason, models):
    damage(models["double"])
    with pytest.raises(verify_process.RefusedError, match=reason):
        verify(models["double"])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"outputs": {"scores": [0.0, 2.0, -5.0, 2.1e6]}}, r"value 3 is 2e\+06, the trainer's was 2.1e\+06"),
        ({"outputs": {"scores": [[0.0], [2.0], [-5.0], [2e6]]}}, r"has shape \(4,\); the trainer's had \(4, 1\)"),
        (
            {"outputs": {"logits": [0.0, 2.0, -5.0, 2e6]}},
            r"the answer has \['scores'\]; the trainer's had \['logits'\]",
        ),
        ({"signature": "other"}, "no signature 'other'; there are"),
        ({"examples_b64": ["!!"]}, "cannot be read"),
        ({"outputs": {}}, "no examples or no outputs"),
        ({"examples_b64": [base64.b64encode(b"not an example").decode()] * 4}, "predicting fails"),
    ],
)
def test_model_that_predicts_something_else_is_refused(changes, reason, models):
    change_golden(models["double"], **changes)
    with pytest.raises((verify_process.RefusedError, GoldenError), match=reason):
        verify(models["double"])


def test_other_weights_are_noticed(models):
    """A whole, loadable model, but not the one whose predictions the trainer stored."""
    shutil.copytree(models["triple"] / "variables", models["double"] / "variables", dirs_exist_ok=True)
    with pytest.raises(GoldenError, match="differs from the trainer's golden predictions"):
        verify(models["double"])


def test_warmup_requests_are_what_tensorflow_serving_reads(models):
    import tensorflow as tf
    from tensorflow_serving.apis import prediction_log_pb2

    verify(models["double"], warmup_batch_sizes=[1, 8, 32])
    path = models["double"] / "assets.extra" / "tf_serving_warmup_requests"
    logs = [
        prediction_log_pb2.PredictionLog.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(path))
    ]
    requests = [log.predict_log.request for log in logs]
    assert [request.inputs["examples"].tensor_shape.dim[0].size for request in requests] == [1, 8, 32]
    assert {(request.model_spec.name, request.model_spec.signature_name) for request in requests} == {
        ("line", "serving_default")
    }


def test_no_warmup_requests_by_choice_and_those_of_the_trainer_are_kept(models):
    assert verify(models["double"], warmup_batch_sizes=[])["warmup_records"] == 0
    verify(models["double"], warmup_batch_sizes=[1])
    assert verify(models["double"], warmup_batch_sizes=[1, 8, 32])["warmup_records"] == 1


def test_failing_warmup_request_is_refused_as_the_server_would(models):
    verify(models["double"])
    path = models["double"] / "assets.extra" / "tf_serving_warmup_requests"
    cut(path)
    with pytest.raises(verify_process.RefusedError, match="warm-up request"):
        verify(models["double"])


def test_verifying_in_its_own_process(models, tmp_path):
    result = Deployer(PushTarget(base=str(tmp_path), name="line")).push(models["double"])
    assert result.report["golden"] == {"rows": 4, "max_difference": 0.0}
    assert (pathlib.Path(result.destination) / "assets.extra" / "tf_serving_warmup_requests").exists()
    assert Deployer(PushTarget(base=str(tmp_path), name="line")).push(models["double"]).outcome == "unchanged"


def test_refused_model_leaves_what_serves_alone(models, tmp_path):
    target = PushTarget(base=str(tmp_path), name="line")
    live = Deployer(target, verify=lambda *_: {}).push(models["triple"])
    flip(models["double"] / DATA)
    with pytest.raises(PushError, match=r"is not deployable: it does not load: .*\n?") as raised:
        Deployer(target).push(models["double"])
    assert "\n" not in str(raised.value)
    folder = BaseFolder(str(tmp_path), "line")
    assert list(folder.versions()) == [live.version]


def test_time_limit(models):
    target = PushTarget(base="unused", name="line", verify_timeout_s=0.5)
    with pytest.raises(PushError, match=r"not verified within 0.5 s \(verify_timeout_s\)"):
        verification.verify_in_subprocess(models["double"], target)
