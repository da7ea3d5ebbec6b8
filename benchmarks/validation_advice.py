"""Does what a blocked verdict advises: the schema updated for the columns that it names, the others allowed."""

import dataclasses
import datetime
import pathlib

import tensorflow_data_validation as tfdv
from tensorflow_metadata.proto.v0 import schema_pb2
from validation_data import Case, inputs_of

from components.data_gate import schema_change
from components.data_gate.accept import changes_the_schema
from components.data_gate.config import GatePolicy
from components.data_gate.context import Context
from components.data_gate.gate import judge


def after_following(case: Case, folder: pathlib.Path) -> list[str]:
    """What still blocks, as sentences."""
    inputs = inputs_of(case, folder)
    policy = GatePolicy.from_dict(case.policy)
    context = Context(inputs, policy)
    blocking = judge(inputs, policy).blocking
    by_schema = [finding for finding in blocking if changes_the_schema(finding, context)]
    schema = case.schema
    if by_schema:
        features = [finding.feature for finding in by_schema]
        schema, _ = schema_change.widen(context, _inferred(inputs.statistics), features)
    tomorrow = (case.now + datetime.timedelta(days=1)).date().isoformat()
    entries = [
        {"feature": finding.feature or "*", "rule": finding.rule, "until": tomorrow}
        for finding in blocking
        if finding not in by_schema
    ]
    allowed = GatePolicy.from_dict({**case.policy, "allow": [*case.policy.get("allow", ()), *entries]})
    again = judge(dataclasses.replace(inputs, schema=schema), allowed)
    return [finding.sentence() for finding in again.blocking]


def _inferred(statistics) -> schema_pb2.Schema:
    """Columns of all splits."""
    schema = schema_pb2.Schema()
    for split in statistics.values():
        found = tfdv.infer_schema(split)
        for feature in found.feature:
            if all(feature.name != other.name for other in schema.feature):
                schema.feature.add().CopyFrom(feature)
                schema.string_domain.extend(domain for domain in found.string_domain if domain.name == feature.domain)
    return schema
