"""Settings of the training engine, refused when the pipeline is built instead of by the Trainer, hours later."""

import importlib
from collections.abc import Mapping
from typing import Any

from pipeline.fingerprint import source_files

_CONFIG = "modules.training.config.TrainingConfig"


def check(run_fn: str, settings: Mapping[str, Any], where: str) -> None:
    """Refuses what the engine would refuse, if it is the engine that `run_fn` trains with.

    What another run_fn makes of its settings, it alone knows.

    Args:
      run_fn: dotted path.
      settings: what reaches it as custom_config["training"].
      where: what to call them in messages.

    Raises:
      TrainingConfigError: of the engine, with exit code 2: names the setting and what is allowed.
    """
    module, _, name = _CONFIG.rpartition(".")
    if set(source_files(module)) <= set(source_files(run_fn)):
        getattr(importlib.import_module(module), name).from_dict(settings, where)
