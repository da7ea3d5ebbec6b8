"""A run that was interrupted goes on where it was when the same pipeline is run again.

TFX gives every execution a new folder for its model run and removes it when the execution fails, checkpoints
included. So training works in a folder of its own, named after everything that decides the result, and the folder
becomes the model run when training is done.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

_FOLDER = ".unfinished"


def identity(inputs: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """Names a training run by what it reads (URIs) and what it is told (execution properties)."""
    text = json.dumps([inputs, settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextlib.contextmanager
def working_dir(model_run_dir: str, name: str) -> Iterator[str]:
    """The folder to train in; afterwards its contents are at `model_run_dir`.

    It is kept when training was preempted, lost its workers for good, was killed or found no room on a disk, and
    removed after an error that would come again. A second process that wants the same folder meanwhile works in
    `model_run_dir` itself.

    Args:
      model_run_dir: URI of the ModelRun artifact.
      name: see `identity`; empty when nothing tells one code from the next, so that going on is not safe.
    """
    if not name or "://" in model_run_dir:
        yield model_run_dir
        return
    folder = pathlib.Path(model_run_dir).parent.parent / _FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        yield model_run_dir
        return
    try:
        yield str(folder)
        shutil.rmtree(model_run_dir, ignore_errors=True)  # TFX has made it, and nothing is in it
        folder.rename(model_run_dir)
    except Exception as error:
        if not getattr(error, "keeps_work", False):
            shutil.rmtree(folder)
        raise
    finally:
        os.close(descriptor)
