"""What a person runs or writes to let a finding through."""

import dataclasses
import json
import shlex
from collections.abc import Sequence

from tensorflow_metadata.proto.v0 import schema_pb2

from components.data_gate.config import ANY, GatePolicy
from components.data_gate.context import GateInputs
from components.data_gate.finding import Finding

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


def how_to_accept(finding: Finding, policy: GatePolicy, inputs: GateInputs) -> Finding:
    """`finding` with its `accept`: a command for the schema's rules, an entry of the allow list for the others."""
    if not changes_the_schema(finding, policy):
        return dataclasses.replace(finding, accept=_allow_entry(finding))
    command = schema_command([finding.feature], policy, inputs)
    if finding.rule == "type-changed" and 0 < (finding.rows or 0) <= FEW * _rows(inputs):
        kinds = {schema_pb2.INT: "int", schema_pb2.FLOAT: "float"}
        wanted = next(kinds[f.type] for f in inputs.schema.feature if f.name == finding.feature)
        option = (
            f"ingest: {{types: {{{json.dumps(finding.feature, ensure_ascii=False)}: {wanted}}}, bad_rows: quarantine}}"
        )
        advice = f"correct these rows, or leave them out with {option}; only if the type did change: {command}"
        why = f"{finding.why} So few rows are no reason to change the type of a column.".strip()
        return dataclasses.replace(finding, accept=advice, why=why)
    return dataclasses.replace(finding, accept=command)


def how_to_accept_all(findings: Sequence[Finding], policy: GatePolicy, inputs: GateInputs) -> str:
    """What lets all of `findings` through together: one command for the schema, and the other entries."""
    parts = []
    features = list(dict.fromkeys(f.feature for f in findings if _by_command_alone(f, policy)))
    if features:
        parts.append(schema_command(features, policy, inputs))
    parts += [finding.accept for finding in findings if not _by_command_alone(finding, policy)]
    more = f"; and {len(parts) - 3} more, which the page lists" if len(parts) > 3 else ""
    return "; and ".join(parts[:3]) + more


def changes_the_schema(finding: Finding, policy: GatePolicy) -> bool:
    """Whether a change of the schema would let it through."""
    return finding.rule in _SCHEMA_RULES and finding.split != "serving" and not _of_the_policy(finding, policy)


def _of_the_policy(finding: Finding, policy: GatePolicy) -> bool:
    """Whether the policy, and not the schema, says what is expected."""
    time = policy.time is not None and finding.feature == policy.time.feature
    return finding.rule == "unexpected-value" and (finding.feature in policy.enums or time)


def _by_command_alone(finding: Finding, policy: GatePolicy) -> bool:
    return changes_the_schema(finding, policy) and finding.accept.startswith("sluice")


def schema_command(features: Sequence[str], policy: GatePolicy, inputs: GateInputs) -> str:
    """The command that makes the schema fit the data in `features`."""
    arguments = ["--schema", policy.schema_file, "--input", inputs.source]
    arguments += ["--ingest", inputs.ingest_file] if inputs.ingest_file else []
    arguments += [word for feature in features for word in ("--feature", feature)]
    return f"sluice schema update {shlex.join(arguments)}, then commit the schema"


def _allow_entry(finding: Finding) -> str:
    feature = json.dumps(finding.feature or ANY, ensure_ascii=False)  # YAML reads what JSON writes
    entry = f"{{feature: {feature}, rule: {finding.rule}, until: DATE, reason: WHY}}"
    once = shlex.quote(f"{finding.feature or ANY}:{finding.rule}")
    return f"add {entry} to gate.allow (or once: sluice validate --allow {once})"


def _rows(inputs: GateInputs) -> float:
    return sum(data.num_examples for split in inputs.statistics.values() for data in split.datasets[:1])
