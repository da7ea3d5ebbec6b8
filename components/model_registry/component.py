"""ModelRegistrar: the pipeline step that keeps every blessed model, with where it came from."""

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import artifact, component_spec, standard_artifacts

from components.model_registry import executor


class ModelRegistration(artifact.Artifact):
    """Whether the model was registered, and as what: `registration.json` holds the entry, or the reason not to."""

    TYPE_NAME = "ModelRegistration"
    PROPERTIES = {
        "registered": artifact.Property(type=artifact.PropertyType.INT),
        "model_version": artifact.Property(type=artifact.PropertyType.INT),
    }


class ModelRegistrarSpec(component_spec.ComponentSpec):
    """The registry's root and the model's name; everything else only adds to the lineage."""

    PARAMETERS = {
        "registry": component_spec.ExecutionParameter(type=str),
        "name": component_spec.ExecutionParameter(type=str),
        "promote_to": component_spec.ExecutionParameter(type=str),
        "code_fingerprint": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {
        "model": component_spec.ChannelParameter(type=standard_artifacts.Model),
        "model_blessing": component_spec.ChannelParameter(type=standard_artifacts.ModelBlessing, optional=True),
        "pushed_model": component_spec.ChannelParameter(type=standard_artifacts.PushedModel, optional=True),
        "evaluation": component_spec.ChannelParameter(type=standard_artifacts.ModelEvaluation, optional=True),
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples, optional=True),
        "schema": component_spec.ChannelParameter(type=standard_artifacts.Schema, optional=True),
        "statistics": component_spec.ChannelParameter(type=standard_artifacts.ExampleStatistics, optional=True),
    }
    OUTPUTS = {"registration": component_spec.ChannelParameter(type=ModelRegistration)}


class ModelRegistrar(base_component.BaseComponent):
    """Registers a blessed model, and points an alias at it once it is served."""

    SPEC_CLASS = ModelRegistrarSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(executor.Executor)

    def __init__(
        self,
        model: types.BaseChannel,
        registry: str,
        name: str,
        *,
        model_blessing: types.BaseChannel | None = None,
        pushed_model: types.BaseChannel | None = None,
        evaluation: types.BaseChannel | None = None,
        examples: types.BaseChannel | None = None,
        schema: types.BaseChannel | None = None,
        statistics: types.BaseChannel | None = None,
        promote_to: str = "stable",
        code_fingerprint: str = "",
    ) -> None:
        """Wires the component.

        Args:
          model: the trained Model.
          registry: root folder or fsspec URL of the registry.
          name: the model's name in the registry.
          model_blessing: the Evaluator's verdict; a model that is not blessed is not registered.
          pushed_model: the Pusher's output; where given, the alias moves only if the model was pushed.
          evaluation: the Evaluator's metrics, of which those over all rows go into the entry.
          examples: what the model was trained on, for span and fingerprint.
          schema: the schema it was trained with, for its fingerprint.
          statistics: of the data it was trained on; kept with the model, for DataGate to compare later data with.
          promote_to: the alias to point at the model, "" for none.
          code_fingerprint: of the training code.
        """
        super().__init__(
            spec=ModelRegistrarSpec(
                model=model,
                registry=registry,
                name=name,
                promote_to=promote_to,
                code_fingerprint=code_fingerprint,
                model_blessing=model_blessing,
                pushed_model=pushed_model,
                evaluation=evaluation,
                examples=examples,
                schema=schema,
                statistics=statistics,
                registration=types.Channel(type=ModelRegistration),
            )
        )
