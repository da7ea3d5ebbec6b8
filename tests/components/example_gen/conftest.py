"""Ingests folders in this process and reads back what was written."""

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from components.example_gen import report
from components.example_gen.config import IngestConfig
from components.example_gen.ingest import ingest


class Ingested:
    """What an ingestion wrote and reported."""

    def __init__(self, output: pathlib.Path, content: dict[str, Any]) -> None:
        self.output = output
        self.report = content

    def records(self, split: str = "*") -> list[bytes]:
        """Serialized examples of a split, or of all."""
        import tensorflow as tf

        files = sorted(str(path) for path in self.output.glob(f"Split-{split}/*"))
        kind = "GZIP" if files[0].endswith(".gz") else ""
        return list(tf.data.TFRecordDataset(files, compression_type=kind).as_numpy_iterator())

    def rows(self, split: str = "*") -> list[dict[str, Any]]:
        """Rows as {name: (kind, values)}; kind is None for a feature without one."""
        import tensorflow as tf

        return [_plain(tf.train.Example.FromString(record)) for record in self.records(split)]

    def column(self, name: str, split: str = "*") -> list[Any]:
        """The values of a column; None where missing, a list where there are several."""
        values = [row[name][1] for row in self.rows(split)]
        return [None if not value else value[0] if len(value) == 1 else value for value in values]


def _plain(example: Any) -> dict[str, Any]:
    row = {}
    for name, feature in example.features.feature.items():
        kind = feature.WhichOneof("kind")
        row[name] = (kind, list(getattr(feature, kind).value) if kind else [])
    return row


@pytest.fixture
def ingest_files(tmp_path: pathlib.Path) -> Callable[..., Ingested]:
    """ingest_files({name: content}, **options) -> Ingested. Content is text, bytes, or a function of the path."""
    count = 0

    def run(files: Mapping[str, Any], **options: Any) -> Ingested:
        nonlocal count
        count += 1
        folder = tmp_path / f"in{count}"
        folder.mkdir()
        for name, content in files.items():
            path = folder / name
            if callable(content):
                content(path)
            else:
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
        output = tmp_path / f"out{count}"
        config = IngestConfig.from_dict({"workers": 1, **options}, "test")
        patterns = {"": str(folder)}
        if config.split.by == "files":
            patterns = {name: f"{folder}/{glob}" for name, glob in config.split.files.items()}
        written: list[dict[str, Any]] = []
        ingest(
            patterns,
            str(output),
            config,
            before_commit=lambda result, whole: (
                report.copy_quarantine(result, whole),
                written.append(report.write(result, whole, config)),
            ),
        )
        return Ingested(output, written[0])

    return run
