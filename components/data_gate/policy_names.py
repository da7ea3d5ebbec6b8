"""Names in the policy that nothing has: a slip of the pen there would turn a rule off, or leave it on, without a word.

Where a name can never be right it is an error; where it may have been right once (an exception outlives its column) it
is a note.
"""

from collections.abc import Iterable, Iterator

from components.data_gate.config import ANY, GatePolicy
from components.data_gate.context import SERVING, Context
from components.data_gate.errors import GateConfigError
from components.data_gate.policy_reader import close_to


def refuse_unknown_names(context: Context) -> None:
    """Raises GateConfigError for a column of the label, time, enums or duplicates that nobody has, and the like."""
    policy = context.policy
    named = [(f"enums.{feature}", feature) for feature in policy.enums]
    named += [("duplicates.columns", feature) for feature in policy.duplicates.columns]
    if policy.label:
        named.append(("label.feature", policy.label.feature))
    if policy.time:
        named.append(("time.feature", policy.time.feature))
    known = _columns(context)
    for key, feature in named:
        if feature not in known:
            raise GateConfigError(
                f"gate.{key}: neither the schema nor the data has a column {feature!r}; {close_to(feature, known)}"
            )
    _refuse_unknown_environments(context)


def _refuse_unknown_environments(context: Context) -> None:
    there = list(context.schema.default_environment)
    for key, default in (("training_environment", "TRAINING"), ("serving_environment", "SERVING")):
        name = getattr(context.policy, key)
        if name != default and name not in there:
            raise GateConfigError(
                f"gate.{key}: the schema has no default_environment {name!r}; {close_to(name, there)}"
            )


def policy_notes(context: Context) -> Iterator[str]:
    """One sentence for each name that nothing has."""
    policy, columns = context.policy, _columns(context)
    for i, entry in enumerate(policy.allow):
        if entry.feature not in (ANY, "") and entry.feature not in columns:
            yield _note(f"allow[{i}]", entry.feature, columns, f"so it lets no {entry.rule} through")
    for key, why in (("may_be_constant", "so it changes nothing"), ("key", "so sample rows do not begin with it")):
        for name in getattr(policy, key):
            if name not in columns:
                yield _note(key, name, columns, why)
    yield from _environment_notes(context, policy)


def _environment_notes(context: Context, policy: GatePolicy) -> Iterator[str]:
    there = list(context.schema.default_environment)
    for name, key in (("", "training_environment"), (SERVING, "serving_environment")):
        wanted = getattr(policy, key)
        used = name != SERVING or context.serving is not None
        if used and there and wanted not in there:
            yield (
                f"the schema has environments {', '.join(there)}, and the policy's {key} is {wanted}: what the schema "
                "says of environments is not used; name one of them"
            )
    for feature in context.schema.feature:
        for name in (*feature.in_environment, *feature.not_in_environment):
            if name not in there:
                hint = close_to(name, there)
                yield f"schema: {feature.name}: {name!r} is not a default_environment of the schema; {hint}"


def _note(key: str, name: str, columns: Iterable[str], why: str) -> str:
    return f"gate.{key}: neither the schema nor the data has a column {name!r}, {why}; {close_to(name, columns)}"


def _columns(context: Context) -> set[str]:
    return {*context.features, *(name for data in context.data_sets.values() for name in data.columns)}
