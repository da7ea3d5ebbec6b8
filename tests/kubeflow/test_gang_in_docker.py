"""Two training workers as two containers on a network of their own, one of which is killed.

Image, command, environment, host names and security settings are those of the JobSet that the Trainer step creates. The
test does what the JobSet controller does: one exit code that can be tried again, and the whole gang starts anew.
"""

import dataclasses
import json
import pathlib
import random
import re
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf
from docker_engine import IMAGE, docker, logs

from components.trainer import exit_codes
from components.trainer.cluster_config import ClusterConfig
from components.trainer.kubernetes.config import KubernetesConfig
from components.trainer.kubernetes.job_spec import KubernetesJobSpec
from components.trainer.kubernetes.manifests import KINDS
from components.trainer.training_spec import TrainingSpec
from kubeflow.config import IMAGE_USER

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1200), pytest.mark.skipif(not IMAGE, reason="name SLUICE_IMAGE")]
RUN_FNS = pathlib.Path(__file__).parents[1] / "components" / "trainer" / "run_fns"
CHECKPOINT_EVERY, STEPS = 200, 12_000
SCHEMA = """
feature { name: "x" type: FLOAT shape { dim { size: 4 } } presence { min_fraction: 1.0 } }
feature { name: "y" type: FLOAT shape { dim { size: 1 } } presence { min_fraction: 1.0 } }
"""


def write_data(folder: pathlib.Path) -> None:
    numbers = random.Random(0)
    (folder / "schema.pbtxt").write_text(SCHEMA)
    for split in ("train", "eval"):
        with tf.io.TFRecordWriter(str(folder / f"{split}.gz"), options="GZIP") as writer:
            for _ in range(512):
                x = [numbers.random() for _ in range(4)]
                features = {
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=x)),
                    "y": tf.train.Feature(float_list=tf.train.FloatList(value=[sum(x)])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


@dataclasses.dataclass
class Gang:
    """A JobSet of two workers, in the hands of a controller that is this test."""

    folder: pathlib.Path
    network: str
    job: str
    spec: dict[str, Any]

    @property
    def names(self) -> list[str]:
        return [f"{self.job}-node-0-{index}" for index in range(2)]

    def start(self) -> None:
        for index, name in enumerate(self.names):
            docker("run", "--detach", "--name", name, *self._flags(name, index), *self._container["command"])

    def _flags(self, name: str, index: int) -> list[str]:
        environment = {item["name"]: item["value"] for item in self._container["env"]}
        environment |= {"JOB_COMPLETION_INDEX": str(index), "PYTHONPATH": "/opt/sluice:/run_fns"}
        flags = [flag for key, value in environment.items() for flag in ("--env", f"{key}={value}")]
        flags += ["--hostname", name, "--network", self.network, "--network-alias", f"{name}.{self.job}"]
        flags += ["--volume", f"{self.folder}:/shared", "--volume", f"{RUN_FNS}:/run_fns:ro"]
        message = self.message(name)  # the kubelet puts such a file into each pod
        message.touch()
        message.chmod(0o666)
        flags += ["--volume", f"{message}:/dev/termination-log"]
        user = self.spec["template"]["spec"]["securityContext"]["runAsUser"]
        flags += ["--user", str(user), "--read-only", "--tmpfs", "/tmp"]
        drop = self._container["securityContext"]["capabilities"]["drop"]
        return [*flags, "--security-opt", "no-new-privileges", *(f"--cap-drop={item}" for item in drop), IMAGE]

    @property
    def _container(self) -> dict[str, Any]:
        [container] = self.spec["template"]["spec"]["containers"]
        assert container["image"] == IMAGE
        return container

    def message(self, name: str) -> pathlib.Path:
        """The termination message of a pod: what its status says of why it ended."""
        return self.folder / f"{name}.termination"

    def may_start_again(self, code: int) -> bool:
        """What the job's pod failure policy says of an exit code."""
        [rule] = self.spec["podFailurePolicy"]["rules"]
        assert rule["onExitCodes"]["operator"] == "NotIn"
        return code in rule["onExitCodes"]["values"]

    def is_running(self, name: str) -> bool:
        return docker("inspect", "--format", "{{.State.Running}}", name) == "true"

    def exit_codes(self) -> list[int]:
        return [int(docker("wait", name)) for name in self.names]

    def remove(self) -> None:
        docker("rm", "--force", *self.names, check=False)

    def checkpoints(self) -> list[int]:
        """Steps of which there is a whole checkpoint."""
        found = (self.folder / "run").rglob("step-*")
        return sorted(int(path.name.removeprefix("step-")) for path in found if path.name[5:].isdigit())


@pytest.fixture
def gang(tmp_path) -> Iterator[Gang]:
    tmp_path.chmod(0o777)
    write_data(tmp_path)
    for name in ("work", "run", "model"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)  # the image's user is another one
    fn_args = {
        "train_files": ["/shared/train.gz"],
        "eval_files": ["/shared/eval.gz"],
        "train_steps": STEPS,
        "eval_steps": 2,
        "schema_path": "/shared/schema.pbtxt",
        "serving_model_dir": "/shared/model/Format-Serving",
        "eval_model_dir": "/shared/model/Format-TFMA",
        "model_run_dir": "/shared/run",
        "custom_config": {
            "training": {"checkpoint_every_steps": CHECKPOINT_EVERY, "steps_per_loop": 20, "batch_size": 16}
        },
    }
    places = {"model_dir": "/shared/model", "job_dir": "/shared/work"}
    spec = TrainingSpec(run_fn="with_engine.run_fn", fn_args=fn_args, tfx={}, **places)
    (tmp_path / "work" / "spec.json").write_text(json.dumps(dataclasses.asdict(spec)))
    job = f"job-{uuid.uuid4().hex[:6]}"
    pods = KubernetesConfig(image=IMAGE, run_as_user=IMAGE_USER)
    cluster = ClusterConfig(backends=("jobset",), num_workers=2, kubernetes=pods)
    wanted = KubernetesJobSpec(name=job, spec_path="/shared/work/spec.json", cluster=cluster, pods=pods)
    [job_set] = KINDS["jobset"].build(wanted)
    assert job_set["spec"]["failurePolicy"]["restartStrategy"] == "BlockingRecreate"
    network = f"sluice-{uuid.uuid4().hex[:8]}"
    docker("network", "create", network)
    made = Gang(tmp_path, network, job, job_set["spec"]["replicatedJobs"][0]["template"]["spec"])
    try:
        yield made
    finally:
        made.remove()
        docker("network", "rm", network)


def test_killed_worker_ends_the_gang_and_the_next_one_goes_on_from_its_checkpoint(gang):
    gang.start()
    deadline = time.monotonic() + 300
    while not gang.checkpoints():
        assert all(gang.is_running(name) for name in gang.names), logs(gang.names[0])[-3000:]
        assert time.monotonic() < deadline, "no checkpoint"
        time.sleep(0.1)
    docker("kill", gang.names[1])
    codes = gang.exit_codes()
    assert codes == [exit_codes.PEER_LOST, 137], logs(gang.names[0])[-3000:]
    assert all(gang.may_start_again(code) for code in codes)
    assert "lost worker 1" in gang.message(gang.names[0]).read_text()
    saved = gang.checkpoints()
    assert saved[-1] < STEPS
    gang.remove()

    gang.start()
    assert gang.exit_codes() == [0, 0], logs(gang.names[0])[-3000:]
    said = re.search(r"resumed at (\d+), (\d+) steps on (\d+) replicas", logs(gang.names[0]))
    assert said, logs(gang.names[0])[-3000:]
    assert (int(said[1]), int(said[2]), int(said[3])) == (saved[-1], STEPS, 2)
    [model] = (gang.folder / "model").rglob("saved_model.pb")
    answer = tf.saved_model.load(str(model.parent)).signatures["serving_default"]
    assert "examples" in answer.structured_input_signature[1]
