"""A model is in the Model artifact whole or not at all: exports are staged, and moved when all tasks are done."""

import os
import shutil

from components import file_record
from components.trainer.training_spec import STAGING_DIR, TrainingSpec


def exists(uri: str) -> bool:
    """Whether a file or folder is there. Local paths need no import of TFX, which takes seconds."""
    return _fileio().exists(uri) if "://" in uri else os.path.exists(uri)


def clear_staging(spec: TrainingSpec) -> None:
    """Removes what an earlier attempt, or a task that is not the chief, has exported."""
    remove(os.path.join(spec.model_dir, STAGING_DIR))


def publish(spec: TrainingSpec) -> None:
    """Moves the chief's exports to where TFX expects them and removes the other tasks'.

    The serving model gets its record of files first, whoever has exported it: a push compares with it.
    """
    staging = spec.staging_dir("chief")
    serving_model_dir = spec.fn_args["serving_model_dir"]
    # The serving model comes last: where it exists, the rest does too.
    for destination in (spec.fn_args["eval_model_dir"], serving_model_dir):
        source = os.path.join(staging, os.path.basename(destination))
        if exists(source):
            if destination == serving_model_dir:
                file_record.write(source)
            remove(destination)
            _rename(source, destination)
    clear_staging(spec)


def remove(uri: str) -> None:
    """Removes a folder, if it is there."""
    if exists(uri):
        _fileio().rmtree(uri) if "://" in uri else shutil.rmtree(uri)


def _rename(source: str, destination: str) -> None:
    _fileio().rename(source, destination) if "://" in source else os.rename(source, destination)


def _fileio():
    from tfx.dsl.io import fileio

    return fileio
