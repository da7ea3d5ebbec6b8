"""What platforms really send, one oddity at a time, on small data: caught under its own name, or let through."""

import math

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.data_gate import gate, schema_change, schema_text
from components.data_gate.config import GatePolicy
from components.data_gate.context import Context, GateInputs
from components.data_gate.errors import GateConfigError
from components.data_gate.statistics import statistics_of

N = 200


def feature(name, kind, more="", least=1):
    return f'feature {{ name: "{name}" type: {kind} presence {{ min_fraction: {least} }} {more} }}'


def iso(i, zone="Z"):
    return f"2016-{1 + i % 12:02}-{1 + i // 12 % 28:02}T{i % 24:02}:{i % 60:02}:{i // 60 % 60:02}{zone}"


DOMAIN = " ".join(f'value: "v{i:04}"' for i in range(3000))
MANY_TIMES = [iso(i) for i in range(3000)]
TIME = {"time": {"feature": "x"}}

# Name: (schema of x, training values, evaluation values, policy, what is found as (rule, split, rows)).
FOUND = {
    "an int beyond a bool": (
        feature("x", "INT", "bool_domain {}"),
        [0, 1, 2],
        [0, 1],
        {},
        ("out-of-range", "train", 1),
    ),
    "the largest int": (
        feature("x", "INT", "int_domain { min: 0 max: 9 }"),
        [5, 6, 2**63 - 1],
        [5, 6],
        {},
        ("out-of-range", "train", 1),
    ),
    "an unknown value among three thousand": (
        feature("x", "BYTES", f"string_domain {{ {DOMAIN} }}"),
        ["zzz", *(f"v{i % 3000:04}" for i in range(9000))],
        [f"v{i:04}" for i in range(3000)],
        {},
        ("unexpected-value", "train", 1),
    ),
    "an unknown number among three thousand": (
        feature("x", "INT", "int_domain { min: 0 max: 2999 is_categorical: true }"),
        [5000, *(i % 3000 for i in range(9000))],
        list(range(3000)),
        {},
        ("out-of-range", "train", 1),
    ),
    "one of several values": (
        feature("x", "INT", "value_count { min: 1 }"),
        [[1, 2], [3], [2, 9]],
        [[1, 2], [3]],
        {"enums": {"x": [1, 2, 3]}},
        ("unexpected-value", "train", 1),
    ),
    "an infinity beside a range": (
        feature("x", "FLOAT", "float_domain { min: 0 max: 9 }"),
        [1.0, 2.0, math.inf],
        [1.0, 2.0],
        {},
        ("infinite", "train", 1),
    ),
    "a finite value out of range among permitted infinities": (
        feature("x", "FLOAT", "float_domain { min: 0 max: 9 disallow_inf: false }"),
        [1.0, 2.0, 12.0, math.inf],
        [1.0, 2.0],
        {},
        ("out-of-range", "train", 1),
    ),
    "a fraction among whole numbers": (
        feature("x", "INT", "int_domain { min: 0 max: 9 }"),
        [1.0, 2.5, 3.0],
        [1, 2],
        {},
        ("type-changed", "train", 1),
    ),
    "whole numbers of more than 64 bits, as text": (
        feature("x", "INT"),
        ["12", "NA", "-9223372036854775808", str(2**63)],
        ["1", "2"],
        {},
        ("type-changed", "train and eval", 1),
    ),
    "too many values": (
        feature("x", "INT", "value_count { min: 1 max: 2 }"),
        [[1, 2], [3], [2, 9, 1]],
        [[1, 2], [3]],
        {},
        ("number-of-values", "train", 1),
    ),
    "no value where a shape asks for one": (
        feature("x", "INT", "shape { dim { size: 1 } }"),
        [1, 2, None],
        [1, 2],
        {},
        ("missing-values", "train", 1),
    ),
    "the same letters in another form of Unicode": (
        feature("x", "BYTES", r'string_domain { value: "Caf\303\251" value: "Bar" }'),
        ["Caf\u00e9", "Bar", "Cafe\u0301"],
        ["Caf\u00e9", "Bar"],
        {},
        ("unexpected-value", "train", 1),
    ),
    "an empty text for a category": (
        feature("x", "BYTES", 'string_domain { value: "a" value: "b" }'),
        ["a", "b", ""],
        ["a", "b"],
        {},
        ("unexpected-value", "train", 1),
    ),
    "NaN in every row": (feature("x", "FLOAT"), [math.nan] * N, [1.0, 2.0] * N, {}, ("all-missing", "train", None)),
    "no value in one split": (
        feature("x", "INT", least=0),
        [1, 2, None, None] * N,
        [None] * N,
        {},
        ("all-missing", "eval", None),
    ),
    "NaN for a label": (
        feature("x", "FLOAT"),
        [0.0, 1.0] * N + [math.nan],
        [0.0, 1.0] * N,
        {"label": {"feature": "x"}},
        ("label-missing", "train", 1),
    ),
    "an empty text for a label": (
        feature("x", "BYTES"),
        ["yes", "no"] * N + [""],
        ["yes", "no"] * N,
        {"label": {"feature": "x"}},
        ("label-missing", "train", 1),
    ),
    "a class of a text label is gone": (
        feature("x", "BYTES"),
        ["yes", "no"] * 20,
        ["yes"] * 20,
        {"label": {"feature": "x"}},
        ("label-one-sided", "eval", None),
    ),
    "a time in the future, as text": (
        feature("x", "BYTES"),
        [*MANY_TIMES, "2031-01-01T00:00:00+02:00"],
        MANY_TIMES,
        TIME,
        ("future", "train", 1),
    ),
    "no time, as text": (
        feature("x", "BYTES"),
        [*MANY_TIMES, "yesterday"],
        MANY_TIMES,
        TIME,
        ("unexpected-value", "train", 1),
    ),
    "a leak that only the zones show": (
        feature("x", "BYTES"),
        ["2016-01-01T00:00:00+05:00", "2016-01-02"],
        ["2016-01-02T01:00:00+02:00", "2016-01-05"],
        {"time": {"feature": "x", "ordered_splits": ["train", "eval"]}},
        ("time-leak", "train", 1),
    ),
    "old times, as text": (
        feature("x", "BYTES"),
        MANY_TIMES,
        MANY_TIMES,
        {"time": {"feature": "x", "max_age_days": 1}},
        ("stale", "all splits", None),
    ),
}

HARMLESS = {
    "an infinity that the schema permits": (
        feature("x", "FLOAT", "float_domain { min: 0 max: 9 disallow_inf: false }"),
        [1.0, 2.0, math.inf],
        [1.0, 2.0],
        {},
    ),
    "minus zero": (feature("x", "FLOAT", "float_domain { min: 0 max: 9 }"), [-0.0, 0.2, 0.3], [0.1, 0.2], {}),
    "values at bounds that float32 does not hold": (
        feature("x", "FLOAT", "float_domain { min: 0.1 max: 0.3 }"),
        [0.1, 0.2, 0.3],
        [0.1, 0.3],
        {},
    ),
    "large ids that are equal as doubles": (
        feature("x", "INT"),
        [2**63 - 1 - i for i in range(N)],
        [2**62 + i for i in range(N)],
        {},
    ),
    "some empty texts": (feature("x", "BYTES"), ["a", "b", ""] * N, ["a", ""] * N, {}),
    "an optional value that is rare, and in one split by chance": (
        feature("x", "INT", least=0),
        [1, 2, 3] + [None] * 5 * N,
        [None] * N,
        {},
    ),
    "times as text": (feature("x", "BYTES"), MANY_TIMES, MANY_TIMES, {"time": {"feature": "x", "max_age_days": 60}}),
    "mixed zones in order": (
        feature("x", "BYTES"),
        ["2016-01-02T01:00:00+02:00", "2016-01-01"],
        ["2016-01-01T23:00:00Z", "2016-01-03 08:00"],
        {"time": {"feature": "x", "ordered_splits": ["train", "eval"]}},
    ),
    "a rare value of three thousand": (
        feature("x", "BYTES", f"string_domain {{ {DOMAIN} }}"),
        [f"v{i % 2999:04}" for i in range(9000)],
        [f"v{i:04}" for i in range(3000)],
        {},
    ),
    "a column whose name is a sentence": (feature("a b/c.d \u00e9", "INT"), [1, 2, 3], [4, 5], {}),
}


@pytest.fixture
def judge(data, tmp_path):
    """judge(schema of x, training values, evaluation values, policy) -> verdict; another column tells rows apart."""

    def run(text, train, evaluation, policy):
        schema = text_format.Parse(text + feature("row", "INT"), schema_pb2.Schema())
        name = schema.feature[0].name
        splits = {
            "train": {name: train, "row": list(range(len(train)))},
            "eval": {name: evaluation, "row": list(range(10**6, 10**6 + len(evaluation)))},
        }
        case = data.Case(schema=schema, splits=splits, baseline=None, policy=policy, with_rows=True)
        return case.judge(tmp_path)

    return run


@pytest.mark.parametrize("name", FOUND)
def test_bad_data_is_found_under_its_name(name, judge):
    *arguments, (rule, split, rows) = FOUND[name]
    verdict = judge(*arguments)
    assert [(f.feature, f.rule, f.split, f.rows) for f in verdict.blocking] == [("x", rule, split, rows)]
    assert all(len(finding.samples) == (rows or 0) for finding in verdict.blocking)
    assert verdict.to_json()


@pytest.mark.parametrize("name", HARMLESS)
def test_harmless_data_passes(name, judge):
    verdict = judge(*HARMLESS[name])
    assert [finding.sentence() for finding in verdict.blocking] == []


@pytest.mark.parametrize(
    ("domain", "values", "low", "high"),
    [
        ("min: 0 max: 9", [-5, 3, 2**63 - 1], -5, 2**63 - 1),
        ("min: 0", [-(2**63), 3], -(2**63), None),
        ("max: 9", [3, 12], None, 12),
    ],
)
def test_a_schema_is_widened_to_any_integer(data, domain, values, low, high):
    schema = text_format.Parse(feature("x", "INT", f"int_domain {{ {domain} }}"), schema_pb2.Schema())
    statistics = {"train": statistics_of([data.to_batch({"x": values}, {})])}
    context = Context(GateInputs(schema=schema, statistics=statistics), GatePolicy())
    changed, changes = schema_change.widen(context, schema_pb2.Schema())
    found = changed.feature[0].int_domain
    assert [found.min if found.HasField("min") else None, found.max if found.HasField("max") else None] == [low, high]
    assert [change.what for change in changes] == ["range"]


def widened(data, text, values):
    schema = text_format.Parse(text, schema_pb2.Schema())
    statistics = {"train": statistics_of([data.to_batch({"x": values}, {})])}
    return schema_change.widen(
        Context(GateInputs(schema=schema, statistics=statistics), GatePolicy()), schema_pb2.Schema()
    )


@pytest.mark.parametrize("name", ['quo"te', "\u00fcn\u00ef", "a b", "it's"])
def test_a_schema_with_odd_names_is_changed_piece_by_piece(name):
    schema = schema_pb2.Schema()
    schema.feature.add(name=name, type=schema_pb2.BYTES, domain=name)
    schema.string_domain.add(name=name, value=["a"])
    text = "# kept\n" + schema_text.format_schema(schema)
    schema.feature[0].presence.min_fraction = 0.5
    schema.string_domain[0].value.append("b")
    changed = schema_text.rewrite(text, schema)
    assert text_format.Parse(changed, schema_pb2.Schema()) == schema
    assert changed.startswith("# kept\n")


def test_permitting_an_infinity_keeps_the_range_for_finite_values(data):
    text = feature("x", "FLOAT", "float_domain { min: 0 max: 9 disallow_inf: true }")
    changed, (change,) = widened(data, text, [1.0, 2.0, math.inf])
    domain = changed.feature[0].float_domain
    assert (domain.min, domain.max, domain.HasField("disallow_inf"), domain.disallow_inf) == (0, 9, True, False)
    assert change.after == "allowed; finite values stay within 0 to 9"


def test_a_wider_number_type_keeps_range_and_comparator(data):
    text = feature(
        "x", "INT", "int_domain { min: 0 max: 9 } drift_comparator { jensen_shannon_divergence { threshold: 1 } }"
    )
    changed, (change,) = widened(data, text, [1.5, 2.0, 12.0])
    (made,) = changed.feature
    assert (made.float_domain.min, made.float_domain.max) == (0, 12)
    assert made.HasField("drift_comparator")
    assert (change.before, change.after) == ("INT", "FLOAT")


def test_what_another_type_loses_is_said(data):
    text = feature(
        "x", "FLOAT", "float_domain { max: 9 } skew_comparator { jensen_shannon_divergence { threshold: 1 } }"
    )
    _, (change,) = widened(data, text, ["a", "b"])
    assert change.after == "BYTES, and loses its range, skew_comparator"


def test_a_schema_of_another_data_set_is_said_once(data):
    schema = text_format.Parse(" ".join(feature(name, "INT") for name in "bcdef"), schema_pb2.Schema())
    statistics = {"train": statistics_of([data.to_batch({"x": [1, 2], "y": [1, 2]}, {})])}
    (note,) = gate.judge(GateInputs(schema=schema, statistics=statistics), GatePolicy()).notes
    assert note.startswith("0 of the 5 columns of the schema are in the data, which has 2: is it the schema of another")


def test_what_one_cannot_see_is_shown_in_quotes(judge):
    finding = judge(*FOUND["an empty text for a category"][:4]).blocking[0]
    assert "'' (1 times)" in finding.observed


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label": {"feature": "tipps"}}, "gate.label.feature: .* no.* column 'tipps'; did you mean 'tips'"),
        ({"time": {"feature": "started"}}, "gate.time.feature: .*'started'; there are company, "),
        ({"enums": {"trip_day": [1]}}, "gate.enums.trip_day: .* did you mean 'trip_"),
        ({"enums": {"trip_start_day": []}}, "gate.enums.trip_start_day: the list is empty"),
        ({"min_rows": {"train": -1}}, "gate.min_rows.train: -1 is not a number of rows"),
        ({"duplicates": {"max_rows": -5}}, "duplicates.max_rows: -5 is not a number of rows"),
    ],
)
def test_slips_of_the_pen_do_not_turn_a_rule_off(taxi, tmp_path, changes, message):
    with pytest.raises(GateConfigError, match=message):
        taxi.with_policy(**changes).judge(tmp_path)


def test_what_cannot_be_compared_is_said(taxi, data, tmp_path):
    def unchecked(case):
        return {(item.rule, item.feature, item.why) for item in case.judge(tmp_path).not_checked}

    without = {name: values for name, values in taxi.baseline.items() if name != "trip_miles"}
    case = type(taxi)(**{**taxi.__dict__, "baseline": without})
    assert ("drift", "trip_miles", "what the data is compared with has no value of trip_miles") in unchecked(case)
    case = type(taxi)(**{**taxi.__dict__, "serving": {name: [] for name in taxi.baseline}})
    assert ("skew", "", "the serving log holds no request") in unchecked(case)
    case = taxi.with_policy(time={"feature": "trip_start_timestamp", "ordered_splits": ["train", "test"]})
    why = "ordered_splits names test; there are train, eval"
    assert ("time-leak", "trip_start_timestamp", why) in unchecked(case)
