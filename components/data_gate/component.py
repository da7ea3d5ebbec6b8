"""The DataGate step's contract."""

from tfx import types
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.types import component_spec, standard_artifacts

from components.artifacts import DataVerdict
from components.data_gate.config import GatePolicy
from components.data_gate.executor import Executor


class DataGateSpec(component_spec.ComponentSpec):
    """Inputs, outputs and properties of DataGate."""

    PARAMETERS = {
        "policy": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {
        "statistics": component_spec.ChannelParameter(type=standard_artifacts.ExampleStatistics),
        "schema": component_spec.ChannelParameter(type=standard_artifacts.Schema),
        "anomalies": component_spec.ChannelParameter(type=standard_artifacts.ExampleAnomalies, optional=True),
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples, optional=True),
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
        """
        channels = {
            "statistics": statistics,
            "schema": schema,
            "anomalies": anomalies,
            "examples": examples,
            "baseline_statistics": baseline_statistics,
            "serving_statistics": serving_statistics,
        }
        spec = DataGateSpec(
            policy=(policy or GatePolicy()).to_json(),
            verdict=types.Channel(type=DataVerdict),
            **{name: channel for name, channel in channels.items() if channel is not None},
        )
        super().__init__(spec=spec)
