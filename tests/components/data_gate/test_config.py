"""Policies as people write them."""

import pytest
import yaml

from components.data_gate.config import GatePolicy
from components.data_gate.errors import GateConfigError

WRITTEN = """
mode: block
severity: {new-column: warn}
allow:
  - {feature: company, rule: drift, until: 2030-12-31, reason: a fleet joined}
min_rows: {train: 1000, "*": 10}
label: {feature: tips, min_share: 0.05}
time: {feature: trip_start_timestamp, max_age_days: 30, ordered_splits: [train, eval]}
duplicates: {max_share: 0}
enums: {trip_start_day: [1, 2, 3]}
"""


def test_yaml_to_policy_to_property_and_back():
    policy = GatePolicy.from_dict(yaml.safe_load(WRITTEN), "workload.yaml: gate")
    assert policy.allow[0].until == "2030-12-31"
    assert policy.time.ordered_splits == ("train", "eval")
    assert policy.enums == {"trip_start_day": (1, 2, 3)}
    assert (policy.min_rows_of("train"), policy.min_rows_of("test")) == (1000, 10)
    assert GatePolicy.from_json(policy.to_json()) == policy


def test_equal_policies_are_equal_properties():
    one = GatePolicy.from_dict({"min_rows": {"train": 1, "eval": 2}})
    two = GatePolicy.from_dict({"min_rows": {"eval": 2, "train": 1}})
    assert one.to_json() == two.to_json()


def test_nothing_written_is_the_default():
    assert GatePolicy.from_json("") == GatePolicy.from_dict(None) == GatePolicy()


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"modus": "warn"}, "gate: 'modus' is not known; did you mean 'mode'.* allowed are allow, "),
        ({"mode": "stop"}, "mode: 'stop' is not known; allowed are block, warn"),
        ({"severity": {"drifts": "warn"}}, "gate.severity: 'drifts' is not known; did you mean 'drift'"),
        ({"severity": {"drift": "error"}}, "severity.drift: 'error' is not known; allowed are block, ignore, warn"),
        ({"label": {}}, "gate.label.feature: missing"),
        ({"label": "tips"}, "gate.label: expected keys and values"),
        ({"label": {"feature": "tips", "min_share": 5}}, "label.min_share: 5.0 is not a share"),
        ({"time": {"feature": "t", "unit": "h"}}, "time.unit: 'h' is not known"),
        ({"allow": [{"feature": "fare", "rule": "drift", "until": "soon"}]}, r"allow\[0\].until: 'soon' is not a date"),
        ({"allow": [{"feature": "fare", "rule": "drift", "until": "2030-13-45"}]}, r"allow\[0\].until: .*month must"),
        ({"allow": [{"feature": "fare", "rule": "drfit", "until": "2030-01-01"}]}, r"allow\[0\].rule: .*mean 'drift'"),
        ({"allow": [{"feature": "fare", "rule": "duplicates", "until": "2030-01-01"}]}, "is about the whole data set"),
        ({"time": {"feature": "t", "ordered_splits": ["train"]}}, "ordered_splits: only train; name two"),
        ({"allow": {"feature": "fare"}}, "gate.allow: expected a list"),
        ({"min_rows": {"train": "many"}}, "gate.min_rows.train: expected int, got 'many'"),
        ({"max_samples": True}, "gate.max_samples: expected int, got True"),
    ],
)
def test_mistakes_are_named(mapping, message):
    with pytest.raises(GateConfigError, match=message) as caught:
        GatePolicy.from_dict(mapping)
    assert caught.value.exit_code == 2
