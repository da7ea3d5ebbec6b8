"""The golden comparison tells models apart on the scale of their outputs, and CPUs not."""

import numpy as np
import pytest

from components.pusher.golden import Golden, GoldenError


def golden(outputs, **tolerances) -> Golden:
    tolerances = {"tolerance": 1e-3, "absolute_tolerance": 1e-6} | tolerances
    return Golden("serving_default", "examples", [b""], {"scores": np.asarray(outputs)}, **tolerances)


def answer(values) -> dict:
    return {"scores": np.asarray(values)}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ([[2e-4], [3e-4]], [[2e-4], [3.02e-4]]),
        ([[0.9998, 2e-4], [0.9997, 3e-4]], [[0.9998, 2e-4], [0.9997, 3.1e-4]]),
        ([0.0, 2.0, -5.0, 2e6], [0.0, 2.01, -5.0, 2e6]),
        ([0.3], [0.3005]),
        ([20000, 7], [20001, 7]),
        ([0.0, np.inf], [0.0, 1.0]),
        ([0.0, np.nan], [0.0, 1.0]),
    ],
    ids=[
        "tiny",
        "tiny beside large",
        "one huge value hides none",
        "one row",
        "identifiers",
        "infinite",
        "not a number",
    ],
)
def test_other_models_are_told_apart(wanted, found):
    with pytest.raises(GoldenError, match="differs from the trainer's golden predictions: value"):
        golden(wanted).compare(answer(found))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ([[2e-4], [3e-4]], [[2e-4], [3.001e-4]]),
        ([1e-5, 2.0, -3.0, 4.0], [2e-5, 2.0005, -3.0005, 4.0]),
        ([0.0, 0.0], [5e-7, 0.0]),
        ([0.3], [0.30025]),
        ([0.0, np.inf, np.nan], [0.0, np.inf, np.nan]),
        (0.5, 0.5002),
        ([True, False], [1, 0]),
    ],
    ids=["tiny", "a logit near zero", "an exact zero", "one row", "not finite", "no rows", "truth values"],
)
def test_rounding_is_let_through(wanted, found):
    golden(wanted).compare(answer(found))


def test_a_record_of_before_means_both_tolerances_by_one(models):
    import json

    from components.pusher.golden import GOLDEN_PATH, read_golden

    read = read_golden(models["double"])
    assert read is not None
    assert (read.tolerance, read.absolute_tolerance) == (1e-3, 1e-3)
    path = models["double"] / GOLDEN_PATH
    path.write_text(json.dumps(json.loads(path.read_text()) | {"absolute_tolerance": 1e-6}))
    read = read_golden(models["double"])
    assert read is not None
    assert (read.tolerance, read.absolute_tolerance) == (1e-3, 1e-6)
