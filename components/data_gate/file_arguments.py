"""The files and folders that a person names on the command line: one line says which of them cannot be, and why."""

import os
import pathlib
from typing import Any

import tensorflow as tf
import yaml

from components.data_gate.errors import GateConfigError


def folder(argument: str, path: str, expected: str) -> None:
    """Raises GateConfigError unless `path` is a folder with something in it; `expected` says of what."""
    if not tf.io.gfile.exists(path):
        raise GateConfigError(f"{argument} {path}: no such folder; expected {expected}")
    if not tf.io.gfile.isdir(path):
        raise GateConfigError(f"{argument} {path}: a file; expected {expected}: name the folder that it is in")
    if not tf.io.gfile.listdir(path):
        raise GateConfigError(f"{argument} {path}: the folder is empty; expected {expected}")


def read_text(argument: str, path: str, expected: str) -> str:
    """The text of a file.

    Raises:
      GateConfigError: no such file, a folder, or no text; the message names the argument and what was expected.
    """
    if not tf.io.gfile.exists(path):
        raise GateConfigError(f"{argument} {path}: no such file; expected {expected}")
    if tf.io.gfile.isdir(path):
        raise GateConfigError(f"{argument} {path}: a folder; expected {expected}")
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return file.read().decode()
    except UnicodeDecodeError as error:
        raise GateConfigError(f"{argument} {path}: no text (byte {error.start}); expected {expected}") from error
    except tf.errors.OpError as error:
        raise GateConfigError(f"{argument} {path}: cannot be read: {error.message}; expected {expected}") from error


def read_mapping(argument: str, path: str, expected: str) -> dict[str, Any]:
    """The keys and values of a YAML file; dates stay text, so that a wrong one is found where its field is known.

    Raises:
      GateConfigError: as `read_text`, or not YAML, or not keys and values.
    """
    text = read_text(argument, path, expected)
    try:
        content = yaml.load(text, _TextDates)
    except yaml.YAMLError as error:
        raise GateConfigError(f"{argument} {path}: not YAML: {_line(error)}; expected {expected}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise GateConfigError(f"{argument} {path}: expected {expected}: keys and values, got {str(content)[:60]!r}")
    return content


def prepare_output(argument: str, path: str) -> pathlib.Path:
    """The path of a file that can be written, its folder made. Called before the work, not after it.

    Raises:
      GateConfigError: a folder has that name, or it cannot be written.
    """
    target = pathlib.Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GateConfigError(f"{argument} {path}: cannot be written: {error.strerror}; name another file") from error
    if target.is_dir():
        raise GateConfigError(f"{argument} {path}: a folder; expected the name of a file to write")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise GateConfigError(f"{argument} {path}: cannot be written: permission denied; name another file")
    return target


def _line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or " ".join(str(error).split())
    return f"line {mark.line + 1}: {problem}" if mark else problem


class _TextDates(yaml.SafeLoader):
    """SafeLoader without dates: it raises a bare ValueError for the thirteenth month."""


_TextDates.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
