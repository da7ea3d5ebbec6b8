"""The record of an exported model's files: what they were when the Trainer published them, for whoever deploys them.

Graph and variables carry checksums of their own, vocabularies and other assets do not. The record covers every file.
"""

import hashlib
import json
import os
import posixpath
from collections.abc import Iterator
from typing import Any

PATH = "assets.extra/files.sha256.json"
_CHUNK = 8 << 20


def write(folder: str) -> None:
    """Writes size in bytes and sha256 of every file under `folder`, the record itself left out, to `folder`/PATH.

    Files are read in pieces of 8 MiB. `folder` is a local path, or a URI of a file system that TFX knows.
    """
    storage = _storage(folder)
    files = {path: _content(storage.open(f"{folder}/{path}", "rb")) for path in _paths(storage, folder)}
    storage.makedirs(f"{folder}/{posixpath.dirname(PATH)}")
    with storage.open(f"{folder}/{PATH}", "w") as file:
        file.write(json.dumps(files, indent=1) + "\n")


def _paths(storage: Any, folder: str) -> Iterator[str]:
    """Every file but the record, relative to `folder`, in order."""
    found = [
        posixpath.relpath(posixpath.join(parent, name), folder)
        for parent, _, names in storage.walk(folder)
        for name in names
    ]
    return (path for path in sorted(found) if path != PATH)


def _content(opened: Any) -> dict[str, Any]:
    digest, size = hashlib.sha256(), 0
    with opened as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return {"size": size, "sha256": digest.hexdigest()}


class _Local:
    """This machine's file system, without the seconds that importing TFX takes. A link counts as what it leads to."""

    open = staticmethod(open)

    @staticmethod
    def walk(folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
        return os.walk(folder, followlinks=True)

    @staticmethod
    def makedirs(folder: str) -> None:
        os.makedirs(folder, exist_ok=True)


def _storage(folder: str) -> Any:
    if "://" not in folder:
        return _Local
    from tfx.dsl.io import fileio

    return fileio
