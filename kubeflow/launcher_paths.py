"""Where Kubeflow's launcher puts artifacts inside a step's container, and back.

Before a step starts, the launcher copies every input from object storage to a folder of the container, and after it
has ended, every output from one: minio://bucket/key is /minio/bucket/key, and likewise for s3 and gs. TensorFlow 2.21
has no file system for minio:// and s3://, so steps work on these folders.
"""

import os
from collections.abc import Iterable, Mapping

_FOLDERS = {"gs://": "gcs", "s3://": "s3", "minio://": "minio"}


def local_path(uri: str, custom_path: str | None = None) -> str:
    """The container's folder of an artifact; `uri` itself where the launcher knows no folder for its scheme.

    The folders lie at the root of the container. The variable SLUICE_LAUNCHER_ROOT names another place, for a launcher
    that runs outside a container.
    """
    if custom_path:
        return custom_path
    for scheme, folder in _FOLDERS.items():
        if uri.startswith(scheme):
            return os.path.join(os.environ.get("SLUICE_LAUNCHER_ROOT", "/"), folder, uri.removeprefix(scheme))
    return uri


def with_uris(value: object, uris: Mapping[str, str]) -> object:
    """`value` with every local path in its texts replaced by the URI that the next step can use.

    Args:
      value: text, number, list or mapping, as artifact properties hold them.
      uris: local path to URI, of the step's inputs and outputs.
    """
    if isinstance(value, str):
        for path in sorted(uris, key=len, reverse=True):
            value = value.replace(path, uris[path])
        return value
    if isinstance(value, list):
        return [with_uris(item, uris) for item in value]
    if isinstance(value, dict):
        return {key: with_uris(item, uris) for key, item in value.items()}
    return value


def has_files(path: str) -> bool:
    """Whether there is a file at or below `path`; object storage has no empty folders."""
    return os.path.isfile(path) or any(files for _, _, files in os.walk(path))


def prepare_folders(paths: Iterable[str]) -> None:
    """Creates the parent of each path."""
    for path in paths:
        os.makedirs(os.path.dirname(path), exist_ok=True)
