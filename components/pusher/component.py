"""The Pusher component: TFX's Pusher, with a PushTarget in place of a destination folder."""

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import component_spec, standard_artifacts

from components.pusher import executor
from components.pusher.config import PushTarget
from components.pusher.errors import PushConfigError


class PusherSpec(component_spec.ComponentSpec):
    """Inputs and output as in TFX's Pusher; the target travels as one JSON string."""

    PARAMETERS = {"target": component_spec.ExecutionParameter(type=str)}
    INPUTS = {
        "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
        "model_blessing": component_spec.ChannelParameter(type=standard_artifacts.ModelBlessing, optional=True),
        "infra_blessing": component_spec.ChannelParameter(type=standard_artifacts.InfraBlessing, optional=True),
    }
    OUTPUTS = {"pushed_model": component_spec.ChannelParameter(type=standard_artifacts.PushedModel)}


class Pusher(base_component.BaseComponent):
    """Deploys a blessed model and returns once it serves.

    `outputs["pushed_model"]` carries TFX's own custom properties `pushed` (0 or 1), `pushed_destination` and
    `pushed_version`, and ours: `pushed_digest`, `observed` (1 when servers confirmed it) and `outcome`. Its folder
    holds `push.json`; the model itself is where it was pushed, and in the registry.
    """

    SPEC_CLASS = PusherSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(
        self,
        model: types.BaseChannel,
        target: PushTarget,
        model_blessing: types.BaseChannel | None = None,
        infra_blessing: types.BaseChannel | None = None,
    ) -> None:
        """Wires the component.

        Args:
          model: channel of the trained Model.
          target: where to push to.
          model_blessing: the Evaluator's verdict; a model that is not blessed is not pushed.
          infra_blessing: the InfraValidator's verdict, likewise.

        Raises:
          PushConfigError: `target` is not a PushTarget.
        """
        if not isinstance(target, PushTarget):
            raise PushConfigError(f"Pusher: `target` must be a PushTarget, got {type(target).__name__}")
        super().__init__(
            spec=PusherSpec(
                model=model,
                target=target.to_json(),
                model_blessing=model_blessing,
                infra_blessing=infra_blessing,
                pushed_model=types.Channel(type=standard_artifacts.PushedModel),
            )
        )
