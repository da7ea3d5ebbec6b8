"""Tiny SavedModels, made once (`serving_default` takes serialized tf.Examples with one float `x`), and ways to push."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from components.pusher import content
from components.pusher.base_folder import BaseFolder
from components.pusher.config import PushTarget
from components.pusher.deployer import Deployer

ROOT = pathlib.Path(__file__).resolve().parents[3]


def _export(folder: pathlib.Path, weight: float, with_variables: bool = True) -> None:
    import tensorflow as tf

    class Line(tf.Module):
        def __init__(self):
            super().__init__()
            # Wide enough that cutting or flipping the file hits this tensor.
            self.weight = tf.Variable(tf.fill([4096], weight)) if with_variables else tf.constant([weight])

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
        def serve(self, examples):
            parsed = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([], tf.float32)})
            return {"scores": parsed["x"] * self.weight[0]}

    module = Line()
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.serve})


def _golden(weight: float) -> dict:
    import tensorflow as tf

    xs = [0.0, 1.0, -2.5, 1e6]
    features = [
        tf.train.Features(feature={"x": tf.train.Feature(float_list=tf.train.FloatList(value=[x]))}) for x in xs
    ]
    examples = [tf.train.Example(features=feature).SerializeToString() for feature in features]
    return {
        "signature": "serving_default",
        "input_key": "examples",
        "examples_b64": [base64.b64encode(example).decode() for example in examples],
        "outputs": {"scores": [x * weight for x in xs]},
        "tolerance": 1e-3,
    }


@pytest.fixture(scope="session")
def exported(tmp_path_factory) -> dict[str, pathlib.Path]:
    """Models by name; never change them, use `models` for a copy."""
    root = tmp_path_factory.mktemp("exported")
    for name, weight in {"double": 2.0, "triple": 3.0}.items():
        _export(root / name, weight)
        extra = root / name / "assets.extra"
        extra.mkdir()
        (extra / "golden_predictions.json").write_text(json.dumps(_golden(weight)))
    _export(root / "constant", 5.0, with_variables=False)
    return {path.name: path for path in root.iterdir()}


@pytest.fixture
def models(exported, tmp_path) -> dict[str, pathlib.Path]:
    """A copy of every model that the test may damage."""
    return {name: pathlib.Path(shutil.copytree(path, tmp_path / "models" / name)) for name, path in exported.items()}


class Pushing:
    """Pushes of the model "line", here or in a process of its own, without loading it: other tests do that."""

    script = pathlib.Path(__file__).with_name("push_process.py")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(script.parent)])}

    def deployer(self, base: pathlib.Path, **overrides) -> Deployer:
        return Deployer(PushTarget(base=str(base), name="line"), **{"verify": lambda *_: {}, **overrides})

    def start(self, **request) -> subprocess.Popen:
        command = [sys.executable, str(self.script), json.dumps(request)]
        return subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True)

    def finish(self, process: subprocess.Popen) -> dict:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0, output
        return json.loads(output)

    def command(self, model: pathlib.Path, extra: str = "") -> str:
        """A shell command that pushes `model` to the folder in $BASE."""
        request = f'{{"base": "\'$BASE\'", "model": "{model}"{extra}}}'
        return f"{sys.executable} {self.script} '{request}'"

    def run(self, **request) -> dict:
        return self.finish(self.start(**request))

    def digest(self, path: pathlib.Path | str) -> str:
        return content.manifest_of(pathlib.Path(path)).digest

    def digests(self, folder: BaseFolder) -> dict[int, str]:
        return {version: self.digest(path) for version, path in folder.versions().items()}


@pytest.fixture(scope="session")
def pushing() -> Pushing:
    return Pushing()
