"""What a pipeline needs to know about the cluster it is compiled for: image, resources, volumes, secrets, retries."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import yaml

from kubeflow import kubernetes_rules
from pipeline import config_reader
from pipeline.errors import ConfigError

_IMAGE_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_TOLERATION_OPERATORS = ("Equal", "Exists")
_TAINT_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_TAKEN = {
    "/gcs": "the Kubeflow launcher",
    "/s3": "the Kubeflow launcher",
    "/minio": "the Kubeflow launcher",
    "/tmp/kfp": "the Kubeflow launcher",
    "/opt/sluice": "the image",
    "/opt/venv": "the image",
    "/usr": "the image",
}
"""Folders of a step's container, and whose they are."""
_MOST = 2**31 - 1
IMAGE_USER = 65532
"""The user of kubeflow/Dockerfile."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class VolumeConfig:
    """A PersistentVolumeClaim that exists in the namespace of the run."""

    claim: str
    """Name of the claim."""
    path: str
    """Where it is mounted: an absolute path."""
    sub_path: str = ""
    """Folder of the claim that is mounted; all of it without."""

    def __post_init__(self) -> None:
        kubernetes_rules.check_name("volume: claim", self.claim)
        kubernetes_rules.check_path(f"volume {self.claim}: path", self.path)
        if self.sub_path.startswith("/") or ".." in self.sub_path.split("/"):
            raise ConfigError(f"volume {self.claim}: sub_path must be a folder inside, found {self.sub_path!r}")
        path = pathlib.PurePosixPath(self.path)
        for root, owner in _TAKEN.items():
            if path.is_relative_to(root):
                raise ConfigError(f"volume {self.claim}: {root} belongs to {owner}; mount somewhere else")
            if pathlib.PurePosixPath(root).is_relative_to(path):
                raise ConfigError(f"volume {self.claim}: {self.path} would hide {root}; mount somewhere else")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SecretConfig:
    """A Secret whose keys become environment variables."""

    name: str
    """Name of the Secret."""
    env: dict
    """Key in the Secret to name of the environment variable."""
    optional: bool = False
    """Whether the step starts without it."""

    def __post_init__(self) -> None:
        kubernetes_rules.check_name("secret: name", self.name)
        variables = {str(variable): str(key) for key, variable in self.env.items()}
        kubernetes_rules.check_variables(f"secret {self.name}: env", variables)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TolerationConfig:
    """A taint that the step's pod tolerates."""

    key: str = ""
    operator: str = "Exists"
    value: str = ""
    effect: str = ""

    def __post_init__(self) -> None:
        if self.operator not in _TOLERATION_OPERATORS:
            allowed = " or ".join(_TOLERATION_OPERATORS)
            raise ConfigError(f"toleration {self.key}: operator must be {allowed}, found {self.operator!r}")
        if self.key:
            kubernetes_rules.check_key("toleration", self.key)
        elif self.operator != "Exists":
            raise ConfigError("toleration: without a key only the operator Exists is possible")
        if self.operator == "Exists" and self.value:
            raise ConfigError(f"toleration {self.key}: with operator Exists there is no value; use Equal")
        if self.effect not in _TAINT_EFFECTS:
            allowed = ", ".join(effect or "(none)" for effect in _TAINT_EFFECTS)
            raise ConfigError(f"toleration {self.key}: effect must be one of {allowed}, found {self.effect!r}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepConfig:
    """How one step runs. A field that is not set is taken from `default`, and then from the cluster."""

    image: str | None = None
    """Another image for this step."""
    cpu_request: str | None = None
    cpu_limit: str | None = None
    memory_request: str | None = None
    memory_limit: str | None = None
    gpus: int | None = None
    """Accelerators of the step's own pod. A Trainer that starts workers on other pods needs none here."""
    gpu_resource: str | None = None
    """The Kubernetes resource to ask for; nvidia.com/gpu without."""
    retries: int | None = None
    """How often a failed pod is started again. Steps that judge data are never retried unless this says so."""
    retry_backoff_seconds: int | None = None
    """Pause before the first retry; it doubles up to an hour."""
    timeout_seconds: int | None = None
    """After this time the pod is killed and the step has failed."""
    cache: bool | None = None
    """Whether the outputs of an equal earlier execution are taken instead of running."""
    shared_memory: str | None = None
    """Size of /dev/shm, such as 2Gi; NCCL inside one pod needs it."""
    env: dict = dataclasses.field(default_factory=dict)
    """Environment variables, on top of the default ones."""
    secrets: tuple[SecretConfig, ...] = ()
    volumes: tuple[VolumeConfig, ...] = ()
    node_selector: dict = dataclasses.field(default_factory=dict)
    tolerations: tuple[TolerationConfig, ...] = ()
    labels: dict = dataclasses.field(default_factory=dict)
    annotations: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("cpu_request", "cpu_limit", "memory_request", "memory_limit", "shared_memory"):
            value = getattr(self, name)
            if value is not None and not kubernetes_rules.is_quantity(value):
                raise ConfigError(f"{name}: expected a Kubernetes quantity such as 500m or 4Gi, found {value!r}")
        for name in ("gpus", "retries", "retry_backoff_seconds", "timeout_seconds"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= _MOST:
                raise ConfigError(f"{name}: must be 0 or more, and at most {_MOST}, found {value}")
        if self.gpu_resource is not None:
            kubernetes_rules.check_key("gpu_resource", self.gpu_resource)
        for name in ("env", "node_selector", "labels", "annotations"):
            for key, value in getattr(self, name).items():
                if not isinstance(value, str):
                    raise ConfigError(f"{name}: `{key}` must be text, found {value!r}; put it in quotes")
        kubernetes_rules.check_variables("env", self.env)
        kubernetes_rules.check_labels("labels", self.labels)
        kubernetes_rules.check_labels("node_selector", self.node_selector)
        kubernetes_rules.check_labels("annotations", self.annotations, values=False)
        for name in ("cpu", "memory"):
            request, limit = getattr(self, f"{name}_request"), getattr(self, f"{name}_limit")
            if request and limit and kubernetes_rules.amount(request) > kubernetes_rules.amount(limit):
                raise ConfigError(f"{name}_request {request} is more than {name}_limit {limit}: no pod can have both")
        paths = [volume.path.rstrip("/") for volume in self.volumes]
        for path in paths:
            if paths.count(path) > 1:
                raise ConfigError(f"volumes: two are mounted at {path}")

    def over(self, default: "StepConfig") -> "StepConfig":
        """This configuration with what it leaves open taken from `default`; mappings and lists are joined.

        A volume of its own hides a default one at the same path.
        """
        merged: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            own, general = getattr(self, field.name), getattr(default, field.name)
            if isinstance(own, dict):
                merged[field.name] = {**general, **own}
            elif field.name == "volumes":
                paths = {volume.path for volume in own}
                merged[field.name] = tuple(volume for volume in general if volume.path not in paths) + own
            elif isinstance(own, tuple):
                merged[field.name] = general + tuple(item for item in own if item not in general)
            else:
                merged[field.name] = general if own is None else own
        return StepConfig(**merged)


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutcomeConfig:
    """What happens when a run has ended, however it ended."""

    webhook_secret: str = ""
    """Secret with the key `url`: a JSON object with the outcome is posted there."""
    command: tuple[str, ...] = ()
    """Command that is run in the image with that JSON object on its standard input, such as a mailer."""

    @property
    def wanted(self) -> bool:
        """Whether anything is to be done."""
        return bool(self.webhook_secret or self.command)


@dataclasses.dataclass(frozen=True, kw_only=True)
class KubeflowConfig:
    """The cluster's side of a pipeline; read from a YAML file, or made in code."""

    image: str
    """The image of `make image`: tagged by git SHA, or better by digest (name@sha256:...)."""
    name: str | None = None
    """Name of the pipeline on the cluster; the workload's name without."""
    storage: str = "/mnt/sluice"
    """Shared storage as the pods see it: registry, serving folder and what a distributed Trainer stages lie below."""
    model_registry: str | None = None
    """Folder or fsspec URL of the model registry; `registry/<name>` in the storage without."""
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: tuple[str, ...] = ()
    trainer: dict = dataclasses.field(default_factory=dict)
    """Where the Trainer's workers run: settings of components/trainer's ClusterConfig. Processes in its pod without.
    For pods of their own, image, pull secrets, claims and the folder to hand things over are this configuration's."""
    parameters: dict = dataclasses.field(default_factory=dict)
    """Other defaults for the pipeline's parameters, by name."""
    default: StepConfig = dataclasses.field(default_factory=StepConfig)
    """What holds for every step."""
    steps: dict = dataclasses.field(default_factory=dict)
    """Exceptions, by the step's id, such as Trainer."""
    outcome: OutcomeConfig = dataclasses.field(default_factory=OutcomeConfig)
    summary: bool = True
    """Whether a last, short step puts rows, verdict, metrics and version on one page of the Kubeflow UI."""

    def __post_init__(self) -> None:
        check_image(self.image)
        if self.image_pull_policy not in _IMAGE_PULL_POLICIES:
            allowed = ", ".join(_IMAGE_PULL_POLICIES)
            raise ConfigError(f"image_pull_policy: {self.image_pull_policy!r} is not one of {allowed}")
        for secret in self.image_pull_secrets:
            kubernetes_rules.check_name("image_pull_secrets", secret)
        kubernetes_rules.check_path("storage: the path in the pods", self.storage)
        if self.model_registry is not None:
            _check_registry(self.model_registry)
        steps = {}
        for step, value in self.steps.items():
            steps[step] = (
                value if isinstance(value, StepConfig) else config_reader.read(StepConfig, value, f"steps.{step}")
            )
            if (image := steps[step].image) is not None:
                check_image(image)
        object.__setattr__(self, "steps", steps)
        kubernetes_rules.check_no_template("config", dataclasses.asdict(self))

    @property
    def storage_is_mounted(self) -> bool:
        """Whether a claim of some step holds the storage; where not, what is written there goes with its pod."""
        volumes = [volume for step in (self.default, *self.steps.values()) for volume in step.volumes]
        return any(pathlib.PurePosixPath(self.storage).is_relative_to(volume.path) for volume in volumes)

    def step(self, step_id: str) -> StepConfig:
        """The configuration that holds for the step."""
        return self.steps.get(step_id, StepConfig()).over(self.default)

    def trainer_cluster(self) -> dict:
        """Settings of the Trainer's ClusterConfig, with what the pods of workers have in common with those of steps."""
        backends, pods_of_its_own = self.trainer.get("backends", ["local"]), self.trainer.get("kubernetes", {})
        if not isinstance(backends, list | tuple) or not isinstance(pods_of_its_own, Mapping):
            return dict(self.trainer)  # ClusterConfig says what is wrong with it
        if all(backend == "local" for backend in backends):
            return dict(self.trainer)
        step = self.step("Trainer")
        pods = {
            "image": step.image or self.image,
            "image_pull_policy": self.image_pull_policy,
            "image_pull_secrets": list(self.image_pull_secrets),
            "volumes": [{"claim": volume.claim, "mount_path": volume.path} for volume in step.volumes],
            "shared_dir": f"{self.storage}/training",
            "run_as_user": IMAGE_USER,
        }
        return {**self.trainer, "kubernetes": {**pods, **pods_of_its_own}}


def _check_registry(registry: str) -> None:
    """A registry is a folder that pods share, or a URL that fsspec knows."""
    import fsspec

    scheme, url, _ = registry.partition("://")
    if url and scheme not in fsspec.available_protocols():
        raise ConfigError(
            f"model_registry: {registry!r} names no file system that fsspec knows, such as s3:// or gs://"
        )
    if not url and not registry.startswith("/"):
        raise ConfigError(f"model_registry: expected an absolute path in the pods or a URL, found {registry!r}")


def check_image(image: str) -> None:
    """Refuses an image reference that can mean other code tomorrow: Kubeflow's cache is keyed by the reference."""
    kubernetes_rules.check_image_reference(image)
    name = image.rsplit("/", 1)[-1]
    if "@sha256:" in image:
        return
    tag = name.partition(":")[2]
    if not tag or tag == "latest":
        raise ConfigError(
            f"image {image!r} has no fixed version. Kubeflow's cache would take its old outputs for current ones: "
            "name it by git SHA or digest (`make image` prints both)."
        )


def load(path: str, **overrides: Any) -> KubeflowConfig:
    """Reads a KubeflowConfig from the YAML file `path`; `overrides` that are not None win.

    Raises:
      ConfigError: naming the file, the key, what it holds and what is allowed.
    """
    mapping = _read(path)
    if isinstance(mapping, dict):
        mapping = {**mapping, **{key: value for key, value in overrides.items() if value is not None}}
    return config_reader.read(KubeflowConfig, mapping, path)


def names_image(path: str) -> bool:
    """Whether the YAML file `path` says which image the steps run in."""
    mapping = _read(path)
    return isinstance(mapping, dict) and bool(mapping.get("image"))


def _read(path: str) -> Any:
    try:
        content = yaml.safe_load(pathlib.Path(path).read_text(encoding="utf-8"))
        return {} if content is None else content  # an empty file
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
