"""How findings become a verdict: modes, severities, the allow list, rows, and what could not be checked."""

import dataclasses
import json

import pytest

from components.data_gate import gate
from components.data_gate.config import GatePolicy
from components.data_gate.errors import GateConfigError


def kilometres(case):
    return case.change("train", trip_miles=[miles * 1.609344 for miles in case.splits["train"]["trip_miles"]])


def hours_25(case):
    hours = case.splits["train"]["trip_start_hour"]
    return case.change("train", trip_start_hour=[25 if i in (3, 4001) else hour for i, hour in enumerate(hours)])


def test_message_names_column_rule_values_and_what_would_accept_it(taxi, tmp_path):
    message = hours_25(taxi).judge(tmp_path).message("build/report.html")
    assert "trip_start_hour: out-of-range in train: values from 0 to 25; allowed: 0 to 23" in message
    assert "build/report.html" in message
    assert "sluice schema update --schema schema.pbtxt --input DATA --feature trip_start_hour" in message
    assert "\n" not in message


def test_offending_rows_are_counted_and_shown_with_file_and_record(taxi, tmp_path):
    case = dataclasses.replace(hours_25(taxi), with_rows=True).with_policy(key=["trip_start_timestamp"])
    (finding,) = case.judge(tmp_path).blocking
    assert finding.rows == 2
    assert [sample["record"] for sample in finding.samples] == [4, 4002]
    assert [sample["file"] for sample in finding.samples] == ["train", "train"]
    assert finding.samples[0]["row"]["trip_start_hour"] == 25
    assert next(iter(finding.samples[0]["row"])) == "trip_start_timestamp"


def test_no_more_samples_than_asked_for(taxi, tmp_path):
    case = taxi.change("train", fare=[-1.0] * 6000).with_policy(max_samples=5)
    verdict = dataclasses.replace(case, with_rows=True).judge(tmp_path)
    finding = next(f for f in verdict.blocking if f.rule == "out-of-range")
    assert (finding.rows, len(finding.samples)) == (6000, 5)


def test_rows_are_not_read_when_nothing_needs_them(taxi, data, tmp_path):
    def no_pipeline():
        raise AssertionError("a pass over rows was started")

    case = dataclasses.replace(taxi, with_rows=True).with_policy(duplicates={"max_rows": 0})
    verdict = gate.judge(data.inputs_of(case, tmp_path), GatePolicy.from_dict(case.policy), no_pipeline)
    assert verdict.word == "accepted"


def test_mode_warn_reports_and_goes_on(taxi, tmp_path):
    verdict = kilometres(taxi).with_policy(mode="warn").judge(tmp_path)
    assert verdict.accepted
    assert verdict.word == "accepted with warnings"
    assert [finding.rule for finding in verdict.blocking] == ["drift"]


@pytest.mark.parametrize(("severity", "word"), [("warn", "accepted with warnings"), ("ignore", "accepted")])
def test_severity_per_rule(taxi, tmp_path, severity, word):
    assert kilometres(taxi).with_policy(severity={"drift": severity}).judge(tmp_path).word == word


def test_an_allowance_ends_after_its_date(taxi, tmp_path):
    entry = {"feature": "trip_miles", "rule": "drift", "reason": "new meters"}
    last_day = kilometres(taxi).with_policy(allow=[{**entry, "until": "2017-01-02"}]).judge(tmp_path)
    day_after = kilometres(taxi).with_policy(allow=[{**entry, "until": "2017-01-01"}]).judge(tmp_path)
    assert [(f.severity, f.rule) for f in last_day.findings] == [("allowed", "drift")]
    assert "new meters" in last_day.findings[0].why
    assert day_after.word == "blocked"
    assert "Was allowed until 2017-01-01" in day_after.findings[0].why


def test_what_could_not_be_checked_is_said(taxi, tmp_path):
    case = dataclasses.replace(taxi, baseline=None, policy={})
    reasons = {item.rule: item.why for item in case.judge(tmp_path).not_checked}
    assert set(reasons) == {
        *("drift", "skew", "label-missing", "label-one-sided", "future", "stale", "time-leak", "duplicates")
    }
    assert "no baseline" in reasons["drift"]
    assert "no serving" in reasons["skew"]


def test_categories_that_statistics_do_not_count_are_said_to_be_unchecked(taxi, tmp_path):
    verdict = dataclasses.replace(taxi, with_schema=False).judge(tmp_path)
    assert verdict.accepted
    unchecked = {item.feature for item in verdict.not_checked if item.rule == "drift"}
    assert {"pickup_community_area", "trip_start_hour"} <= unchecked


def test_a_comparator_that_cannot_work_is_refused_with_a_reason(taxi, tmp_path):
    case = dataclasses.replace(taxi)
    schema = type(case.schema)()
    schema.CopyFrom(case.schema)
    fare = next(feature for feature in schema.feature if feature.name == "fare")
    fare.drift_comparator.infinity_norm.threshold = 0.1
    with pytest.raises(GateConfigError, match=r"fare: drift_comparator: infinity_norm .* always 0 for a number"):
        dataclasses.replace(case, schema=schema).judge(tmp_path)


def test_verdict_is_json_that_any_parser_reads(taxi, tmp_path):
    fares = [float("nan") if i < 3 else fare for i, fare in enumerate(taxi.splits["train"]["fare"])]
    verdict = dataclasses.replace(taxi.change("train", fare=fares), with_rows=True).judge(tmp_path)
    parsed = json.loads(verdict.to_json(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert parsed["verdict"] == "blocked"
    (finding,) = parsed["findings"]
    assert {"feature", "rule", "severity", "observed", "allowed", "rows", "samples"} <= set(finding)
    assert finding["rows"] == 3
    assert finding["samples"][0]["row"]["fare"] == "nan"


def test_a_renamed_column_is_recognised_by_its_values(taxi, tmp_path):
    miles = taxi.splits["train"]["trip_miles"]
    verdict = taxi.change("train", trip_miles=None, distance=miles).judge(tmp_path)
    gone = next(finding for finding in verdict.blocking if finding.rule == "missing-column")
    assert "renamed to distance" in gone.why
    new = next(finding for finding in verdict.blocking if finding.rule == "new-column")
    assert "trip_miles, which is gone, was renamed to this" in new.why


def test_a_renamed_column_is_recognised_by_its_name_where_there_is_no_baseline(taxi, tmp_path):
    train = taxi.splits["train"]
    case = taxi.change("train", trip_miles=None, fare=None, miles_of_trip=train["trip_miles"], Fare=train["fare"])
    verdict = dataclasses.replace(case, baseline=None).judge(tmp_path)
    why = {finding.feature: finding.why for finding in verdict.blocking if finding.rule == "missing-column"}
    assert "renamed to Fare" in why["fare"]
    assert "renamed" not in why["trip_miles"]


@pytest.mark.parametrize(
    ("column", "factor", "words"),
    [
        ("trip_miles", 1.609344, "multiplied by 1.609: kilometres for miles?"),
        ("trip_miles", 1 / 1.609344, "multiplied by 0.6214, a 1.609th: miles for kilometres?"),
        ("fare", 2.2046226, "multiplied by 2.205: pounds for kilograms?"),
        ("fare", 100, "multiplied by 100: cents for dollars (or percent for shares)?"),
        ("fare", 1.2, "multiplied by about 1.2."),
        ("trip_start_timestamp", 1000, "look like milliseconds since 1970, those before like seconds: 1000 times"),
    ],
)
def test_another_unit_is_guessed_with_its_factor(taxi, tmp_path, column, factor, words):
    values = [value * factor for value in taxi.splits["train"][column]]
    changed = taxi.change("train", **{column: [int(v) for v in values] if factor == 1000 else values})
    found = [finding for finding in changed.judge(tmp_path).blocking if finding.feature == column]
    assert found
    assert all(words in finding.why for finding in found if finding.rule in ("drift", "out-of-range")), found


def test_no_unit_is_guessed_for_any_other_change(taxi, tmp_path):
    fares = [min(fare, 6.0) for fare in taxi.splits["train"]["fare"]]
    (finding,) = taxi.change("train", fare=fares).judge(tmp_path).blocking
    assert finding.rule == "drift"
    assert "multiplied" not in finding.why


def test_drift_in_both_splits_is_one_finding(taxi, tmp_path):
    case = kilometres(taxi)
    case = case.change("eval", trip_miles=[miles * 1.609344 for miles in case.splits["eval"]["trip_miles"]])
    (finding,) = case.judge(tmp_path).findings
    assert finding.split == "train and eval"
    assert "train: Jensen-Shannon divergence" in finding.observed
    assert "eval: Jensen-Shannon divergence" in finding.observed
    assert "drift in train and eval" in finding.sentence()


def test_names_in_the_policy_that_nothing_has_are_notes(taxi, tmp_path):
    case = taxi.with_policy(
        allow=[{"feature": "trip_mils", "rule": "drift", "until": "2030-01-01"}], key=["nr"], may_be_constant=["yaer"]
    )
    verdict = case.judge(tmp_path)
    assert verdict.word == "accepted"
    assert [note.partition(";")[0] for note in verdict.notes] == [
        "gate.allow[0]: neither the schema nor the data has a column 'trip_mils', so it lets no drift through",
        "gate.may_be_constant: neither the schema nor the data has a column 'yaer', so it changes nothing",
        "gate.key: neither the schema nor the data has a column 'nr', so sample rows do not begin with it",
    ]
    assert "did you mean 'trip_miles'?" in verdict.notes[0]
    assert json.loads(verdict.to_json())["notes"] == list(verdict.notes)


def test_environments_that_the_schema_does_not_have_are_said(taxi, tmp_path):
    with pytest.raises(GateConfigError, match=r"gate.serving_environment: .* 'SERVIN'; did you mean 'SERVING'\?"):
        taxi.with_policy(serving_environment="SERVIN").judge(tmp_path)
    schema = type(taxi.schema)()
    schema.CopyFrom(taxi.schema)
    del schema.default_environment[:]
    schema.default_environment.extend(["LEARNING", "SERVING"])
    schema.feature[0].not_in_environment.append("SERVED")
    notes = dataclasses.replace(taxi, schema=schema).judge(tmp_path).notes
    assert any("the policy's training_environment is TRAINING" in note for note in notes)
    assert any("'SERVED' is not a default_environment of the schema; did you mean 'SERVING'?" in note for note in notes)
