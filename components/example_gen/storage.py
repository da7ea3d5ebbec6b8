"""Files on this machine or on any file system Beam knows (gs://, hdfs://, s3://), opened at an offset.

Local paths do not import Beam, which takes seconds in a worker process.
"""

import contextlib
import fnmatch
import glob
import os
import re
import shutil
from collections.abc import Iterator
from typing import IO, Any

from components.example_gen.errors import IngestFileError

# What glob.escape makes of a special character.
_ESCAPED = re.compile(r"\[([*?[])\]")


def is_local(path: str) -> bool:
    """Whether `path` has no scheme."""
    return "://" not in path


def _remote() -> Any:
    from apache_beam.io.filesystems import FileSystems

    return FileSystems


def find(pattern: str) -> list[tuple[str, int]]:
    """(path, size in bytes) of the files, not folders, that match a glob, sorted by path."""
    if is_local(pattern):
        matched = glob.glob(pattern, recursive=True, include_hidden=True)
        return [(path, os.path.getsize(path)) for path in sorted(matched) if os.path.isfile(path)]
    (match,) = _remote().match([pattern])
    return sorted((entry.path, entry.size_in_bytes) for entry in match.metadata_list)


def not_files(pattern: str) -> list[tuple[str, str]]:
    """What else matches a glob on this machine, but for hidden and `_` names, as (path, what it is)."""
    if not is_local(pattern) or "**" in pattern:  # which goes into folders itself
        return []
    return [(path, _what(path)) for path in sorted(glob.glob(pattern)) if not os.path.isfile(path)]


def _what(path: str) -> str:
    if os.path.isdir(path):
        return "a folder; a glob such as FOLDER/*/*.csv names the files in it"
    return "a link to nothing" if os.path.islink(path) else "neither a file nor a folder"


def escape(path: str) -> str:
    """`path` as a glob that matches only itself."""
    return glob.escape(path) if is_local(path) else path


def fixed_part(pattern: str) -> str:
    """The folder that all matches of a glob lie in, without the escapes of `escape`."""
    parts = []
    for part in pattern.split("/")[:-1]:
        if any(character in _ESCAPED.sub("", part) for character in "*?[{"):
            break
        parts.append(_ESCAPED.sub(r"\1", part))
    return "/".join(parts)


def is_folder(path: str) -> bool:
    """Whether `path` names a folder rather than a file or a glob."""
    if is_local(path):
        return os.path.isdir(path)
    return not any(character in path for character in "*?[{") and not _remote().exists(path.rstrip("/"))


def matches(path: str, pattern: str) -> bool:
    """Whether the last parts of `path` match the glob `pattern`."""
    depth = pattern.count("/") + 1
    return fnmatch.fnmatch("/".join(path.split("/")[-depth:]), pattern)


@contextlib.contextmanager
def reading(path: str, offset: int = 0) -> Iterator[IO[bytes]]:
    """A binary file positioned at `offset`; whatever the name, bytes are given as they lie."""
    if is_local(path):
        with open(path, "rb") as file:
            file.seek(offset)
            yield file
        return
    from apache_beam.io.filesystem import CompressionTypes

    with contextlib.closing(_remote().open(path, compression_type=CompressionTypes.UNCOMPRESSED)) as file:
        file.seek(offset)
        yield file


@contextlib.contextmanager
def writing(path: str) -> Iterator[IO[bytes]]:
    """A new binary file; local ones are on disk when the block ends."""
    if is_local(path):
        with open(path, "wb") as file:
            yield file
        return
    from apache_beam.io.filesystem import CompressionTypes

    with contextlib.closing(_remote().create(path, compression_type=CompressionTypes.UNCOMPRESSED)) as file:
        yield file


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Makes one line of what the operating system refuses, which names its own file, or `path` where it names none."""
    try:
        yield
    except OSError as error:
        raise IngestFileError(f"{error.filename or path}: {error.strerror or error}") from None


def make_folder(path: str) -> None:
    """Makes `path` and its parents; nothing on object stores, where folders are names."""
    if is_local(path):
        os.makedirs(path, exist_ok=True)


def rename(source: str, target: str) -> None:
    """Moves one file or, on this machine, a folder."""
    if is_local(source):
        os.replace(source, target)
    else:
        _remote().rename([source], [target])


def delete_folder(path: str) -> None:
    """Removes a folder and what is in it; one that is not there is fine."""
    if is_local(path):
        shutil.rmtree(path, ignore_errors=True)
    elif find(path.rstrip("/") + "/**"):
        _remote().delete([path])
