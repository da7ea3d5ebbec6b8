"""The component as TFX runs it: only a blessed model is pushed, and the artifact says what happened."""

import json
import pathlib
import shutil

import pytest
from tfx import types
from tfx.types import standard_artifacts

from components.pusher.component import Pusher
from components.pusher.config import PushTarget
from components.pusher.errors import PushConfigError, PushError
from components.pusher.executor import Executor


@pytest.fixture
def artifacts(tmp_path, exported):
    """Input and output artifacts of one execution; the model is "double"."""
    model = standard_artifacts.Model()
    model.uri = str(tmp_path / "model")
    shutil.copytree(exported["double"], tmp_path / "model" / "Format-Serving")
    blessing = standard_artifacts.ModelBlessing()
    blessing.uri = str(tmp_path / "blessing")
    blessing.set_int_custom_property("blessed", 1)
    pushed = standard_artifacts.PushedModel()
    pushed.uri = str(tmp_path / "pushed")
    return {"model": [model], "model_blessing": [blessing]}, {"pushed_model": [pushed]}


def run(artifacts, target: PushTarget) -> tuple[types.Artifact, dict]:
    inputs, outputs = artifacts
    Executor().Do(inputs, outputs, {"target": target.to_json()})
    pushed = outputs["pushed_model"][0]
    return pushed, json.loads((pathlib.Path(pushed.uri) / "push.json").read_text())


def test_blessed_model_is_pushed_and_marked_as_stock_tfx_marks_it(artifacts, tmp_path):
    pushed, report = run(artifacts, PushTarget(base=str(tmp_path / "serving"), name="line"))
    version = pushed.get_string_custom_property("pushed_version")
    assert pushed.get_int_custom_property("pushed") == 1
    assert pushed.get_string_custom_property("pushed_destination") == str(tmp_path / "serving" / "line" / version)
    assert (tmp_path / "serving" / "line" / version / "saved_model.pb").exists()
    assert report["pushed"]
    assert report["report"]["golden"]["rows"] == 4
    assert pushed.get_string_custom_property("pushed_digest") == report["digest"]


@pytest.mark.parametrize("blessing", ["model_blessing", "infra_blessing"])
def test_model_that_is_not_blessed_is_not_pushed(blessing, artifacts, tmp_path):
    refused = standard_artifacts.ModelBlessing() if blessing == "model_blessing" else standard_artifacts.InfraBlessing()
    refused.uri = str(tmp_path / "refused")
    refused.set_int_custom_property("blessed", 0)
    artifacts[0][blessing] = [refused]
    pushed, report = run(artifacts, PushTarget(base=str(tmp_path / "serving"), name="line"))
    assert pushed.get_int_custom_property("pushed") == 0
    assert report == {"pushed": False, "reason": f"the model is not blessed ({blessing} at {refused.uri})"}
    assert not (tmp_path / "serving").exists()


def test_failed_push_is_not_marked_as_pushed(artifacts, tmp_path):
    model = pathlib.Path(artifacts[0]["model"][0].uri) / "Format-Serving"
    (model / "variables" / "variables.data-00000-of-00001").write_bytes(b"short")
    with pytest.raises(PushError, match="does not load") as raised:
        run(artifacts, PushTarget(base=str(tmp_path / "serving"), name="line"))
    assert raised.value.exit_code == 5
    assert artifacts[1]["pushed_model"][0].get_int_custom_property("pushed") == 0


def test_component_contract():
    target = PushTarget(base="serving", name="line")
    pusher = Pusher(
        model=types.Channel(type=standard_artifacts.Model),
        model_blessing=types.Channel(type=standard_artifacts.ModelBlessing),
        target=target,
    )
    assert PushTarget.from_json(pusher.exec_properties["target"]) == target
    assert pusher.outputs["pushed_model"].type == standard_artifacts.PushedModel
    with pytest.raises(PushConfigError, match="`target` must be a PushTarget, got str"):
        Pusher(model=types.Channel(type=standard_artifacts.Model), target="serving")
