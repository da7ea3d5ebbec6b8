"""Folders of files that appear whole or not at all, and once: on a file system and on an object store.

On a file system a folder is prepared beside its place and appears by one rename, which fails where a folder is already.
On an object store, which has no rename, a claim object is created first, on the condition that there is none; then come
the files, and the marker last: a folder without its marker does not exist for readers.
"""

import contextlib
import os
import pathlib
import posixpath
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping

import fsspec
from fsspec.implementations.local import LocalFileSystem

from components.pusher.content import copy_verified, fsync_path

Content = bytes | pathlib.Path
"""The bytes of a file, or a local folder to copy."""


class TakenError(Exception):
    """Somebody else published that folder first."""


class StoreError(RuntimeError):
    """The store cannot be used: no such protocol, no right to write, no space, no network."""

    exit_code = 1


class Store:
    """A root folder or URL (fsspec) with the operations that the registry needs."""

    def __init__(self, root: str) -> None:
        self.root = root
        with self._explained("open"):
            self._fs, self._path = fsspec.core.url_to_fs(root)
        self._is_local = isinstance(self._fs, LocalFileSystem)

    def uri(self, path: str) -> str:
        """The full path (local) or URL of `path`."""
        return posixpath.join(self._path, path) if self._is_local else posixpath.join(self.root.rstrip("/"), path)

    def folders(self, path: str) -> list[str]:
        """Names of the folders and objects directly under `path`; [] where there is no such folder."""
        full = posixpath.join(self._path, path)
        self._fs.invalidate_cache()
        if not self._fs.exists(full):
            return []
        names = [posixpath.basename(entry.rstrip("/")) for entry in self._fs.ls(full, detail=False)]
        return sorted(name for name in names if not name.startswith("."))

    def read(self, path: str) -> bytes | None:
        """The file's bytes, None where there is none."""
        try:
            return self._fs.cat_file(posixpath.join(self._path, path))
        except FileNotFoundError:
            return None

    def publish(self, path: str, contents: Mapping[str, Content], marker: str) -> None:
        """Makes the folder `path` appear with `contents`; `marker` is the one whose presence makes it exist.

        Raises TakenError where `path` is taken.
        """
        with self._explained(f"write {path}"):
            if self._is_local:
                self._publish_by_rename(path, contents)
            else:
                self._publish_by_marker(path, contents, marker)

    def delete(self, path: str, marker: str) -> None:
        """Removes a folder: for readers at once, its marker first."""
        full = posixpath.join(self._path, path)
        if self._fs.exists(posixpath.join(full, marker)):
            self._fs.rm(posixpath.join(full, marker))
        if self._fs.exists(full):
            self._fs.rm(full, recursive=True)

    def sweep(self, path: str, older_than_s: float) -> None:
        """Removes what crashed publishers left under `path`, once it is older than any publisher takes."""
        if not self._is_local:
            return  # an unmarked folder of an object store takes a version number and a little space
        for left in pathlib.Path(self._path, path).glob(".*.partial"):
            if left.stat().st_mtime < time.time() - older_than_s:
                shutil.rmtree(left)

    def download(self, path: str, target: pathlib.Path) -> None:
        """Copies the folder `path` to the local folder `target`, which must not exist."""
        if target.exists():
            raise FileExistsError(f"{target} exists already")
        partial = target.with_name(f".{target.name}-{uuid.uuid4().hex[:8]}.partial")
        try:
            partial.mkdir(parents=True)
            if self._is_local:
                copy_verified(pathlib.Path(self._path, path), partial)
            else:
                self._fs.get(posixpath.join(self._path, path) + "/", f"{partial}/", recursive=True)
            os.rename(partial, target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    @contextlib.contextmanager
    def _explained(self, action: str) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, ImportError) as error:
            raise StoreError(f"{self.root}: cannot {action}: {error}") from error

    def _publish_by_rename(self, path: str, contents: Mapping[str, Content]) -> None:
        target = pathlib.Path(self._path, path)
        partial = target.with_name(f".{target.name}-{uuid.uuid4().hex[:8]}.partial")
        try:
            partial.mkdir(parents=True)
            for name, content in contents.items():
                place = partial / name
                if isinstance(content, pathlib.Path):
                    place.mkdir(parents=True)
                    copy_verified(content, place)
                else:
                    place.write_bytes(content)
                    fsync_path(place)
            fsync_path(partial)
            if target.exists():
                raise TakenError(path)
            try:
                os.rename(partial, target)
            except OSError as error:  # ENOTEMPTY or EEXIST, by file system
                if target.exists():
                    raise TakenError(path) from None
                raise error
            fsync_path(target.parent)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _publish_by_marker(self, path: str, contents: Mapping[str, Content], marker: str) -> None:
        full = posixpath.join(self._path, path)
        if len(contents) > 1:
            self._create(posixpath.join(full, "CLAIM"), b"")
        for name, content in contents.items():
            if isinstance(content, pathlib.Path):
                self._fs.put(f"{content}/", posixpath.join(full, name) + "/", recursive=True)
            elif name != marker:
                self._fs.pipe_file(posixpath.join(full, name), content)
        last = contents[marker]
        assert isinstance(last, bytes)
        self._create(posixpath.join(full, marker), last)

    def _create(self, full: str, content: bytes) -> None:
        """Writes an object on the condition that there is none: S3, GCS and Azure all know this condition."""
        try:
            self._fs.pipe_file(full, content, mode="create")
        except OSError as error:
            # AWS says "exists"; other S3 stores only that a precondition failed. What counts is whether it is there.
            self._fs.invalidate_cache()
            if isinstance(error, FileExistsError) or self._fs.exists(full):
                raise TakenError(full) from None
            raise
