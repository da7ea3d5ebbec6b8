"""A model is in the Model artifact whole or not at all: exports are staged, and moved when all tasks are done."""

import os

from components.trainer.training_spec import STAGING_DIR, TrainingSpec


def clear_staging(spec: TrainingSpec) -> None:
    """Removes what an earlier attempt, or a task that is not the chief, has exported."""
    from tfx.dsl.io import fileio

    staging = os.path.join(spec.model_dir, STAGING_DIR)
    if fileio.exists(staging):
        fileio.rmtree(staging)


def publish(spec: TrainingSpec) -> None:
    """Moves the chief's exports to where TFX expects them and removes the other tasks'."""
    from tfx.dsl.io import fileio

    staging = spec.staging_dir("chief")
    # The serving model comes last: where it exists, the rest does too.
    for destination in (spec.fn_args["eval_model_dir"], spec.fn_args["serving_model_dir"]):
        source = os.path.join(staging, os.path.basename(destination))
        if fileio.exists(source):
            if fileio.exists(destination):
                fileio.rmtree(destination)
            fileio.rename(source, destination)
    clear_staging(spec)
