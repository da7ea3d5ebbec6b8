"""TFX's Cond, which looks at artifact properties, as conditions on parameters, the only ones that Kubeflow evaluates.

Kubeflow fails a step whose condition reads a property that is not there. So the step that makes the artifact also
writes the property as an output parameter (0 or empty where it has none, which is what TFX's getters return), and the
condition reads that.
"""

import re

from kubeflow import plan

_PROPERTY = re.compile(r"inputs\.artifacts\['(?P<port>[^']+)'\]\.artifacts\[0\]\.metadata\['(?P<key>[^']+)'\]")
_NUMBER = r"-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?"


def references(expression: str) -> list[tuple[str, str]]:
    """The (input port, property) pairs that TFX's expression reads, each once, in order of appearance."""
    return list(dict.fromkeys((match["port"], match["key"]) for match in _PROPERTY.finditer(expression)))


def is_numeric(expression: str, port: str, key: str) -> bool:
    """Whether the property is compared with a number (text otherwise)."""
    term = re.escape(f"inputs.artifacts['{port}'].artifacts[0].metadata['{key}']")
    return re.search(rf"{term} [=<>]+ {_NUMBER}\b|\b{_NUMBER} [=<>]+ {term}", expression) is not None


def output_parameter(output: str, key: str) -> str:
    """Name of the output parameter that carries property `key` of the artifact `output`."""
    return f"{output}-{re.sub(r'[^A-Za-z0-9_]+', '-', key)}"


def rewritten(expression: str, names: dict[tuple[str, str], str]) -> str:
    """The expression over parameters; `names` says which parameter carries which (port, property)."""
    return _PROPERTY.sub(lambda match: f"inputs.parameter_values['{names[match['port'], match['key']]}']", expression)


def carried(output: str, key: str, numeric: bool) -> plan.ConditionOutput:
    """What the producing step's plan says about the parameter."""
    return plan.ConditionOutput(output=output, key=key, numeric=numeric)
