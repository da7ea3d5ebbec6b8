"""What ingestion read and what it made of it, for machines (report.json) and for people (report.html)."""

import dataclasses
import json
import os
import shutil
from typing import Any

from components.example_gen import report_page, storage
from components.example_gen.config import IngestConfig
from components.example_gen.features import FEATURE_KINDS
from components.example_gen.pieces import QUARANTINE
from components.example_gen.result import Result

QUARANTINE_FILE = "quarantine.jsonl"


def write(result: Result, folder: str, config: IngestConfig, **extra: Any) -> dict[str, Any]:
    """Leaves report.json and report.html in `folder`.

    Args:
      result: what ingestion did.
      folder: an existing or new folder.
      config: the options it ran with.
      **extra: more entries, such as span=3.

    Returns:
      The content of report.json.
    """
    content = {**summarize(result), **extra, "config": dataclasses.asdict(config)}
    storage.make_folder(folder)
    for name, text in (
        ("report.json", json.dumps(content, indent=1, ensure_ascii=False)),
        ("report.html", report_page.render(content)),
    ):
        with storage.writing(os.path.join(folder, name)) as file:
            file.write(text.encode())
    return content


def summarize(result: Result) -> dict[str, Any]:
    """The report as plain values."""
    rows = sum(result.rows.values())
    seconds = max(result.seconds, 1e-9)
    return {
        "rows": rows,
        "splits": result.rows,
        "columns": {name: FEATURE_KINDS[kind] for name, kind in result.kinds.items()},
        "bad_rows": sum(outcome.num_bad_rows for outcome in result.outcomes),
        "files": [source.shown for source in result.sources],
        "num_files": sum(len(source.members) or 1 for source in result.sources),
        "seconds": round(seconds, 3),
        "rows_per_second": round(rows / seconds),
        "input_bytes": sum(source.size for source in result.sources),
        "output_bytes": sum(shard.num_bytes for shard in result.shards),
        "skipped_files": [{"file": path, "why": why} for path, why in result.skipped],
        "warnings": [f"{f.column}: {f.text}" for f in result.findings if f.level == "warning"],
        "notes": [f"{f.column}: {f.text}" for f in result.findings if f.level == "note"],
        "column_details": {name: _column(result, name) for name in result.kinds},
        "bad_row_examples": _bad_rows(result),
        "shards": [shard._asdict() | {"path": shard.name, "pieces": None} for shard in result.shards],
        "chunks": len(result.outcomes),
        "converted_again": sum(outcome.again for outcome in result.outcomes),
        "stage_seconds": {name: round(value, 3) for name, value in result.stage_seconds.items()},
    }


def _column(result: Result, name: str) -> dict[str, Any]:
    seen = result.evidence[name]
    missing = seen.missing + seen.blanked + (seen.words if result.kinds[name] in ("int", "float") else 0)
    rows = sum(result.rows.values())
    return {
        "kind": FEATURE_KINDS[result.kinds[name]],
        "declared": result.declared.get(name, ""),
        "file_types": sorted(seen.types),
        # Files without the column, as JSON Lines may be, have no evidence of it.
        "missing": missing + (rows - seen.rows if seen.rows < rows else 0),
    }


def _bad_rows(result: Result) -> list[dict[str, Any]]:
    examples = [
        {"file": outcome.chunk.source.file_of(row.line), **row._asdict()}
        for outcome in result.outcomes
        for row in outcome.bad_rows
    ]
    return examples[:20]


def copy_quarantine(result: Result, folder: str) -> None:
    """Leaves the refused rows of all chunks in `folder`/quarantine.jsonl. Call it while staging is still there."""
    pieces = [piece for outcome in result.outcomes for piece in outcome.pieces if piece.split == QUARANTINE]
    if not pieces:
        return
    storage.make_folder(folder)
    with storage.writing(os.path.join(folder, QUARANTINE_FILE)) as target:
        for piece in sorted(pieces):
            with storage.reading(piece.path) as source:
                shutil.copyfileobj(source, target)
