"""Kubeflow's conditions, as far as compiled pipelines use them: comparisons of parameters, and, or, not.

Kubeflow evaluates them with CEL, which fails on a parameter that is not there and on comparing text with a number.
"""

import re
from typing import Any

_TOKEN = re.compile(
    r"\s*(?:(?P<parameter>inputs\.parameter_values\['(?P<name>[^']+)'\])|(?P<number>-?\d+(?:\.\d+)?)"
    r"|'(?P<text>[^']*)'|(?P<operator>&&|\|\||==|[<>!()]))"
)


class ConditionError(Exception):
    """What CEL would have refused."""


def evaluate(expression: str, parameters: dict[str, Any]) -> bool:
    """Whether the task is to run."""
    tokens = _tokens(expression)
    value = _either(tokens, parameters)
    if tokens or not isinstance(value, bool):
        raise ConditionError(f"not a condition: {expression}")
    return value


def _tokens(expression: str) -> list[Any]:
    tokens, position = [], 0
    while position < len(expression.rstrip()):
        match = _TOKEN.match(expression, position)
        if not match:
            raise ConditionError(f"cannot read {expression[position:]!r}")
        tokens.append(match)
        position = match.end()
    return tokens


def _accept(tokens: list[Any], operator: str) -> bool:
    if tokens and tokens[0]["operator"] == operator:
        tokens.pop(0)
        return True
    return False


def _either(tokens: list[Any], parameters: dict[str, Any]) -> Any:
    value = _both(tokens, parameters)
    while _accept(tokens, "||"):
        right = _both(tokens, parameters)
        value = value or right
    return value


def _both(tokens: list[Any], parameters: dict[str, Any]) -> Any:
    value = _comparison(tokens, parameters)
    while _accept(tokens, "&&"):
        right = _comparison(tokens, parameters)
        value = value and right
    return value


def _comparison(tokens: list[Any], parameters: dict[str, Any]) -> Any:
    left = _term(tokens, parameters)
    for operator in ("==", "<", ">"):
        if _accept(tokens, operator):
            right = _term(tokens, parameters)
            if isinstance(left, str) is not isinstance(right, str):
                raise ConditionError(f"no such overload: {left!r} {operator} {right!r}")
            return {"==": left == right, "<": left < right, ">": left > right}[operator]
    return left


def _term(tokens: list[Any], parameters: dict[str, Any]) -> Any:
    if _accept(tokens, "!"):
        return not _term(tokens, parameters)
    if _accept(tokens, "("):
        value = _either(tokens, parameters)
        if not _accept(tokens, ")"):
            raise ConditionError("unbalanced parentheses")
        return value
    token = tokens.pop(0)
    if token["name"] is not None:
        if token["name"] not in parameters:
            raise ConditionError(f"no such key: {token['name']}")
        return parameters[token["name"]]
    return float(token["number"]) if token["number"] is not None else token["text"]
