"""The plan of one step: what the compiler knows and the step's container must be told. Standard library only."""

import dataclasses
import json
from typing import Any

PAGE_PORT = "html_page"
"""Name of the system.HTML output that the compiler adds to steps with something to show."""

RESOLVED_EXEC_PROPERTIES = "resolved_exec_properties"
"""Output of a data probe: the exec properties that the component's driver sets, as one JSON object."""

REJECTION_PARAMETER = "rejection"
"""Output of a step that judges data: why the run must not go on; empty where it may."""

SUMMARY_PARAMETER = "summary"
"""Output of a step with something to say about the run: lines of Markdown."""

REGISTRY_PARAMETER = "model_registry"
"""The pipeline's parameter that says where the model registry is."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConditionOutput:
    """An output parameter that carries an artifact's property to the condition of another step."""

    output: str
    """Name of the output artifact."""
    key: str
    """Its property or custom property."""
    numeric: bool
    """Whether the condition compares it with a number; text otherwise."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepPlan:
    """What a step needs beside KFP's executor input. KFP sends inputs without a type, so the classes are here."""

    step: str
    """Id of the TFX node."""
    executor: str = ""
    """Dotted path of the executor's class."""
    driver: str = ""
    """Dotted path of the driver's class, where the component resolves its data before it runs."""
    inputs: dict[str, str] = dataclasses.field(default_factory=dict)
    """Input port to dotted path of the artifact's class."""
    outputs: dict[str, str] = dataclasses.field(default_factory=dict)
    """Output port to dotted path of the artifact's class."""
    exec_properties: dict[str, str] = dataclasses.field(default_factory=dict)
    """Exec property to int, float or str."""
    beam_args: list[str] = dataclasses.field(default_factory=list)
    resolved: dict[str, str] = dataclasses.field(default_factory=dict)
    """Input port to the parameter that says whether a model was found for it; the port is left out where not."""
    conditions: dict[str, ConditionOutput] = dataclasses.field(default_factory=dict)
    """Output parameter to the property that it carries."""
    values: list[str] = dataclasses.field(default_factory=list)
    """Output artifacts whose value is also an output parameter of the same name."""
    probed: bool = False
    """Whether a data probe ran before and sends RESOLVED_EXEC_PROPERTIES."""
    page: bool = False
    """Whether PAGE_PORT is declared."""
    judges: bool = False
    """Whether a rejection ends the run in the next step: Kubeflow throws away what a failed step made."""
    says: bool = False
    """Whether SUMMARY_PARAMETER is declared."""
    publishes: dict[str, str] = dataclasses.field(default_factory=dict)
    """{"model": input port, "blessing": output port} where a blessed model goes to the registry after this step."""

    def to_json(self) -> str:
        """One line, keys sorted, defaults left out."""
        values: dict[str, Any] = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value:
                values[field.name] = value
        if self.conditions:
            values["conditions"] = {name: dataclasses.asdict(output) for name, output in self.conditions.items()}
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "StepPlan":
        """The inverse of `to_json`."""
        values = json.loads(text)
        conditions = {name: ConditionOutput(**output) for name, output in values.pop("conditions", {}).items()}
        return cls(conditions=conditions, **values)
