"""Every setting of the training engine, in one frozen dataclass. Standard library only."""

import dataclasses
import difflib
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Union

from modules.training.errors import TrainingConfigError

Strategy = Literal["auto", "one_device", "mirrored", "multi_worker", "parameter_server"]
Precision = Literal["float32", "mixed_bfloat16", "mixed_float16"]

_LARGEST = 2**31 - 1  # what TensorFlow takes everywhere
_LARGEST_OF = {"prometheus_port": 65535, "shuffle_buffer": 100_000_000}  # the buffer's places are made at once
_KINDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How to train. The defaults suit a small tabular model on one machine.

    A batch is always counted per replica; the global batch is `batch_size * num_replicas_in_sync`.
    """

    # --- where it runs -------------------------------------------------------------------------------------------
    strategy: Strategy = "auto"
    """auto: what TF_CONFIG and the visible devices ask for."""
    collective: Literal["auto", "ring", "nccl"] = "auto"
    """How gradients travel between workers; auto is NCCL on GPUs and RING on CPUs."""
    bytes_per_pack: int = 0
    """Split the all-reduce into packs of about this many bytes, so that it overlaps the backward pass; 0: one pack."""
    collective_timeout_s: float = 0.0
    """Give up on one all-reduce after so long; 0: leave it to the stall watchdog."""
    memory_growth: bool = True
    """Let TensorFlow take GPU memory as it needs it instead of all at once."""

    # --- how long -------------------------------------------------------------------------------------------------
    steps: int | None = None
    """Optimizer steps; None: fn_args.train_steps, else `epochs`."""
    epochs: int | None = None
    """Passes over the training data; used when no number of steps is given."""
    steps_per_loop: int = 0
    """Steps inside one tf.function call; 0: chosen so that a call lasts about a second."""
    eval_every: int = 0
    """Evaluate every so many steps; 0: only at the end."""
    eval_steps: int | None = None
    """Global batches per evaluation; None: fn_args.eval_steps, else all of the evaluation data."""

    # --- batch and input --------------------------------------------------------------------------------------------
    batch_size: int = 64
    """Examples per replica and optimizer step, all micro-batches together."""
    eval_batch_size: int | None = None
    """Examples per replica in evaluation; None: batch_size."""
    accumulate: int = 1
    """Micro-batches per optimizer step; must divide batch_size."""
    shuffle_buffer: int = 10_000
    """Records in the shuffle buffer; 0: no shuffling at all, not even of the files."""
    seed: int = 0
    """Seed of the model's initial values, of dropout and of the order of the data."""
    cache: bool = False
    """Keep the parsed training examples in memory and shuffle over all of them."""
    sharding: Literal["auto", "data", "file"] = "auto"
    """data: every worker reads all files and takes its slice of every batch, so the result does not depend on the
    number of workers. file: each worker reads its own files. auto: file if there are enough files, else data."""
    deterministic: bool = True
    """Keep the order of the data the same from run to run; False is only possible with sharding by file."""
    drop_remainder: bool = False
    """Leave out the last, smaller batch of an epoch (fixed shapes for XLA)."""
    check_input: bool = True
    """Read all training files once before the first step, so that damage is named now and not hours later."""
    parallel_files: int = 4
    """Files read at the same time."""
    prefetch: int = 0
    """Batches kept ready; 0: tf.data decides."""
    class_weights: tuple[tuple[int, float], ...] = ()
    """Pairs (class, weight); examples of other classes weigh 1."""

    # --- optimizer ------------------------------------------------------------------------------------------------
    optimizer: Literal["sgd", "momentum", "adam", "adamw", "rmsprop", "adagrad", "lars"] = "adam"
    """lars: momentum scaled layer by layer, for global batches of many thousands."""
    learning_rate: float = 1e-3
    lr_scaling: Literal["none", "linear", "sqrt"] = "none"
    """Multiply the learning rate by global_batch / base_batch_size, or by its square root."""
    base_batch_size: int = 0
    """The global batch that `learning_rate` was tuned for; 0: batch_size."""
    lr_schedule: Literal["constant", "cosine", "linear"] = "constant"
    warmup_steps: int = 0
    """Steps over which the learning rate rises linearly from zero."""
    weight_decay: float = 0.0
    """Decoupled weight decay, times the learning rate; biases and normalisation scales are left alone."""
    lars_trust: float = 0.001
    """Share of a layer's norm that a step of LARS changes at learning rate 1."""
    clip_norm: float | None = None
    """Clip the gradients of the global batch to this global norm."""

    # --- distillation ---------------------------------------------------------------------------------------------
    teacher: str = ""
    """SavedModel of this engine whose answers the model learns too; empty: no distillation."""
    teacher_weight: float = 0.5
    """Share of the teacher's answers in the loss, 0 to 1."""
    teacher_temperature: float = 2.0
    """Above 1, the less likely answers of the teacher count more."""

    # --- precision and speed ------------------------------------------------------------------------------------------
    precision: Precision = "float32"
    initial_loss_scale: float = 2.0**15
    loss_scale_growth_steps: int = 2000
    """Good steps after which the float16 loss scale doubles."""
    max_skipped_steps: int = 50
    """Give up after so many float16 steps in a row whose gradients were not finite."""
    nan_guard: bool = True
    """Stop with the step and the batch named when a loss or gradient is not finite."""
    compress: Literal["none", "bfloat16", "float16"] = "none"
    """Send gradients in this type; sums of many workers lose digits, so compare the metrics."""
    jit_compile: bool = False
    """Compile forward and backward with XLA (slower on CPUs in our measurements)."""
    recompute_layers: tuple[str, ...] = ()
    """Layers whose activations are computed again in the backward pass instead of being kept."""

    # --- safety -------------------------------------------------------------------------------------------------------
    checkpoint_every_steps: int = 0
    """0: only at the end and when asked to stop."""
    checkpoint_every_minutes: float = 30.0
    """By the chief's clock, at the end of the call of `steps_per_loop` steps; 0: never."""
    max_to_keep: int = 3
    resume: bool = True
    """Go on from the newest checkpoint in fn_args.model_run_dir."""
    warm_start: bool = True
    """Start from fn_args.base_model's weights where there is one and no checkpoint."""
    best_metric: str = "loss"
    """The evaluation metric that decides which weights are exported and when to stop early."""
    best_mode: Literal["min", "max", "auto"] = "auto"
    """auto: min for names with loss or error in them, else max."""
    keep_best: bool = False
    """Export the weights of the best evaluation instead of the last ones."""
    early_stopping_evals: int = 0
    """Stop after so many evaluations without a better best_metric; 0: never."""
    early_stopping_min_delta: float = 0.0
    startup_timeout_s: float = 600.0
    """Longest wait for the peers and the first step."""
    stall_timeout_s: float = 300.0
    """Longest time without a finished step before the process ends with 138; 0: no watchdog."""

    # --- telemetry ------------------------------------------------------------------------------------------------
    tensorboard: bool = True
    log_every: int = 0
    """Steps between progress lines and TensorBoard points; 0: about every ten seconds."""
    prometheus_port: int = 0
    """Serve metrics on this port, on one machine plus the task's index (pods have an address each); 0: no port."""
    prometheus_textfile: str = ""
    """Also write the metrics to this file (node exporter's textfile collector)."""
    profile_steps: tuple[int, int] | None = None
    """First and last step of a TensorBoard profile on the chief."""

    def __post_init__(self) -> None:
        positive: tuple[str, ...] = ("batch_size", "accumulate", "parallel_files", "max_to_keep", "initial_loss_scale")
        positive += ("loss_scale_growth_steps", "max_skipped_steps", "startup_timeout_s", "learning_rate")
        for name in positive:
            _require(getattr(self, name) > 0, name, getattr(self, name), "a number above 0")
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                _require(math.isfinite(value) and value >= 0, field.name, value, "a finite number, 0 or above")
                largest = _LARGEST_OF.get(field.name, _LARGEST)
                _require(value <= largest, field.name, value, f"at most {largest}")
        for name in ("steps", "epochs", "eval_steps", "eval_batch_size", "clip_norm"):
            value = getattr(self, name)
            _require(value is None or value > 0, name, value, "a number above 0, or nothing")
        _require(
            self.batch_size % self.accumulate == 0,
            "accumulate",
            self.accumulate,
            f"a divisor of batch_size ({self.batch_size})",
        )
        _require(self.teacher_weight <= 1, "teacher_weight", self.teacher_weight, "0 to 1")
        _require(self.teacher_temperature > 0, "teacher_temperature", self.teacher_temperature, "a number above 0")
        for number, weight in self.class_weights:
            _require(weight >= 0, "class_weights", f"{number}: {weight}", "weights of 0 or above")
        _require(
            not self.early_stopping_evals or bool(self.eval_every),
            "early_stopping_evals",
            self.early_stopping_evals,
            "0, or eval_every as well: without it the only evaluation is at the end",
        )
        if not self.deterministic:
            _require(self.sharding == "file", "deterministic", False, "true unless sharding is 'file'")
        if self.profile_steps is not None:
            first, last = self.profile_steps
            _require(0 < first <= last, "profile_steps", self.profile_steps, "two step numbers, first <= last")
        _require(
            self.stall_timeout_s == 0 or self.stall_timeout_s >= 1, "stall_timeout_s", self.stall_timeout_s, ">= 1"
        )

    @property
    def maximise(self) -> bool:
        """Whether a higher `best_metric` is better."""
        if self.best_mode != "auto":
            return self.best_mode == "max"
        return not any(word in self.best_metric for word in ("loss", "error", "mse", "mae"))

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any] | None, where: str = "training") -> "TrainingConfig":
        """Builds the config from a parsed YAML or JSON mapping.

        Args:
          mapping: setting names to values; None means all defaults.
          where: what to call the mapping in messages, e.g. "workload.yaml: train.training".

        Raises:
          TrainingConfigError: an unknown key, or a value of the wrong type or range; names it and what is allowed.
        """
        if mapping is None:
            return cls()
        if not isinstance(mapping, Mapping):
            raise TrainingConfigError(f"{where}: expected a mapping of settings, got {mapping!r}")
        hints = typing.get_type_hints(cls)
        unknown = [key for key in mapping if key not in hints]
        if unknown:
            near = difflib.get_close_matches(str(unknown[0]), hints, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise TrainingConfigError(
                f"{where}: unknown setting {unknown[0]!r}{hint}; allowed are {', '.join(sorted(hints))}"
            )
        values = {key: _convert(value, hints[key], f"{where}: {key}") for key, value in mapping.items()}
        try:
            return cls(**values)
        except TrainingConfigError as error:
            raise TrainingConfigError(f"{where}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """All settings as JSON-ready values; `from_dict` takes them back."""
        return dataclasses.asdict(self)

    def replace(self, **changes: Any) -> "TrainingConfig":
        """A copy with some settings changed."""
        return dataclasses.replace(self, **changes)


def _require(ok: bool, name: str, value: object, expected: str) -> None:
    if not ok:
        raise TrainingConfigError(f"{name} is {value!r}; expected {expected}")


def _convert(value: Any, hint: Any, where: str) -> Any:
    """Checks `value` against a type hint of TrainingConfig; lists become tuples, ints become floats."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        return _convert(value, next(a for a in arguments if a is not type(None)), where)
    if origin is Literal:
        if value not in arguments:
            raise TrainingConfigError(f"{where} is {value!r}; expected one of {', '.join(map(str, arguments))}")
        return value
    if origin is tuple:
        if isinstance(value, Mapping):  # class_weights reads best as {0: 1.0, 1: 3.5}; JSON makes the keys strings
            value = [[_whole_number(key), weight] for key, weight in value.items()]
        if not isinstance(value, list | tuple):
            raise TrainingConfigError(f"{where} is {value!r}; expected a list")
        if arguments[-1] is Ellipsis:
            return tuple(_convert(item, arguments[0], where) for item in value)
        if len(value) != len(arguments):
            raise TrainingConfigError(f"{where} is {value!r}; expected {len(arguments)} values")
        return tuple(_convert(item, inner, where) for item, inner in zip(value, arguments, strict=True))
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        remark = " (YAML takes 1e-3 for text: write 0.001 or 1.0e-3)" if hint is float and _is_number(value) else ""
        raise TrainingConfigError(f"{where} is {value!r}; expected {_KINDS[hint]}{remark}")
    return value


def _whole_number(key: Any) -> Any:
    """The number that JSON has made text of; anything else as it is."""
    return int(key) if isinstance(key, str) and key.isascii() and key.isdigit() else key


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, str) and math.isfinite(float(value))
    except ValueError:
        return False
