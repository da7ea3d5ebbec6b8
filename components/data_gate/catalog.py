"""Every rule of the gate: its name, what it says in plain words, and how severe it is unless the policy differs."""

import dataclasses

BLOCK, WARN, IGNORE = "block", "warn", "ignore"
SEVERITIES = (BLOCK, WARN, IGNORE)


@dataclasses.dataclass(frozen=True)
class Rule:
    """`rows`: the fault is a property of single rows, so that offending rows can be shown."""

    summary: str
    severity: str = BLOCK
    rows: bool = False


RULES: dict[str, Rule] = {
    # Against the schema
    "missing-column": Rule("a column of the schema is not in the data"),
    "new-column": Rule("a column of the data is not in the schema"),
    "type-changed": Rule("the values have another type than the schema says", rows=True),
    "missing-values": Rule("more rows lack a value than the schema allows", rows=True),
    "all-missing": Rule("no row has a value"),
    "number-of-values": Rule("rows have more or fewer values than the schema allows", rows=True),
    "unexpected-value": Rule("a category that the schema does not list", rows=True),
    "out-of-range": Rule("a number outside the range of the schema", rows=True),
    "nan": Rule("a value is not a number (NaN)", rows=True),
    "infinite": Rule("a value is infinite", rows=True),
    "anomaly": Rule("another anomaly that TensorFlow Data Validation reports"),
    # Of the data set as a whole
    "too-few-rows": Rule("a split has fewer rows than the policy asks for"),
    "constant": Rule("a column that should vary has one value only"),
    "duplicates": Rule("rows of the evaluation split are in the training split too (leakage)", rows=True),
    # The label
    "label-missing": Rule("rows have no label", rows=True),
    "label-one-sided": Rule("one class of the label is nearly all of the data, or nearly none"),
    # Against other data
    "drift": Rule("the distribution differs from the previous data more than allowed"),
    "skew": Rule("the distribution differs between training and serving more than allowed"),
    # Time
    "future": Rule("rows are dated in the future", rows=True),
    "stale": Rule("the newest row is too old, or no newer than the previous data"),
    "time-leak": Rule("training rows are newer than the oldest evaluation row", rows=True),
}

# Findings of these are about no column.
OF_THE_DATA_SET = ("too-few-rows", "duplicates")
