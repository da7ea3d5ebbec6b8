"""Compares a model's files with the record that the Trainer made of them when it published the export."""

import json
import pathlib
from collections.abc import Mapping

from components import file_record
from components.pusher.content import FileContent, Manifest
from components.pusher.errors import PushError
from components.pusher.golden import WARMUP_PATH

_WHAT_TO_DO = (
    "take the model from the run that trained it or from the registry again; "
    f"after a change made on purpose, delete {file_record.PATH} and push again"
)


def check(model: pathlib.Path, manifest: Manifest) -> None:
    """Refuses a model whose files are not those that the Trainer published; one without a record passes.

    Args:
      model: the model's folder, for messages and the record.
      manifest: of the files as they are now.

    Raises:
      PushError: the first file, in order of paths, that differs, is missing or is extra; or the record is unreadable.
    """
    if file_record.PATH not in manifest.files:
        return
    recorded = _read(model)
    # Warm-up requests are written after the export, by a push or by InfraValidator.
    ignored = {file_record.PATH, WARMUP_PATH} - recorded.keys()
    found = {path: content for path, content in manifest.files.items() if path not in ignored}
    for path in sorted(recorded.keys() | found.keys()):
        if difference := _difference(recorded.get(path), found.get(path)):
            raise PushError(f"{model / path} {difference}: {_WHAT_TO_DO}")


def _difference(recorded: FileContent | None, found: FileContent | None) -> str:
    if recorded == found:
        return ""
    if found is None:
        return "is missing, and the Trainer exported it"
    if recorded is None:
        return "is extra: the Trainer exported no such file"
    if recorded.size != found.size:
        return f"differs from the file that the Trainer exported ({found.size} bytes, {recorded.size} then)"
    return (
        f"differs from the file that the Trainer exported "
        f"(sha256 {found.sha256[:12]}..., {recorded.sha256[:12]}... then)"
    )


def _read(model: pathlib.Path) -> Mapping[str, FileContent]:
    path = model / file_record.PATH
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))
        return {name: FileContent(int(value["size"]), str(value["sha256"])) for name, value in recorded.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PushError(f"{path} cannot be read ({error!r}): {_WHAT_TO_DO}") from None
