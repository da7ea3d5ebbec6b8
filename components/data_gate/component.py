"""The DataGate step's contract."""

from tfx import types
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import component_spec, standard_artifacts

from components.artifacts import DataVerdict, IngestionReport
from components.data_gate.config import GatePolicy
from components.data_gate.executor import Executor


class DataGateSpec(component_spec.ComponentSpec):
    """Inputs, outputs and properties of DataGate."""

    PARAMETERS = {
        "policy": component_spec.ExecutionParameter(type=str),
        "registry": component_spec.ExecutionParameter(type=str),
        "model_name": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {
        "statistics": component_spec.ChannelParameter(type=standard_artifacts.ExampleStatistics),
        "schema": component_spec.ChannelParameter(type=standard_artifacts.Schema),
        "anomalies": component_spec.ChannelParameter(type=standard_artifacts.ExampleAnomalies, optional=True),
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples, optional=True),
        "ingestion_report": component_spec.ChannelParameter(type=IngestionReport, optional=True),
        "baseline_statistics": component_spec.ChannelParameter(
            type=standard_artifacts.ExampleStatistics, optional=True, allow_empty=True
        ),
        "serving_statistics": component_spec.ChannelParameter(
            type=standard_artifacts.ExampleStatistics, optional=True, allow_empty=True
        ),
    }
    OUTPUTS = {
        "verdict": component_spec.ChannelParameter(type=DataVerdict),
    }


class DataGate(base_beam_component.BaseBeamComponent):
    """Decides whether the data may be trained on; the run stops here if not.

    Everything that reads or learns from the data should come after it, by using `verdict` or by
    `add_upstream_node(gate)`.
    """

    SPEC_CLASS = DataGateSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)

    def __init__(
        self,
        statistics: types.BaseChannel,
        schema: types.BaseChannel,
        anomalies: types.BaseChannel | None = None,
        examples: types.BaseChannel | None = None,
        policy: GatePolicy | None = None,
        baseline_statistics: types.BaseChannel | None = None,
        serving_statistics: types.BaseChannel | None = None,
        ingestion_report: types.BaseChannel | None = None,
        registry: str = "",
        model_name: str = "",
    ):
        """Makes the step.

        Args:
          statistics: of every split; made with the schema if integers stand for categories.
          schema: the curated schema.
          anomalies: of ExampleValidator; its custom validations are taken over, the rest the gate finds itself.
          examples: lets the gate show offending rows and compare rows between splits.
          policy: what is let through; the defaults need only a schema.
          baseline_statistics: of the data that the latest blessed model was trained on; may resolve to nothing, then
            drift is reported as not checked.
          serving_statistics: of logged requests; without them skew is reported as not checked.
          ingestion_report: ExampleGen's; with it sample rows name file and line of the CSV they came from.
          registry: folder or URL of the model registry, for the baseline where `baseline_statistics` gives none: the
            statistics that ModelRegistrar keeps with a blessed model. This is the way on Kubeflow, which has no ML
            Metadata for steps to ask.
          model_name: the model's name there.
        """
        channels = {
            "statistics": statistics,
            "schema": schema,
            "anomalies": anomalies,
            "examples": examples,
            "baseline_statistics": baseline_statistics,
            "serving_statistics": serving_statistics,
            "ingestion_report": ingestion_report,
        }
        spec = DataGateSpec(
            policy=(policy or GatePolicy()).to_json(),
            registry=registry,
            model_name=model_name,
            verdict=types.Channel(type=DataVerdict),
            **{name: channel for name, channel in channels.items() if channel is not None},
        )
        super().__init__(spec=spec)
