"""TFX's own intermediate representation of a pipeline, as the Kubeflow v2 runner makes it in memory."""

import contextlib
from collections.abc import Iterator
from typing import Any

from tfx.dsl.components.base import base_node
from tfx.dsl.components.common import resolver
from tfx.orchestration import pipeline as tfx_pipeline
from tfx.orchestration.kubeflow.v2 import compiler_utils, kubeflow_v2_dag_runner

from kubeflow.errors import CompileError

_PLACEHOLDER_IMAGE = "sluice.invalid/image:replaced-by-the-compiler"


class _WithoutResolvers:
    """The pipeline as TFX's builder is to see it.

    The builder knows two resolver strategies and turns them into executors that only Google's service has. Left out,
    the steps that read from a resolver still name it as their producer, which is all that the rewriting needs.
    """

    def __init__(self, pipeline: tfx_pipeline.Pipeline) -> None:
        self._pipeline = pipeline

    @property
    def components(self) -> list[base_node.BaseNode]:
        return [node for node in self._pipeline.components if not isinstance(node, resolver.Resolver)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pipeline, name)


@contextlib.contextmanager
def _any_artifact_type() -> Iterator[None]:
    """Lets TFX's builder pass artifact types of which it has no description.

    It refuses types that are not its own unless their name has a dot, and all their properties. The description that it
    makes goes nowhere: the rewriting puts the title that Kubeflow shows in its place, and the class into the plan.
    """
    kept = (compiler_utils.get_artifact_schema, compiler_utils._validate_properties_schema)
    compiler_utils.get_artifact_schema = lambda artifact_type: f"title: {artifact_type.TYPE_NAME}"
    compiler_utils._validate_properties_schema = lambda instance_schema, properties=None: None
    try:
        yield
    finally:
        compiler_utils.get_artifact_schema, compiler_utils._validate_properties_schema = kept


def from_tfx(pipeline: tfx_pipeline.Pipeline) -> dict[str, Any]:
    """The PipelineSpec (schema 2.1.0) of `pipeline` without its resolvers, in JSON form; nothing is written.

    Raises:
      CompileError: for what TFX itself refuses to express.
    """
    config = kubeflow_v2_dag_runner.KubeflowV2DagRunnerConfig(
        default_image=_PLACEHOLDER_IMAGE, default_commands=["python"], use_pipeline_spec_2_1=True
    )
    runner = kubeflow_v2_dag_runner.KubeflowV2DagRunner(config)
    try:
        with _any_artifact_type():
            job = runner.run(_WithoutResolvers(pipeline), write_out=False)  # type: ignore[arg-type]
    except (NotImplementedError, ValueError, TypeError, AssertionError) as error:
        raise CompileError(f"TFX cannot express this pipeline for Kubeflow: {error}") from error
    return job["pipelineSpec"]
