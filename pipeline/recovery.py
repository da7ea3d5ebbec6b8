"""Before a run: makes ML Metadata agree with the disk, whatever happened to earlier runs."""

import contextlib
import fcntl
import os
import pathlib
import shutil
from collections.abc import Iterator

from ml_metadata.proto import metadata_store_pb2
from tfx.orchestration import metadata

from pipeline import run_record


@contextlib.contextmanager
def exclusive(root: str, name: str, say) -> Iterator[None]:
    """Holds the lock of one workload under `root`; a second run waits for the first, and says for whom.

    The kernel drops the lock when its holder dies, so that a killed run never blocks the next one.
    """
    path = run_record.lock_path(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            say(f"another run of `{name}` (process {file.read().strip() or '?'}) uses {root}: waiting for it to end")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def reconcile(connection, pipeline_root: str) -> list[str]:
    """Closes what killed runs left open and forgets artifacts that are no longer there.

    - An execution still NEW or RUNNING belongs to a run that was killed (the caller holds the workload's lock): it is
      marked FAILED and what it had begun to write is removed. It was never published, so no run took it for whole.
    - An artifact whose files are gone is marked DELETED, so that neither the cache nor a resolver returns it.
    - So is a pushed model that is not what its serving folder now serves: the Pusher has to push again.

    Args:
      connection: an ML Metadata ConnectionConfig.
      pipeline_root: the folder of the pipeline's artifacts.

    Returns:
      One line per thing that was put right.
    """
    with metadata.Metadata(connection) as handle:
        return [
            *_close_executions(handle.store, pathlib.Path(pipeline_root)),
            *_forget_missing_artifacts(handle.store),
        ]


def _close_executions(store, pipeline_root: pathlib.Path) -> Iterator[str]:
    states = metadata_store_pb2.Execution
    types = {kind.id: kind.name for kind in store.get_execution_types()}
    abandoned = [e for e in store.get_executions() if e.last_known_state in (states.NEW, states.RUNNING)]
    for execution in abandoned:
        execution.last_known_state = states.FAILED
        for folder in _folders_of(pipeline_root, execution.id):
            shutil.rmtree(folder)
        yield f"{types[execution.type_id].rpartition('.')[2]} was cut off in an earlier run: its leftovers are removed"
    if abandoned:
        store.put_executions(abandoned)


def _folders_of(pipeline_root: pathlib.Path, execution_id: int) -> list[pathlib.Path]:
    """TFX writes below <root>/<node>/<output key>/<execution id> and <root>/<node>/.system/<kind>/<execution id>."""
    patterns = (f"*/*/{execution_id}", f"*/.system/*/{execution_id}")
    return [path for pattern in patterns for path in pipeline_root.glob(pattern) if path.is_dir()]


def _forget_missing_artifacts(store) -> Iterator[str]:
    live = metadata_store_pb2.Artifact.LIVE
    gone = [a for a in store.get_artifacts() if a.state == live and (_is_missing(a.uri) or _is_not_served(a))]
    for artifact in gone:
        artifact.state = metadata_store_pb2.Artifact.DELETED
        yield f"{artifact.type} {artifact.id} is no longer in place ({artifact.uri})"
    if gone:
        store.put_artifacts(gone)


def _is_missing(uri: str) -> bool:
    return bool(uri) and "://" not in uri and not os.path.exists(uri)


def _is_not_served(artifact: metadata_store_pb2.Artifact) -> bool:
    destination = (
        artifact.custom_properties["pushed_destination"].string_value if artifact.type == "PushedModel" else ""
    )
    if not destination or "://" in destination:
        return False
    base = pathlib.Path(destination).parent
    versions = [int(path.name) for path in base.glob("[0-9]*") if path.name.isdigit()]
    return not versions or pathlib.Path(destination).name != str(max(versions))
