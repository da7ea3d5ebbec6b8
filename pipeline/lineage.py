"""What a run's steps read and wrote, from ML Metadata."""

import dataclasses
import os

from ml_metadata import metadata_store
from ml_metadata.proto import metadata_store_pb2

from pipeline.run_record import RunRecord


@dataclasses.dataclass(frozen=True)
class ArtifactUse:
    """One artifact as an input or output of a step."""

    key: str
    id: int
    type: str
    uri: str


@dataclasses.dataclass(frozen=True)
class StepArtifacts:
    """One execution with its artifacts."""

    step: str
    inputs: list[ArtifactUse]
    outputs: list[ArtifactUse]


def of_run(record: RunRecord) -> list[StepArtifacts]:
    """The executions of one run, in the order in which they ran; empty where nothing was recorded."""
    path = os.path.join(record.root, "metadata", f"{record.workload}.sqlite")
    if not os.path.exists(path):
        return []
    config = metadata_store_pb2.ConnectionConfig()
    config.sqlite.filename_uri = path
    config.sqlite.connection_mode = metadata_store_pb2.SqliteMetadataSourceConfig.READONLY
    store = metadata_store.MetadataStore(config)
    context = store.get_context_by_type_and_name("pipeline_run", record.run_id)
    if context is None:
        return []
    executions = sorted(store.get_executions_by_context(context.id), key=lambda execution: execution.id)
    return [_artifacts_of(store, execution) for execution in executions]


def _artifacts_of(store, execution) -> StepArtifacts:
    contexts = store.get_contexts_by_execution(execution.id)
    node = next((context.name.rpartition(".")[2] for context in contexts if context.type == "node"), execution.type)
    events = store.get_events_by_execution_ids([execution.id])
    artifacts = {a.id: a for a in store.get_artifacts_by_id([event.artifact_id for event in events])}
    sides: dict[bool, list[ArtifactUse]] = {True: [], False: []}
    for event in events:
        artifact = artifacts[event.artifact_id]
        is_output = event.type in (metadata_store_pb2.Event.OUTPUT, metadata_store_pb2.Event.DECLARED_OUTPUT)
        sides[is_output].append(ArtifactUse(event.path.steps[0].key, artifact.id, artifact.type, artifact.uri))
    return StepArtifacts(node, inputs=sides[False], outputs=sides[True])
