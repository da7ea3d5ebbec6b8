"""Spans and versions as the stock driver has them, and a fingerprint of what the files contain."""
# mypy: disable-error-code="attr-defined,name-defined"
# TFX's generated protos have no annotations.

import hashlib
import os
from collections.abc import Iterable
from typing import Any

from absl import logging
from tfx.components.example_gen import driver, input_processor
from tfx.proto import example_gen_pb2, range_config_pb2

from components.example_gen import storage
from components.example_gen.config import IngestConfig
from components.example_gen.sources import find_sources


class ContentInputProcessor(input_processor.FileBasedInputProcessor):
    """Fingerprints bytes, not modification times: a touched or copied file is the same file, an edited one is not."""

    def __init__(self, *args: Any, schema_file: str = "") -> None:
        super().__init__(*args)
        self._schema_file = schema_file

    def get_input_fingerprint(self, span: int, version: int | None) -> str:
        """One line per split: file count, bytes, and a hash of names and contents."""
        lines = []
        for split in self._splits:
            pattern = self.get_pattern_for_span_version(split.pattern, span, version)
            files, _ = find_sources(
                {split.name: os.path.join(storage.escape(self._input_base_uri), pattern)}, IngestConfig()
            )
            digest = hashlib.sha256()
            for file in files:
                digest.update(f"{file.name}:{content_hash(file.path)}\n".encode())
            if self._schema_file:
                digest.update(content_hash(self._schema_file).encode())
            size = sum(file.size for file in files)
            lines.append(f"split:{split.name},num_files:{len(files)},total_bytes:{size},content:{digest.hexdigest()}")
        logging.info("Ingesting span %s, version %s of %s", span, version, self._input_base_uri)
        return "\n".join(lines)


class Driver(driver.FileBasedDriver):
    """The stock driver with another fingerprint."""

    def resolve_exec_properties(self, exec_properties: dict[str, Any], *args: Any) -> dict[str, Any]:
        """The stock properties: patterns without marks, span, version, fingerprint."""
        self._config = IngestConfig.from_json(exec_properties.get("ingest_config", ""))
        return super().resolve_exec_properties(exec_properties, *args)

    def get_input_processor(
        self,
        splits: Iterable[example_gen_pb2.Input.Split],
        range_config: range_config_pb2.RangeConfig | None = None,
        input_base_uri: str | None = None,
    ) -> input_processor.InputProcessor:
        """What resolves spans for these splits."""
        assert input_base_uri
        schema_file = self._config.schema_file
        return ContentInputProcessor(input_base_uri, splits, range_config, schema_file=schema_file)


def content_hash(path: str) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with storage.reading(path) as file:
        while piece := file.read(4 << 20):
            digest.update(piece)
    return digest.hexdigest()
