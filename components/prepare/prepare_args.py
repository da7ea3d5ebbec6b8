"""What a prepare function is called with."""

import dataclasses
from collections.abc import Mapping
from typing import Any

ASSETS = "assets"
"""The folder beside the Split-* folders in which a function leaves what belongs to its records: a vocabulary, say."""


@dataclasses.dataclass(frozen=True)
class PrepareArgs:
    """Where a prepare function reads and writes.

    Attributes:
      examples: split to its files, TFRecords (GZIP) of serialized tf.Examples.
      schema_path: schema.pbtxt of these examples, or None.
      output_dirs: split to the empty folder for its records, TFRecords (GZIP) of serialized tf.Examples too. At least
        one file must be in each in the end.
      assets_dir: an empty folder for anything else. It travels with the records: a run_fn finds it beside them.
      settings: `prepare.settings` of workload.yaml.
    """

    examples: Mapping[str, tuple[str, ...]]
    schema_path: str | None
    output_dirs: Mapping[str, str]
    assets_dir: str
    settings: Mapping[str, Any]
