"""What ingestion read and what it made of it, for machines and for people."""

import json
import os
from typing import Any

from components.example_gen import storage
from components.example_gen.config import IngestConfig
from components.example_gen.features import FEATURE_KINDS
from components.example_gen.ingest import Result


def write(result: Result, folder: str, config: IngestConfig, **extra: Any) -> dict[str, Any]:
    """Leaves report.json in `folder` and returns its content."""
    content = {**summarize(result, config), **extra}
    storage.make_folder(folder)
    with storage.writing(os.path.join(folder, "report.json")) as file:
        file.write(json.dumps(content, indent=1, ensure_ascii=False).encode())
    return content


def summarize(result: Result, config: IngestConfig) -> dict[str, Any]:
    """The report as plain values."""
    seconds = result.seconds
    kinds = {name: _kind(result, name) for name in result.columns}
    return {
        "rows": sum(result.rows.values()),
        "splits": result.rows,
        "columns": {name: FEATURE_KINDS[kind] for name, kind in kinds.items()},
        "bad_rows": sum(outcome.num_bad_rows for outcome in result.outcomes),
        "files": [source.path for source in result.sources],
        "seconds": round(seconds, 3),
    }


def _kind(result: Result, name: str) -> str:
    return next((o.kinds[name] for o in result.outcomes if name in o.kinds), "none")
