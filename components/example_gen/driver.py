"""Spans and versions as the stock driver has them, and a fingerprint of what the files contain."""
# mypy: disable-error-code="attr-defined,name-defined"
# TFX's generated protos have no annotations.

import hashlib
import os
from collections.abc import Iterable, Iterator
from typing import Any

from absl import logging
from tfx.components.example_gen import driver, input_processor
from tfx.proto import example_gen_pb2, range_config_pb2

from components.example_gen import readers, storage
from components.example_gen.config import IngestConfig
from components.example_gen.sources import Source, find_sources, label_file


class ContentInputProcessor(input_processor.FileBasedInputProcessor):
    """Fingerprints bytes, not modification times: a touched or copied file is the same file, an edited one is not."""

    def __init__(self, *args: Any, config: IngestConfig) -> None:
        super().__init__(*args)
        self._config = config

    def get_input_fingerprint(self, span: int, version: int | None) -> str:
        """One line per split: file count, bytes, and a hash of names and contents."""
        lines = []
        for split in self._splits:
            pattern = self.get_pattern_for_span_version(split.pattern, span, version)
            sources, _ = find_sources(
                {split.name: os.path.join(storage.escape(self._input_base_uri), pattern)}, self._config
            )
            digest = hashlib.sha256()
            num_files = 0
            for name, path in self._files(sources):
                digest.update(f"{name}:{content_hash(path)}\n".encode())
                num_files += 1
            if self._config.schema_file:
                digest.update(content_hash(self._config.schema_file).encode())
            size = sum(source.size for source in sources)
            lines.append(f"split:{split.name},num_files:{num_files},total_bytes:{size},content:{digest.hexdigest()}")
        logging.info("Ingesting span %s, version %s of %s", span, version, self._input_base_uri)
        return "\n".join(lines)

    def _files(self, sources: list[Source]) -> Iterator[tuple[str, str]]:
        """(name, path) of every file that decides what the rows are."""
        for source in sources:
            for line, path in enumerate(source.all_paths(), start=1):
                yield source.file_of(line), path
            if source.path.endswith(".npy") and storage.find(storage.escape(label_file(source.path))):
                yield os.path.basename(label_file(source.path)), label_file(source.path)
            for path in readers.named_files(source, self._config):
                if storage.find(storage.escape(path)):
                    yield path, path


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
        return ContentInputProcessor(input_base_uri, splits, range_config, config=self._config)


def content_hash(path: str) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with storage.reading(path) as file:
        while piece := file.read(4 << 20):
            digest.update(piece)
    return digest.hexdigest()
