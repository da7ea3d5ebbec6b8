"""The Prepare step's work: artifacts to folders, the function, and a check of what it left."""

import importlib
import os
from typing import Any

from tfx import types
from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_executor
from tfx.dsl.io import fileio
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils
from tfx.utils import io_utils, json_utils

from components.prepare.errors import PrepareError
from components.prepare.prepare_args import ASSETS, PrepareArgs


class Executor(base_executor.BaseExecutor):
    """Calls the prepare function."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See `PrepareSpec` for the keys of the three.

        Raises:
          PrepareError: the function left a split without records.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        source = artifact_utils.get_single_instance(input_dict["examples"])
        output = artifact_utils.get_single_instance(output_dict["prepared_examples"])
        splits = artifact_utils.decode_split_names(source.split_names)
        output.split_names = source.split_names
        args = PrepareArgs(
            examples={split: _files(artifact_utils.get_split_uri([source], split)) for split in splits},
            schema_path=_schema_path(input_dict.get("schema", [])),
            output_dirs={split: artifact_utils.get_split_uri([output], split) for split in splits},
            assets_dir=os.path.join(output.uri, ASSETS),
            settings=json_utils.loads(exec_properties["settings"]),
        )
        for folder in (*args.output_dirs.values(), args.assets_dir):
            fileio.makedirs(folder)
        _function(exec_properties["prepare_fn"])(args)
        for split, folder in args.output_dirs.items():
            if not _files(folder):
                raise PrepareError(f"{exec_properties['prepare_fn']} wrote no file for the split {split!r}")
        examples_utils.set_payload_format(output, example_gen_pb2.FORMAT_TF_EXAMPLE)
        examples_utils.set_file_format(output, "tfrecords_gzip")


def _files(folder: str) -> tuple[str, ...]:
    return tuple(sorted(str(path) for path in fileio.glob(os.path.join(folder, "*"))))


def _schema_path(artifacts: list[types.Artifact]) -> str | None:
    return io_utils.get_only_uri_in_dir(artifacts[0].uri) if artifacts else None


def _function(dotted: str) -> Any:
    module, _, name = dotted.rpartition(".")
    return getattr(importlib.import_module(module), name)
