"""Default data that a function writes is there whole or not at all, once, and again when its code changes."""

import pathlib

import pytest

from pipeline import config, default_data
from pipeline.errors import ConfigError

WRITER = """
import pathlib

def write(folder):
    pathlib.Path(folder, "rows.csv").write_text("a\\n1\\n")

def fail(folder):
    pathlib.Path(folder, "half.csv").write_text("a\\n")
    raise OSError("disk full")
"""


@pytest.fixture
def writer(tmp_path, monkeypatch):
    source = tmp_path / "code" / "rows_writer.py"
    source.parent.mkdir()
    source.write_text(WRITER)
    monkeypatch.syspath_prepend(str(source.parent))
    return source


def test_a_function_writes_once_and_again_after_an_edit(writer, tmp_path):
    target = tmp_path / "root" / "data" / "mine"
    default_data.make("function:rows_writer.write", str(target))
    rows = target / "rows.csv"
    assert rows.read_text() == "a\n1\n"
    written = rows.stat().st_ino
    default_data.make("function:rows_writer.write", str(target))
    assert rows.stat().st_ino == written
    writer.write_text(WRITER + "# edited\n")
    default_data.make("function:rows_writer.write", str(target))
    assert rows.stat().st_ino != written
    assert [path.name for path in target.parent.iterdir()] == ["mine"]


def test_a_failing_function_leaves_nothing(writer, tmp_path):
    target = tmp_path / "data" / "mine"
    with pytest.raises(OSError, match="disk full"):
        default_data.make("function:rows_writer.fail", str(target))
    assert list(target.parent.iterdir()) == []


def test_files_of_others_are_not_replaced(writer, tmp_path):
    (tmp_path / "precious.csv").write_text("a\n")
    with pytest.raises(ConfigError, match=r"holds files that rows_writer.write did not write"):
        default_data.make("function:rows_writer.write", str(tmp_path))


def test_a_function_that_is_not_there_is_named(writer, tmp_path):
    with pytest.raises(ConfigError, match=r"function:rows_writer.wrote.*cannot be loaded"):
        default_data.make("function:rows_writer.wrote", str(tmp_path / "data"))


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("function:rows_writer.write", "/root/data/mine"),
        ("elsewhere", "/folder/elsewhere"),
        ("gs://bucket/rows", "gs://bucket/rows"),
    ],
)
def test_where_default_data_lies(location, expected):
    assert default_data.resolve(location, pathlib.Path("/folder"), "/root", "mine") == expected


def test_data_of_the_command_line_is_never_written():
    assert config.make_config("taxi", data="elsewhere").data_is_default is False
    assert config.make_config("taxi").data_is_default is True
