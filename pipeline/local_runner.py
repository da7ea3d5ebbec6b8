"""Runs a pipeline on this machine: TFX's LocalDagRunner with a right cache, partial runs and a record of every step."""

import os
import time
from collections.abc import Callable

from ml_metadata.proto import metadata_store_pb2
from tfx.dsl.compiler import constants
from tfx.orchestration import metadata
from tfx.orchestration.local import local_dag_runner, runner_utils
from tfx.orchestration.portable import launcher, partial_run_utils, runtime_parameter_utils
from tfx.proto.orchestration import pipeline_pb2

from pipeline import fingerprint
from pipeline.errors import ConfigError, StepFailedError
from pipeline.run_record import RunRecord

RESOLVER_TYPE = "tfx.dsl.components.common.resolver.Resolver"


class RecordingDagRunner(local_dag_runner.LocalDagRunner):
    """LocalDagRunner that notes what became of each step in a RunRecord, and calls `on_step` before and after it."""

    def __init__(
        self,
        record: RunRecord,
        on_step: Callable[[str, str], None] = lambda name, state: None,
        from_step: str | None = None,
        to_step: str | None = None,
        base_run: RunRecord | None = None,
    ):
        super().__init__()
        self._record = record
        self._base_run = base_run
        self._on_step = on_step
        self._from_step, self._to_step = from_step, to_step

    def run_with_ir(self, pipeline: pipeline_pb2.Pipeline, run_options: pipeline_pb2.RunOptions | None = None) -> None:
        """See LocalDagRunner; `run_options` is not used, the constructor takes the steps by name."""
        runtime_parameter_utils.substitute_runtime_parameter(
            pipeline, {constants.PIPELINE_RUN_ID_PARAMETER_NAME: self._record.run_id}
        )
        deployment = runner_utils.extract_local_deployment_config(pipeline)
        connection = getattr(
            deployment.metadata_connection_config,
            deployment.metadata_connection_config.WhichOneof("connection_config"),
        )
        self._mark_partial_run(pipeline)
        for node in pipeline.nodes:
            self._run_node(pipeline, node.pipeline_node, deployment, connection)

    def _mark_partial_run(self, pipeline: pipeline_pb2.Pipeline) -> None:
        if not (self._from_step or self._to_step):
            return
        settings = pipeline_pb2.SnapshotSettings()
        if self._base_run:
            settings.base_pipeline_run_strategy.base_run_id = self._base_run.run_id
        partial_run_utils.mark_pipeline(
            pipeline,
            from_nodes=[self._from_step] if self._from_step else None,
            to_nodes=[self._to_step] if self._to_step else None,
            snapshot_settings=settings,
        )
        for node in pipeline.nodes:
            # Asking for a step by name means running it; what follows then has new inputs and misses the cache.
            if node.pipeline_node.node_info.id == self._from_step:
                node.pipeline_node.execution_options.caching_options.enable_cache = False

    def _run_node(self, pipeline, node, deployment, connection) -> None:
        name = node.node_info.id
        is_step = node.node_info.type.name != RESOLVER_TYPE
        if node.execution_options.HasField("skip"):
            reused = node.execution_options.skip.reuse_artifacts_mode != pipeline_pb2.NodeExecutionOptions.Skip.NEVER
            if is_step and reused and self._base_run:
                self._finish(name, "reused", 0.0, is_step, self._base_run.step(name).outputs)
            else:
                self._finish(name, "not run", 0.0, is_step)
            return
        executor_spec = _with_fingerprint(runner_utils.extract_executor_spec(deployment, name), node)
        node_launcher = launcher.Launcher(
            pipeline_node=node,
            mlmd_connection=metadata.Metadata(connection),
            pipeline_info=pipeline.pipeline_info,
            pipeline_runtime_spec=pipeline.runtime_spec,
            executor_spec=executor_spec,
            custom_driver_spec=runner_utils.extract_custom_driver_spec(deployment, name),
        )
        # Without an earlier run there is nothing to reuse, whatever TFX's marks say.
        if self._base_run and node.execution_options.run.perform_snapshot:
            with metadata.Metadata(connection) as handle:
                partial_run_utils.snapshot(handle, pipeline)
        if is_step:
            self._record.step(name).state = "running"
            self._record.save()
            self._on_step(name, "running")
        start = time.monotonic()
        try:
            info = node_launcher.launch()
            state, outputs = _outcome(connection, info)
            if state == "failed":
                raise StepFailedError(f"{name}: its inputs could not be resolved. Run with --debug to see why.")
        except BaseException:
            self._finish(name, "failed", time.monotonic() - start, is_step)
            raise
        self._finish(name, state, time.monotonic() - start, is_step, outputs)

    def _finish(self, name: str, state: str, seconds: float, is_step: bool, outputs: dict | None = None) -> None:
        if not is_step:
            return
        step = self._record.step(name)
        step.state, step.seconds, step.outputs = state, round(seconds, 2), outputs or {}
        self._record.save()
        self._on_step(name, state)


def step_names(pipeline) -> list[str]:
    """Ids of the pipeline's components in the order in which they run, without resolvers."""
    return [node.id for node in pipeline.components if node.type != RESOLVER_TYPE]


def check_step(name: str | None, option: str, names: list[str]) -> None:
    """Refuses a step that the pipeline does not have.

    Raises:
      ConfigError: naming the steps that there are.
    """
    if name is not None and name not in names:
        raise ConfigError(f"{option} {name}: no such step. Steps: {', '.join(names)}")


def check_range(from_step: str | None, to_step: str | None, names: list[str]) -> None:
    """Refuses steps that the pipeline does not have, and a range without any step: it would end well and do nothing.

    Raises:
      ConfigError: naming the steps that there are, in their order.
    """
    check_step(from_step, "--from", names)
    check_step(to_step, "--to", names)
    if from_step and to_step and names.index(from_step) > names.index(to_step):
        raise ConfigError(f"--from {from_step} comes after --to {to_step}: no step to run. Steps: {', '.join(names)}")


def _with_fingerprint(executor_spec, node):
    """Adds to the executor's spec, which is part of TFX's cache key, what the code and files behind the step contain.

    The executor's class, dotted paths among the step's parameters (`run_fn`, `preprocessing_fn`) and files named there
    (a curated schema) all count; TFX itself would only see their names.
    """
    if executor_spec is None:
        return None
    python_spec = getattr(executor_spec, "python_executor_spec", executor_spec)
    texts = [
        parameter.field_value.string_value
        for parameter in node.parameters.parameters.values()
        if parameter.field_value.string_value
    ]
    dotted = [text for text in texts if text.replace(".", "").replace("_", "").isalnum() and "." in text]
    files = [text for text in texts if len(text) < 4096 and os.path.isfile(text)]
    python_spec.extra_flags.append(f"code={fingerprint.code_fingerprint(python_spec.class_path, *dotted)}")
    python_spec.extra_flags.extend(f"file={fingerprint.file_fingerprint(path)}" for path in files)
    return executor_spec


def _outcome(connection, info) -> tuple[str, dict[str, str]]:
    """Whether the launched node ran or was cached, and its outputs' URIs by key."""
    if info is None or info.execution_id is None:
        return "ran", {}
    states = metadata_store_pb2.Execution
    with metadata.Metadata(connection) as handle:
        (execution,) = handle.store.get_executions_by_id([info.execution_id])
        events = handle.store.get_events_by_execution_ids([info.execution_id])
        produced = {e.artifact_id: e.path.steps[0].key for e in events if e.type == metadata_store_pb2.Event.OUTPUT}
        outputs = {produced[a.id]: a.uri for a in handle.store.get_artifacts_by_id(list(produced))}
    state = {states.CACHED: "cached", states.FAILED: "failed"}.get(execution.last_known_state, "ran")
    return state, outputs
