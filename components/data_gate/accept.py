"""What a person runs or writes to let a finding through."""

import dataclasses
import json
import shlex
from collections.abc import Sequence

from tensorflow_metadata.proto.v0 import schema_pb2

from components.data_gate.config import ANY, GatePolicy
from components.data_gate.context import SERVING, Context, GateInputs
from components.data_gate.finding import Finding
from components.data_gate.rules import degenerate
from components.data_gate.summary import ColumnSummary

# Rules about what the schema says: accepting means changing the schema. All others are accepted for a time.
_SCHEMA_RULES = {
    "missing-column",
    "new-column",
    "type-changed",
    "missing-values",
    "all-missing",
    "number-of-values",
    "unexpected-value",
    "out-of-range",
    "nan",
    "infinite",
}
# Up to this share of the rows, what is not of the schema's type is a fault of those rows.
FEW = 0.5
_COMMAND = "sluice schema update"


def how_to_accept(finding: Finding, context: Context) -> Finding:
    """`finding` with its `accept`: a command where another schema is enough, or else an entry of the allow list."""
    policy, inputs = context.policy, context.inputs
    if not changes_the_schema(finding, context):
        return dataclasses.replace(finding, accept=_allow_entry(finding))
    command = schema_command([finding.feature], policy, inputs)
    if finding.rule == "type-changed" and 0 < (finding.rows or 0) <= FEW * _rows(inputs):
        kind = {schema_pb2.INT: "int", schema_pb2.FLOAT: "float"}[context.features[finding.feature].type]
        types = f"{{{json.dumps(finding.feature, ensure_ascii=False)}: {kind}}}"
        option = f"ingest: {{types: {types}, bad_rows: quarantine}}"
        advice = f"correct these rows, or leave them out with {option}; only if the type did change: {command}"
        why = f"{finding.why} So few rows are no reason to change the type of a column.".strip()
        return dataclasses.replace(finding, accept=advice, why=why)
    return dataclasses.replace(finding, accept=command)


def how_to_accept_all(findings: Sequence[Finding], policy: GatePolicy, inputs: GateInputs) -> str:
    """What lets all of `findings` through together: one command for the schema, and the other entries."""
    parts = []
    by_command = [finding for finding in findings if finding.accept.startswith(_COMMAND)]
    if by_command:
        parts.append(schema_command(list(dict.fromkeys(f.feature for f in by_command)), policy, inputs))
    parts += [finding.accept for finding in findings if finding not in by_command]
    more = f"; and {len(parts) - 3} more, which the page lists" if len(parts) > 3 else ""
    return "; and ".join(parts[:3]) + more


def changes_the_schema(finding: Finding, context: Context) -> bool:
    """Whether another schema, and nothing else, would let it through."""
    policy, name = context.policy, finding.feature
    if finding.rule not in _SCHEMA_RULES or finding.split == SERVING:
        return False
    columns = [data.columns.get(name) for data in context.splits.values() if data.num_rows]
    if finding.rule == "unexpected-value":  # where the policy says what is expected, it is what would have to change
        return name not in policy.enums and (policy.time is None or name != policy.time.feature)
    if finding.rule in ("missing-column", "all-missing"):  # where others have values, a schema cannot say it is normal
        others = [*columns, *(data.columns.get(name) for data in context.baseline.values())]
        return not any(column and column.num_present for column in others)
    if finding.rule == "new-column":
        return all(column and column.num_present and not _constant(column, context) for column in columns)
    if finding.rule == "type-changed":  # no schema fits splits of several types
        return len({column.type for column in columns if column and column.num_present}) == 1
    return True


def _constant(column: ColumnSummary, context: Context) -> bool:
    return degenerate.only_value(column) is not None and column.name not in context.policy.may_be_constant


def schema_command(features: Sequence[str], policy: GatePolicy, inputs: GateInputs) -> str:
    """The command that makes the schema fit the data in `features`."""
    arguments = ["--schema", policy.schema_file, "--input", inputs.source]
    arguments += ["--ingest", inputs.ingest_file] if inputs.ingest_file else []
    arguments += [word for feature in features for word in ("--feature", feature)]
    return f"{_COMMAND} {shlex.join(arguments)}, then commit the schema"


def _allow_entry(finding: Finding) -> str:
    feature = json.dumps(finding.feature or ANY, ensure_ascii=False)  # YAML reads what JSON writes
    entry = f"{{feature: {feature}, rule: {finding.rule}, until: DATE, reason: WHY}}"
    once = shlex.quote(f"{finding.feature or ANY}:{finding.rule}")
    return f"add {entry} to gate.allow (or once: sluice validate --allow {once})"


def _rows(inputs: GateInputs) -> float:
    return sum(data.num_examples for split in inputs.statistics.values() for data in split.datasets[:1])
