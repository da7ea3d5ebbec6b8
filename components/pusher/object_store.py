"""Versions on an object store, which has no rename: the manifest comes last, and a version without it is not there."""

import json
import pathlib
import posixpath

import fsspec

from components.pusher.content import Manifest, list_files
from components.pusher.errors import PushError

MANIFEST = "sluice-manifest.json"


def upload(folder: pathlib.Path, uri: str, manifest: Manifest) -> None:
    """Makes `uri` hold exactly the files of `folder`, then its manifest.

    Nothing serves `uri` yet, so what an interrupted upload left there is removed first. An upload that is complete,
    with the same content, is left alone. Raises PushError.
    """
    if is_complete(uri, manifest):
        return
    try:
        filesystem, path = fsspec.core.url_to_fs(uri)
        if filesystem.exists(path):
            filesystem.rm(path, recursive=True)
        for name in sorted(list_files(folder)):
            filesystem.put_file(str(folder / name), posixpath.join(path, name))
        sizes = {name: filesystem.size(posixpath.join(path, name)) for name in list_files(folder)}
        if sizes != list_files(folder):
            raise PushError(f"{uri}: the store does not hold what was uploaded; push again")
        filesystem.pipe_file(posixpath.join(path, MANIFEST), manifest.to_json().encode())
    except (OSError, ValueError, ImportError) as error:
        raise PushError(f"{uri}: cannot upload the model: {error}") from None


def is_complete(uri: str, manifest: Manifest) -> bool:
    """Whether `uri` holds a whole version with this content."""
    try:
        filesystem, path = fsspec.core.url_to_fs(uri)
        return json.loads(filesystem.cat_file(posixpath.join(path, MANIFEST))) == json.loads(manifest.to_json())
    except FileNotFoundError:
        return False
    except (OSError, ValueError, ImportError) as error:
        raise PushError(f"{uri}: cannot read the object store: {error}") from None


def versions(uri: str) -> set[int]:
    """The version folders under `uri`."""
    try:
        filesystem, path = fsspec.core.url_to_fs(uri)
        filesystem.invalidate_cache()
        names = [posixpath.basename(name.rstrip("/")) for name in filesystem.ls(path, detail=False)]
        return {int(name) for name in names if name.isdigit()}
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, ImportError) as error:
        raise PushError(f"{uri}: cannot list the object store: {error}") from None


def remove(uri: str) -> None:
    """Deletes a version that nothing serves any more."""
    try:
        filesystem, path = fsspec.core.url_to_fs(uri)
        if filesystem.exists(path):
            filesystem.rm(path, recursive=True)
    except (OSError, ValueError, ImportError) as error:
        raise PushError(f"{uri}: cannot delete from the object store: {error}") from None
