"""A wrong configuration is refused with a message that says where, what and what is allowed."""

import dataclasses

import pytest

from pipeline.config_reader import read
from pipeline.errors import ConfigError, ExitCode


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inner:
    size: int
    ratio: float = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    enabled: bool = True
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    keys: tuple[tuple[str, ...], ...] = ()
    rest: dict = dataclasses.field(default_factory=dict)


def test_reads_nested_values():
    outer = read(
        Outer,
        {"name": "x", "inner": {"size": 3, "ratio": 1}, "many": [{"size": 1}], "keys": [["a", "b"]], "rest": {"k": 1}},
        "file",
    )
    assert outer == Outer(
        name="x", inner=Inner(size=3, ratio=1.0), many=(Inner(size=1),), keys=(("a", "b"),), rest={"k": 1}
    )
    assert isinstance(outer.inner.ratio, float)


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        (
            {"name": "x", "enabeld": True},
            ["unknown key `enabeld`", "Did you mean `enabled`?", "Allowed: name, enabled"],
        ),
        ({}, ["missing key `name`"]),
        ({"name": 3}, ["`name`", "expected text", "found 3"]),
        ({"name": "x", "enabled": "yes"}, ["`enabled`", "true or false", "'yes'"]),
        ({"name": "x", "inner": {"size": 1.5}}, ["`inner`", "`size`", "a whole number", "1.5"]),
        ({"name": "x", "inner": {"size": True}}, ["`size`", "a whole number", "True"]),
        ({"name": "x", "many": {"size": 1}}, ["`many`", "expected a list"]),
        ({"name": "x", "many": [{"size": 1}, {}]}, ["`many`[1]", "missing key `size`"]),
        ({"name": "x", "keys": [["a", 1]]}, ["`keys`[0][1]", "expected text", "found 1"]),
        ({"name": "x", "rest": []}, ["`rest`", "expected a mapping"]),
        ({"name": None}, ["`name`", "found nothing"]),
        ([], ["expected a mapping of keys to values"]),
        ("text", ["expected a mapping of keys to values, found 'text'"]),
    ],
)
def test_refuses_and_says_why(mapping, words):
    with pytest.raises(ConfigError) as caught:
        read(Outer, mapping, "file.yaml")
    for word in ["file.yaml", *words]:
        assert word in str(caught.value)
    assert caught.value.exit_code == ExitCode.USAGE
