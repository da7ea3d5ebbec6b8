"""Which artifacts no kept run needs, and their removal."""

import dataclasses
import os
import pathlib
import shutil

from ml_metadata import metadata_store
from ml_metadata.proto import metadata_store_pb2

from pipeline import run_record


@dataclasses.dataclass
class Cleaned:
    """What was (or would be) removed."""

    runs: list[str] = dataclasses.field(default_factory=list)
    artifacts: list[str] = dataclasses.field(default_factory=list)
    num_bytes: int = 0

    def __add__(self, other: "Cleaned") -> "Cleaned":
        return Cleaned(self.runs + other.runs, self.artifacts + other.artifacts, self.num_bytes + other.num_bytes)


def clean(root: str, workload: str, *, keep: int, dry_run: bool = False) -> Cleaned:
    """Removes all but the newest `keep` runs and the last blessed one, and the artifacts that nothing kept refers to.

    Kept are the artifacts that kept runs read or wrote and all blessed models (a later candidate may be compared with
    them). The serving folder and the registry hold copies of their own and are never looked at.

    Args:
      root: the folder that everything is written to; the caller holds the workload's lock.
      workload: its name.
      keep: 1 or more.
      dry_run: say, do not do.
    """
    records = run_record.load_all(root, workload)
    kept = records[:keep]
    if not any(record.verdict == "blessed" for record in kept):
        # What the next run is compared with, data and model: the last run whose model was blessed.
        kept += [record for record in records[keep:] if record.verdict == "blessed"][:1]
    old = [record for record in records if record not in kept]
    cleaned = Cleaned(runs=[record.run_id for record in old])
    path = os.path.join(root, "metadata", f"{workload}.sqlite")
    if os.path.exists(path):
        store = _open(path)
        for artifact in _unneeded(store, {record.run_id for record in kept}, os.path.join(root, "pipelines")):
            cleaned.artifacts.append(artifact.uri)
            cleaned.num_bytes += _num_bytes(artifact.uri)
            if not dry_run:
                # First forgotten, then removed: a kill in between leaves files nobody takes for an artifact.
                artifact.state = metadata_store_pb2.Artifact.DELETED
                store.put_artifacts([artifact])
                shutil.rmtree(artifact.uri)
    if not dry_run:
        for record in old:
            shutil.rmtree(record.path.parent)
    return cleaned


def _open(path: str) -> metadata_store.MetadataStore:
    config = metadata_store_pb2.ConnectionConfig()
    config.sqlite.filename_uri = path
    config.sqlite.connection_mode = metadata_store_pb2.SqliteMetadataSourceConfig.READWRITE
    return metadata_store.MetadataStore(config)


def _unneeded(store, kept_runs: set[str], pipelines: str) -> list[metadata_store_pb2.Artifact]:
    needed = _used_by(store, kept_runs) | _blessed(store)
    return [
        artifact
        for artifact in store.get_artifacts()
        if artifact.state == metadata_store_pb2.Artifact.LIVE
        and artifact.id not in needed
        and pathlib.Path(artifact.uri).is_relative_to(pipelines)
        and os.path.isdir(artifact.uri)
    ]


def _used_by(store, run_ids: set[str]) -> set[int]:
    used: set[int] = set()
    for context in store.get_contexts_by_type("pipeline_run"):
        if context.name in run_ids:
            executions = [execution.id for execution in store.get_executions_by_context(context.id)]
            used.update(event.artifact_id for event in store.get_events_by_execution_ids(executions))
    return used


def _blessed(store) -> set[int]:
    blessings = [a for a in store.get_artifacts_by_type("ModelBlessing") if a.custom_properties["blessed"].int_value]
    return {a.id for a in blessings} | {a.custom_properties["current_model_id"].int_value for a in blessings}


def _num_bytes(folder: str) -> int:
    return sum(file.stat().st_size for file in pathlib.Path(folder).rglob("*") if file.is_file())
