"""The real data of the gate's benchmark, good and changed, read once."""

import pathlib
import sys

import pytest

# The cases are the benchmark's; its folder is on the path of a script, and here of the tests.
BENCHMARKS = str(pathlib.Path(__file__).parents[3] / "benchmarks")


@pytest.fixture(scope="session")
def data():
    """The module validation_data."""
    return _import("validation_data")


@pytest.fixture(scope="session")
def taxi(data):
    """A good case of taxi trips."""
    return data.taxi()


@pytest.fixture(scope="session")
def flights(data):
    """A good case of flights."""
    return data.flights()


def _import(name):
    # Appended, and taken away again: a file there must not hide one of the packages.
    sys.path.append(BENCHMARKS)
    try:
        return __import__(name)
    finally:
        sys.path.remove(BENCHMARKS)


def pytest_generate_tests(metafunc):
    """Tests that take `bad` or `harmless` run once for each case of the benchmark."""
    cases = _import("validation_cases") if {"bad", "harmless"} & set(metafunc.fixturenames) else None
    if "bad" in metafunc.fixturenames:
        named = [("taxi", *case) for case in cases.BAD_TAXI] + [("flights", *case) for case in cases.BAD_FLIGHTS]
        metafunc.parametrize("bad", named, ids=[f"{source}-{name}" for source, name, *_ in named])
    if "harmless" in metafunc.fixturenames:
        named = [("taxi", *c) for c in cases.HARMLESS_TAXI] + [("flights", *c) for c in cases.HARMLESS_FLIGHTS]
        metafunc.parametrize("harmless", named, ids=[f"{source}-{name}" for source, name, _ in named])
