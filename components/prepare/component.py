"""The Prepare step's contract."""

from typing import Any

from tfx import types
from tfx.dsl.components.base import base_component, executor_spec
from tfx.types import component_spec, standard_artifacts
from tfx.utils import json_utils

from components.prepare.errors import PrepareConfigError
from components.prepare.executor import Executor


class PrepareSpec(component_spec.ComponentSpec):
    """Inputs, outputs and properties of Prepare."""

    PARAMETERS = {
        "prepare_fn": component_spec.ExecutionParameter(type=str),
        "settings": component_spec.ExecutionParameter(type=str),
    }
    INPUTS = {
        "examples": component_spec.ChannelParameter(type=standard_artifacts.Examples),
        "schema": component_spec.ChannelParameter(type=standard_artifacts.Schema, optional=True),
    }
    OUTPUTS = {
        "prepared_examples": component_spec.ChannelParameter(type=standard_artifacts.Examples),
    }


class Prepare(base_component.BaseComponent):
    """Makes the records that are trained on where they are not the rows that were ingested.

    Transform makes one record of each row, in Beam. This step is for the rest: one record of many rows (text packed
    into sequences of equal length), many of one, or something that must first be learned from all of them, such as a
    tokenizer. `prepare_fn` is called with a PrepareArgs; what it leaves in `assets_dir` is a part of the artifact.
    """

    SPEC_CLASS = PrepareSpec
    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(Executor)

    def __init__(
        self,
        prepare_fn: str,
        examples: types.BaseChannel,
        schema: types.BaseChannel | None = None,
        settings: dict[str, Any] | None = None,
    ):
        """Declares the step.

        Args:
          prepare_fn: dotted path of the function, such as "modules.textgen.prepare.prepare_fn".
          examples: Examples of any splits.
          schema: Schema of them.
          settings: passed on to the function; JSON values.

        Raises:
          PrepareConfigError: prepare_fn is not a dotted path.
        """
        if not all(part.isidentifier() for part in prepare_fn.split(".")) or "." not in prepare_fn:
            raise PrepareConfigError(
                f'Prepare: prepare_fn is "{prepare_fn}"; expected a dotted path, such as my_package.data.prepare_fn'
            )
        channels = {"schema": schema} if schema is not None else {}
        spec = PrepareSpec(
            prepare_fn=prepare_fn,
            settings=json_utils.dumps(settings or {}),
            examples=examples,
            prepared_examples=types.Channel(type=standard_artifacts.Examples),
            **channels,
        )
        super().__init__(spec=spec)
