"""What a pipeline is made from: the workload's own file plus what the person asked for on the command line."""

import dataclasses
import importlib.util
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import yaml

from pipeline import beam_options, config_reader, default_data
from pipeline.errors import ConfigError

WORKLOAD_FILE = "workload.yaml"
PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MetricConfig:
    """One metric of the evaluation and the bounds that a model must keep to be blessed."""

    name: str
    """Class of a metric in TFMA or Keras, such as AUC, or the dotted path of one's own Keras metric."""
    params: dict = dataclasses.field(default_factory=dict)
    """Arguments of that class."""
    at_least: float | None = None
    """Smallest value that may be blessed."""
    at_most: float | None = None
    """Largest value that may be blessed."""
    max_loss: float | None = None
    """How much worse than the latest blessed model on the same data it may be, in the metric's own unit."""
    higher_is_better: bool = True
    """Which direction `max_loss` looks in."""
    on_slices: bool = False
    """Whether the bounds hold for every slice that is large enough, or only for the whole."""

    def __post_init__(self) -> None:
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ConfigError(f"metric {self.name}: at_least {self.at_least} is above at_most {self.at_most}")
        if self.max_loss is not None and self.max_loss < 0:
            raise ConfigError(f"metric {self.name}: max_loss must be 0 or more, found {self.max_loss}")

    @property
    def decides(self) -> bool:
        """Whether any bound is set."""
        return self.at_least is not None or self.at_most is not None or self.max_loss is not None


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluateConfig:
    """How a model is judged."""

    label_key: str
    """The label's name among the transformed features."""
    prediction_key: str | None = None
    """Which output of the signature is the prediction, where there are several."""
    signature: str = "serving_default"
    """The signature that is evaluated: the one that serves."""
    preprocessing: str | None = "transform_features"
    """The signature that makes the label from raw examples; null where the label is a raw column."""
    metrics: tuple[MetricConfig, ...]
    """At least one of them with a bound."""
    slices: tuple[tuple[str, ...], ...] = ()
    """Raw columns by which metrics are also computed; several names make one crossed slice."""
    min_slice_size: int = 100
    """A smaller slice is reported and never decides."""
    confidence_intervals: bool = False
    """Jackknife intervals, shown beside each value: slower. Bounds hold for the value itself."""
    operating_threshold: float | None = None
    """The probability above which a prediction counts as positive: the report shows the confusion matrix there."""

    def __post_init__(self) -> None:
        if not any(metric.decides for metric in self.metrics):
            raise ConfigError(
                "evaluate.metrics: no bound is set, so that any model would be blessed. "
                "Give at least one metric at_least, at_most or max_loss."
            )
        if self.min_slice_size < 1:
            raise ConfigError(f"evaluate.min_slice_size: must be 1 or more, found {self.min_slice_size}")
        if self.operating_threshold is not None and not 0 <= self.operating_threshold <= 1:
            raise ConfigError(f"evaluate.operating_threshold: must be from 0 to 1, found {self.operating_threshold}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformConfig:
    """The Transform step."""

    preprocessing_fn: str
    """Dotted path of a TFX preprocessing_fn."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrepareConfig:
    """The Prepare step, for records that are not the ingested rows: packed sequences, for example."""

    prepare_fn: str
    """Dotted path of a function of one components.prepare.prepare_args.PrepareArgs."""
    settings: dict = dataclasses.field(default_factory=dict)
    """Settings of that function."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The Trainer step."""

    run_fn: str
    """Dotted path of a TFX run_fn."""
    num_workers: int = 2
    """Worker processes (laptop) or pods (Kubernetes) under MultiWorkerMirroredStrategy."""
    precision: str = "float32"
    """float32, mixed_bfloat16 or mixed_float16."""
    train_steps: int
    """Optimizer steps."""
    eval_steps: int = 0
    """Evaluation batches after training; 0 means the whole eval split."""
    engine: dict = dataclasses.field(default_factory=dict)
    """Settings of modules/training (batch_size, learning_rate, ...); reaches run_fn as custom_config["training"]."""
    model: dict = dataclasses.field(default_factory=dict)
    """Settings of the workload's own model, such as its depth; reaches run_fn as custom_config["model"]."""

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise ConfigError(f"train.precision: {self.precision!r} is not one of {', '.join(PRECISIONS)}")
        if self.num_workers < 1:
            raise ConfigError(f"train.num_workers: must be 1 or more, found {self.num_workers}")
        if self.train_steps < 1 or self.eval_steps < 0:
            raise ConfigError("train: train_steps must be 1 or more, eval_steps 0 or more")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WorkloadConfig:
    """One folder under modules/: its data, schema, code and bounds. Read from its workload.yaml."""

    name: str
    description: str = ""
    data: str | None = None
    """Where the default data lies: a folder, `package:NAME/FOLDER` inside an installed Python package, or
    `function:DOTTED.NAME`, a function that writes it into the folder that it is called with, once."""
    schema: str | None = "schema.pbtxt"
    """The curated schema beside workload.yaml; null infers one from the data on every run."""
    ingest: dict = dataclasses.field(default_factory=dict)
    """Settings of components/example_gen."""
    gate: dict = dataclasses.field(default_factory=dict)
    """Policy of components/data_gate."""
    transform: TransformConfig | None = None
    """Without it, the Trainer reads the ingested examples as they are."""
    prepare: PrepareConfig | None = None
    """In place of `transform`, where the Trainer's records are not the ingested rows."""
    train: TrainConfig
    evaluate: EvaluateConfig
    push: dict = dataclasses.field(default_factory=dict)
    """Settings of components/pusher."""
    beam: dict = dataclasses.field(default_factory=dict)
    """Beam flags by step, or for `all` that have none of their own: which engine processes the data."""
    ask: tuple[dict, ...] = ()
    """Rows to ask the pushed model about at the end of a run; without them, the first row of the eval split."""

    def __post_init__(self) -> None:
        if self.transform and self.prepare:
            raise ConfigError("both `transform` and `prepare` say what the Trainer reads: name one")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PipelineConfig:
    """Everything that create_pipeline needs; paths are absolute."""

    workload: WorkloadConfig
    data: str
    """Folder or pattern of the input files."""
    data_is_default: bool = False
    """Whether `data` is the workload's own default, which `default_data.make` may still have to write."""
    schema_file: str | None
    root: str
    """Everything that runs write lies below here."""
    pipeline_root: str = ""
    metadata_path: str = ""
    serving_dir: str = ""
    registry_dir: str = ""
    enable_cache: bool = True
    compare_with_last_blessed_data: bool = True
    """Whether the gate looks for drift from the data of the last run whose model was blessed. It is found in ML
    Metadata, which Kubeflow gives no step: there the gate says that drift was not checked."""
    beam: dict = dataclasses.field(default_factory=dict)
    """Beam flags by step, or for `all` of them: the workload's, with the command line's in their place."""

    def __post_init__(self) -> None:
        name = self.workload.name
        defaults = {
            "pipeline_root": f"{self.root}/pipelines/{name}",
            "metadata_path": f"{self.root}/metadata/{name}.sqlite",
            "serving_dir": f"{self.root}/serving/{name}",
            "registry_dir": f"{self.root}/registry",
        }
        for field, value in defaults.items():
            if not getattr(self, field):
                object.__setattr__(self, field, value)


def workload_folder(name: str) -> pathlib.Path:
    """The folder of `modules.<name>` (or of any dotted package path), found without importing it.

    Raises:
      ConfigError: where there is no such package or it has no workload.yaml.
    """
    dotted = name if "." in name else f"modules.{name}"
    try:
        spec = importlib.util.find_spec(dotted)
    except (ImportError, ValueError):  # also for what is no dotted name at all, such as a path
        spec = None
    folders = list(spec.submodule_search_locations or []) if spec else []
    for folder in folders:
        if pathlib.Path(folder, WORKLOAD_FILE).is_file():
            return pathlib.Path(folder)
    if not all(part.isidentifier() for part in dotted.split(".")):
        raise ConfigError(
            f"no workload {name!r}: expected a folder's name under modules/, or a package's dotted path. "
            f"{_known_workloads()}"
        )
    raise ConfigError(
        f"no workload `{name}`: expected {dotted.replace('.', '/')}/{WORKLOAD_FILE}. {_known_workloads()}"
    )


def _known_workloads() -> str:
    spec = importlib.util.find_spec("modules")
    folders = list(spec.submodule_search_locations or []) if spec else []
    names = sorted({path.parent.name for folder in folders for path in pathlib.Path(folder).glob(f"*/{WORKLOAD_FILE}")})
    return f"There are: {', '.join(names)}." if names else ""


def load_workload(name: str) -> tuple[WorkloadConfig, pathlib.Path]:
    """The workload's configuration and its folder."""
    folder = workload_folder(name)
    path = folder / WORKLOAD_FILE
    try:
        mapping = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    return config_reader.read(WorkloadConfig, mapping, str(path)), folder


def check_functions(workload: WorkloadConfig) -> None:
    """Refuses a function whose module is not there, or whose name is nowhere in that module's source.

    Without it a slip of the pen would show when its step runs, after all steps before it. The module is not imported.

    Raises:
      ConfigError: naming the key and what is missing.
    """
    functions = {"train.run_fn": workload.train.run_fn}
    if workload.transform:
        functions["transform.preprocessing_fn"] = workload.transform.preprocessing_fn
    if workload.prepare:
        functions["prepare.prepare_fn"] = workload.prepare.prepare_fn
    for key, dotted in functions.items():
        module, _, name = dotted.rpartition(".")
        try:
            spec = importlib.util.find_spec(module) if module else None
        except (ImportError, ValueError):
            spec = None
        if spec is None:
            raise ConfigError(
                f"workload {workload.name}: `{key}` is {dotted}, but there is no module {module or dotted}"
            )
        if not spec.origin or not spec.origin.endswith(".py"):
            continue
        source = pathlib.Path(spec.origin).read_text(encoding="utf-8", errors="replace")
        # A name that a star import or a __getattr__ makes is not to be seen here: such a module is left to its step.
        if not re.search(rf"\b{re.escape(name)}\b|import \*|__getattr__|globals\(", source):
            raise ConfigError(f"workload {workload.name}: `{key}` is {dotted}, but {spec.origin} has no {name}")


def make_config(
    workload_name: str = "taxi",
    *,
    data: str | None = None,
    root: str = "build",
    num_workers: int | None = None,
    precision: str | None = None,
    train_steps: int | None = None,
    beam: Sequence[str] = (),
    **rest: Any,
) -> PipelineConfig:
    """The pipeline's configuration: the workload's file, with what the caller names put in its place.

    Raises:
      ConfigError: for a workload, key, value or path that cannot be right.
    """
    workload, folder = load_workload(workload_name)
    changes: dict[str, Any] = {"num_workers": num_workers, "precision": precision, "train_steps": train_steps}
    train = dataclasses.replace(workload.train, **{key: value for key, value in changes.items() if value is not None})
    workload = dataclasses.replace(workload, train=train)
    if data is None and workload.data is None:
        raise ConfigError(f"{folder / WORKLOAD_FILE} names no default data: say where it is with --data DIR")
    location = str(pathlib.Path(data).absolute()) if data and "://" not in data else data
    root = str(pathlib.Path(root).absolute())
    schema_file = str(folder / workload.schema) if workload.schema else None
    if schema_file and not pathlib.Path(schema_file).is_file():
        raise ConfigError(f"{folder / WORKLOAD_FILE}: `schema` names {schema_file}, which does not exist")
    return PipelineConfig(
        workload=workload,
        data=location or default_data.resolve(str(workload.data), folder, root, workload.name),
        data_is_default=location is None,
        schema_file=schema_file,
        root=root,
        beam=beam_options.from_mapping(workload.beam, f"{folder / WORKLOAD_FILE}: beam")
        | beam_options.from_arguments(beam),
        **rest,
    )
