"""What a person runs or writes to let a finding through."""

import dataclasses
import shlex

from components.data_gate.config import GatePolicy
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


def how_to_accept(finding: Finding, policy: GatePolicy, data: str) -> Finding:
    """`finding` with its `accept`: a command for the schema's rules, an entry of the allow list for the others.

    `data` is the folder that the command would read.
    """
    if finding.rule in _SCHEMA_RULES and finding.split != "serving" and finding.feature not in policy.enums:
        return dataclasses.replace(finding, accept=_schema_command(finding, policy, data))
    return dataclasses.replace(finding, accept=_allow_entry(finding))


def _schema_command(finding: Finding, policy: GatePolicy, data: str) -> str:
    arguments = ["--schema", policy.schema_file, "--input", data, "--feature", finding.feature]
    return f"sluice schema update {shlex.join(arguments)}, then commit the schema"


def _allow_entry(finding: Finding) -> str:
    feature = finding.feature or "*"
    entry = f"{{feature: {feature!r}, rule: {finding.rule}, until: DATE, reason: WHY}}"
    return f"add {entry} to gate.allow (or once: sluice validate --allow {shlex.quote(feature + ':' + finding.rule)})"
