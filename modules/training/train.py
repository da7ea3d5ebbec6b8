"""`train`: a whole training in one call from a TFX `run_fn`."""

import contextlib
import dataclasses
import functools
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras

from modules.training import export as exporting
from modules.training import golden, parameter_server
from modules.training.checkpoint import check_writable
from modules.training.cluster import ClusterSpec, read_cluster
from modules.training.config import TrainingConfig
from modules.training.distillation import Teacher
from modules.training.errors import NonFiniteError, TrainingConfigError
from modules.training.evaluate import Evaluator
from modules.training.failures import translated
from modules.training.input import (
    FeaturesFn,
    ParseFn,
    RecordInput,
    ReplicaPlacement,
    choose_sharding,
    example_parser,
    placement,
)
from modules.training.metrics import PrometheusMetrics
from modules.training.optimizer import OptimizerFactory
from modules.training.precision import check_float32_outputs, policy, set_policy
from modules.training.preemption import on_terminate
from modules.training.recompute import recompute
from modules.training.records import RecordFiles, find_files
from modules.training.serving import OutputsFn, ServingModule
from modules.training.session import Session, build_session, weights_of
from modules.training.step import LossFn, per_example_loss
from modules.training.strategy import build_strategy, largest_of_all_workers
from modules.training.telemetry import Reporter, say
from modules.training.tensorboard import Profile, TensorBoardWriter
from modules.training.transform import ModelData, read_model_data
from modules.training.warm_start import warm_start
from modules.training.watchdog import Watchdog

ModelBuilder = Callable[..., tf_keras.Model]
Metrics = Mapping[str, Callable[..., tf_keras.metrics.Metric]]


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """What came out of a training; `model` is a float32 copy outside the strategy, on the chief only."""

    steps: int
    resumed_at: int
    stopped_early: bool
    metrics: dict[str, float]
    """Of the evaluation that belongs to the exported weights: "loss" and the metrics by name."""
    examples_per_s: float
    skipped_steps: int
    num_replicas: int
    serving_model_dir: str | None
    model: tf_keras.Model | None


def train(
    fn_args: Any,
    build_model: ModelBuilder,
    *,
    label_key: str,
    loss: Any,
    metrics: Metrics | None = None,
    config: TrainingConfig | None = None,
    weight_key: str | None = None,
    optimizer: OptimizerFactory | None = None,
    outputs_fn: OutputsFn | None = None,
    raw_examples: Sequence[str] | None = None,
    features_fn: FeaturesFn | None = None,
    sample_values: Callable[[], Mapping[str, Sequence[bytes]]] | None = None,
) -> TrainingResult:
    """Trains, evaluates and exports a tf_keras model; the same call on one machine and in every task of a cluster.

    Args:
      fn_args: TFX's FnArgs, or anything with its attributes. Read are train_files, eval_files, train_steps,
        eval_steps, transform_graph_path, schema_path, serving_model_dir, model_run_dir, base_model and
        custom_config["training"] (settings by name, see TrainingConfig).
      build_model: returns an uncompiled model from a dict of features to a float32 tensor or a dict of them; called
        with the TFTransformOutput if it takes an argument. It must build the same model every time.
      label_key: the label among the (transformed) features.
      loss: a Keras loss (its reduction is ignored) or a callable (labels, outputs) -> float32 [n].
      metrics: by name, what makes the metric, e.g. {"auc": tf_keras.metrics.AUC}.
      config: overrides custom_config["training"].
      weight_key: a feature that weighs the examples.
      optimizer: overrides config.optimizer: called with the learning-rate schedule.
      outputs_fn: from the model's outputs to the served ones, a dict of tensors.
      raw_examples: files of raw tf.Examples to take golden predictions of; None makes examples up from the schema.
      features_fn: what is done to the features before the model, such as decoding and augmenting pictures: by tf.data
        in training, within the graph when serving; see FeaturesFn.
      sample_values: gives values that a raw text feature can have where neither schema nor vocabulary says so, for
        examples that are made up: some encoded pictures, say. Called on the chief when the model is exported.

    Raises:
      TrainingError: and its kinds, each with the `exit_code` that the process should end with.
    """
    config = config or TrainingConfig.from_dict((fn_args.custom_config or {}).get("training"), "custom_config.training")
    cluster = read_cluster()
    watchdog = Watchdog(cluster)
    with watchdog.watching() if config.stall_timeout_s else contextlib.nullcontext():
        watchdog.enter("startup", config.startup_timeout_s)
        request = _Request(
            label_key,
            weight_key,
            loss,
            metrics or {},
            optimizer,
            outputs_fn,
            raw_examples,
            features_fn,
            sample_values,
        )
        job = _Training(fn_args, build_model, request, config, cluster, watchdog)
        with policy(config.precision):
            return job.run_asynchronous() if cluster.has_parameter_servers else job.run()


@dataclasses.dataclass(frozen=True)
class _Request:
    """What the caller of `train` wants, as documented there."""

    label_key: str
    weight_key: str | None
    loss: Any
    metrics: Metrics
    optimizer: OptimizerFactory | None
    outputs_fn: OutputsFn | None
    raw_examples: Sequence[str] | None
    features_fn: FeaturesFn | None
    sample_values: Callable[[], Mapping[str, Sequence[bytes]]] | None

    def made_metrics(self) -> list[tf_keras.metrics.Metric]:
        return [make(name=name) for name, make in self.metrics.items()]


class _Training:
    """The parts of `train` in order; split so that each reads on its own."""

    def __init__(
        self,
        fn_args: Any,
        build_model: ModelBuilder,
        request: _Request,
        config: TrainingConfig,
        cluster: ClusterSpec,
        watchdog: Watchdog,
    ):
        self.fn_args, self.request = fn_args, request
        self.config, self.cluster, self.watchdog = config, cluster, watchdog
        self.data: ModelData = read_model_data(fn_args)
        takes_argument = bool(inspect.signature(build_model).parameters)
        self.build_model = (lambda: build_model(self.data.transform_output)) if takes_argument else build_model

    def run(self) -> TrainingResult:
        """Synchronous training: one device, several, or several workers."""
        fn_args, config, request = self.fn_args, self.config, self.request
        parse, train_files, eval_files = self._inputs()
        choose_sharding(config, len(train_files.paths), self.cluster.num_workers)  # before peers are waited for
        self.watchdog.enter("meeting the other workers", 0)  # this has a clock of its own, and names who is missing
        with translated(self.cluster):
            strategy = build_strategy(config, self.cluster)
        self.watchdog.enter("startup", config.startup_timeout_s)
        tf_keras.utils.set_random_seed(config.seed)
        replicas = placement(strategy, self.cluster.worker_rank)
        largest = functools.partial(largest_of_all_workers, strategy)
        train_parse, train_loss = self._distilled(parse)
        train_data = RecordInput(
            train_files, train_parse, config, replicas, training=True, largest=largest, features_fn=request.features_fn
        )
        if config.check_input:
            train_data.count()
        eval_data = eval_files and RecordInput(
            eval_files, parse, config, replicas, training=False, features_fn=request.features_fn
        )
        reporters, profile = self._telemetry()
        with contextlib.ExitStack() as stack, translated(self.cluster, train_files):
            stack.callback(profile.close)
            for reporter in reporters:
                stack.callback(reporter.close)
            session = build_session(
                config=config,
                cluster=self.cluster,
                strategy=strategy,
                build_model=self._checked_model,
                loss=train_loss,
                eval_loss=per_example_loss(request.loss),
                metrics=request.made_metrics,
                optimizer=request.optimizer,
                train_data=train_data,
                eval_data=eval_data or None,
                eval_steps=config.eval_steps or fn_args.eval_steps or None,
                total_steps=self._total_steps(train_data),
                folder=fn_args.model_run_dir,
                watchdog=self.watchdog,
                reporters=reporters,
                profile=profile,
            )
            if self.fn_args.base_model and config.warm_start:
                warm_start(session.model, self.fn_args.base_model)
            session.resume()
            started, first = time.monotonic(), session.global_step
            self._train(session)
            elapsed_s = time.monotonic() - started
            weights = weights_of(session.model)
        done = session.global_step
        model = self._serving_model(weights) if self.cluster.is_chief else None
        return TrainingResult(
            steps=done,
            resumed_at=session.resumed_at,
            stopped_early=session.stopped_early,
            metrics=session.metrics,
            examples_per_s=(done - first) * train_data.global_batch / max(elapsed_s, 1e-9),
            skipped_steps=int(session.step.loss_scale.skipped.numpy()),
            num_replicas=strategy.num_replicas_in_sync,
            serving_model_dir=self._export(model, done, session.metrics),
            model=model,
        )

    def run_asynchronous(self) -> TrainingResult:
        """Training with parameter servers; workers and servers never return from here."""
        if self.cluster.role in ("worker", "ps"):
            self.watchdog.enter("serving", 0)
            parameter_server.serve(self.cluster)
        fn_args, config, request = self.fn_args, self.config, self.request
        parse, train_files, eval_files = self._inputs()
        alone = ReplicaPlacement()
        total_steps = self._total_steps(RecordInput(train_files, parse, config, alone, training=True))
        loss = per_example_loss(request.loss)

        def evaluator(model: tf_keras.Model) -> Evaluator:
            files = eval_files or train_files
            data = RecordInput(files, parse, config, alone, training=False, features_fn=request.features_fn)
            return Evaluator(model, loss, request.made_metrics(), data, config.eval_steps or fn_args.eval_steps or None)

        self.watchdog.enter("asynchronous training", 0)  # TensorFlow's coordinator watches its workers itself
        tf_keras.utils.set_random_seed(config.seed)
        with contextlib.ExitStack() as stack, translated(self.cluster, train_files):
            if self.cluster.role == "evaluator":  # it alone reports: only evaluations are common to all workers
                model, latest = self._checked_model(), {}
                reporters, _ = self._telemetry()
                for reporter in reporters:
                    stack.callback(reporter.close)

                def report(step: int, metrics: dict[str, float]) -> None:
                    latest.update(metrics)
                    for reporter in reporters:
                        reporter.evaluation(step, metrics)

                parameter_server.follow(fn_args.model_run_dir, model, evaluator(model), total_steps, report)
                return TrainingResult(total_steps, 0, False, latest, 0.0, 0, 0, None, None)
            chief = parameter_server.Chief(
                config, self.cluster, self._checked_model, loss, request.optimizer, total_steps, fn_args.model_run_dir
            )
            trained = chief.train(train_files, parse, request.features_fn)
        model = self._serving_model(trained.weights)
        metrics = evaluator(model)()
        exported = self._export(model, trained.steps, metrics)
        num_workers = len(self.cluster.tasks["worker"])
        return TrainingResult(
            trained.steps, trained.resumed_at, False, metrics, trained.examples_per_s, 0, num_workers, exported, model
        )

    def _inputs(self) -> tuple[ParseFn, RecordFiles, RecordFiles | None]:
        """How to parse, and the training and evaluation files."""
        fn_args, request = self.fn_args, self.request
        parse = example_parser(self.data.model_spec, request.label_key, request.weight_key)
        eval_files = find_files(fn_args.eval_files, "evaluation") if fn_args.eval_files else None
        if self.cluster.is_chief:
            serving = fn_args.serving_model_dir and fn_args.serving_model_dir.rstrip("/").rpartition("/")[0]
            folders = [folder for folder in (fn_args.model_run_dir, serving) if folder]
            if fn_args.model_run_dir and tf.io.gfile.exists(f"{fn_args.model_run_dir}/checkpoints"):
                folders.append(f"{fn_args.model_run_dir}/checkpoints")
            for folder in folders:
                check_writable(folder)
        return parse, find_files(fn_args.train_files, "training"), eval_files

    def _distilled(self, parse: ParseFn) -> tuple[ParseFn, LossFn]:
        """Parse and loss function of the training, with the teacher in them if there is one."""
        config, loss = self.config, self.request.loss
        if not config.teacher:
            return parse, per_example_loss(loss)
        made = tf_keras.losses.get(loss) if isinstance(loss, str) else loss
        from_logits = isinstance(made, tf_keras.losses.Loss) and bool(made.get_config().get("from_logits", False))
        teacher = Teacher(config.teacher, config.teacher_weight, config.teacher_temperature, from_logits=from_logits)
        return teacher.parse(parse), teacher.loss(per_example_loss(loss))

    def _telemetry(self) -> tuple[list[Reporter], Profile]:
        """TensorBoard and profile on the chief; Prometheus on every worker that has a port, the file on the chief."""
        config, cluster, folder = self.config, self.cluster, self.fn_args.model_run_dir
        reporters: list[Reporter] = []
        writes_events = bool((cluster.is_chief or cluster.role == "evaluator") and config.tensorboard and folder)
        if writes_events:
            reporters.append(TensorBoardWriter(folder))
        textfile = config.prometheus_textfile if cluster.is_chief else ""
        port = config.prometheus_port + cluster.rank_on_host if config.prometheus_port else 0
        if port or textfile:
            reporters.append(PrometheusMetrics(f"{cluster.role}-{cluster.index}", port, textfile))
        return reporters, Profile(f"{folder}/train", config.profile_steps, active=writes_events)

    def _checked_model(self) -> tf_keras.Model:
        tf_keras.backend.reset_uids()  # "dense", not "dense_3": a warm start looks for variables by name
        model = self.build_model()
        if not isinstance(model, tf_keras.Model):
            raise TrainingConfigError(
                f"build_model returned {type(model).__module__}.{type(model).__name__}; expected a tf_keras.Model "
                "(Keras 3 models do not train under MultiWorkerMirroredStrategy)"
            )
        check_float32_outputs(model)
        recompute(model, self.config.recompute_layers)
        return model

    def _total_steps(self, data: RecordInput) -> int:
        steps = self.config.steps or self.fn_args.train_steps
        if steps and steps < 0:
            raise TrainingConfigError(f"train_steps is {steps}; expected a number above 0")
        if steps:
            return int(steps)
        if self.config.epochs:
            return self.config.epochs * data.num_batches()
        raise TrainingConfigError("nothing says how long to train: give train_steps, or steps or epochs in the config")

    def _train(self, session: Session) -> None:
        with on_terminate(session.request_stop):
            try:
                session.run()
            except NonFiniteError as error:
                raise session.explain(error) from None
        session.restore_best()

    def _serving_model(self, weights: list) -> tf_keras.Model:
        """A float32 copy of the trained model; from here on everything is built in float32.

        The transform layer too: under a mixed policy it would cast raw features to 16 bits.
        """
        self.watchdog.enter("export", 0)
        set_policy("float32")
        return exporting.unreplicated(self.build_model, weights)

    def _export(self, model: tf_keras.Model | None, step: int, metrics: dict[str, float]) -> str | None:
        """Exports what the chief has; returns the folder."""
        if model is None or not self.fn_args.serving_model_dir:
            return None
        module = ServingModule(
            model,
            raw_spec=self.data.raw_spec,
            label_keys=[key for key in (self.request.label_key, self.request.weight_key) if key],
            transform_output=self.data.transform_output,
            outputs_fn=self.request.outputs_fn,
            features_fn=self.request.features_fn,
        )
        if self.request.raw_examples:
            files = find_files(self.request.raw_examples, "raw example")
            records = tf.data.TFRecordDataset(list(files.paths), files.compression).take(golden.MAX_EXAMPLES)
            examples = [record.numpy() for record in records]
        else:
            words = {**self.data.words(), **(self.request.sample_values() if self.request.sample_values else {})}
            examples = golden.synthetic_examples(self.data.raw_spec, words, golden.MAX_EXAMPLES)
        extra = {"steps": step, "metrics": metrics, "config": self.config.to_dict()}
        exporting.export(module, self.fn_args.serving_model_dir, examples, extra)
        say("exported the model, loaded it again and asked it")
        return self.fn_args.serving_model_dir
