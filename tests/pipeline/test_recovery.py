"""What killed runs left behind is closed, removed and forgotten; whole artifacts are left alone."""

import os
import subprocess
import sys

import pytest
from ml_metadata.proto import metadata_store_pb2
from tfx.orchestration import metadata

from pipeline import cleaning, recovery, run_record, session
from pipeline.config import make_config
from pipeline.errors import ConfigError

LIVE, DELETED = metadata_store_pb2.Artifact.LIVE, metadata_store_pb2.Artifact.DELETED


@pytest.fixture
def connection(tmp_path):
    (tmp_path / "metadata").mkdir()
    return metadata.sqlite_metadata_connection_config(str(tmp_path / "metadata" / "w.sqlite"))


@pytest.fixture
def store(connection):
    with metadata.Metadata(connection) as handle:
        yield handle.store


def _artifact(store, kind: str, uri: str, **properties: str) -> int:
    type_id = store.put_artifact_type(metadata_store_pb2.ArtifactType(name=kind))
    artifact = metadata_store_pb2.Artifact(type_id=type_id, uri=uri, state=LIVE)
    for name, value in properties.items():
        artifact.custom_properties[name].string_value = value
    return store.put_artifacts([artifact])[0]


def _execution(store, state: int) -> int:
    type_id = store.put_execution_type(metadata_store_pb2.ExecutionType(name="a.b.Trainer"))
    execution = metadata_store_pb2.Execution(type_id=type_id, last_known_state=state)
    return store.put_executions([execution])[0]


def _state(store, artifact_id: int) -> int:
    return store.get_artifacts_by_id([artifact_id])[0].state


def test_a_cut_off_execution_is_closed_and_its_leftovers_removed(tmp_path, connection, store):
    states = metadata_store_pb2.Execution
    running, complete = _execution(store, states.RUNNING), _execution(store, states.COMPLETE)
    folders = {}
    for execution in (running, complete):
        for place in (f"Trainer/model/{execution}", f"Trainer/.system/executor_execution/{execution}"):
            folders[place] = tmp_path / "pipelines" / place
            (folders[place] / "inside").mkdir(parents=True)
    lines = recovery.reconcile(connection, str(tmp_path / "pipelines"))
    assert lines == ["Trainer was cut off in an earlier run: its leftovers are removed"]
    assert [place for place, folder in folders.items() if folder.exists()] == [
        f"Trainer/model/{complete}",
        f"Trainer/.system/executor_execution/{complete}",
    ]
    by_id = {e.id: e.last_known_state for e in store.get_executions()}
    assert by_id == {running: states.FAILED, complete: states.COMPLETE}
    assert recovery.reconcile(connection, str(tmp_path / "pipelines")) == []


def test_an_artifact_whose_files_are_gone_is_forgotten(tmp_path, connection, store):
    there = tmp_path / "there"
    there.mkdir()
    kept, remote = _artifact(store, "Model", str(there)), _artifact(store, "Model", "s3://bucket/model")
    gone = _artifact(store, "Model", str(tmp_path / "gone"))
    recovery.reconcile(connection, str(tmp_path))
    assert [_state(store, artifact) for artifact in (kept, remote, gone)] == [LIVE, LIVE, DELETED]


@pytest.mark.parametrize(
    ("on_disk", "state"), [(["7"], LIVE), (["7", "8"], DELETED), ([], DELETED), (["7", "8.staging"], LIVE)]
)
def test_a_pushed_model_counts_only_while_it_is_what_serves(tmp_path, connection, store, on_disk, state):
    for name in on_disk:
        (tmp_path / "serving" / name).mkdir(parents=True)
    pushed = _artifact(store, "PushedModel", str(tmp_path), pushed_destination=str(tmp_path / "serving" / "7"))
    recovery.reconcile(connection, str(tmp_path))
    assert _state(store, pushed) == state


def test_the_second_run_waits_for_the_first_and_says_so(tmp_path):
    code = (
        "import sys\nfrom pipeline import recovery\n"
        f"with recovery.exclusive({str(tmp_path)!r}, 'w', lambda line: print(line, flush=True)):\n"
        "    print('holding', flush=True)\n    sys.stdin.read()\n"
    )
    first = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert first.stdout.readline() == "holding\n"
    second = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert f"process {first.pid}" in second.stdout.readline()
    first.kill()  # the kernel drops a dead process's lock
    first.wait()
    assert second.stdout.readline() == "holding\n"
    second.communicate("")
    assert second.returncode == 0


def test_records_survive_and_dead_runs_count_as_interrupted(tmp_path):
    record = run_record.start("w", str(tmp_path), "data", ["A", "B"])
    record.step("A").state = "ran"
    record.save()
    (loaded,) = run_record.load_all(str(tmp_path))
    assert loaded == record
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    child.wait()
    record.pid = child.pid
    record.save()
    assert run_record.load_all(str(tmp_path))[0].state == "interrupted"
    assert run_record.find(str(tmp_path), record.run_id[-7:]).run_id == record.run_id


def test_runs_of_one_millisecond_have_names_of_their_own(tmp_path):
    names = [run_record.start("w", str(tmp_path), "data", []).run_id for _ in range(20)]
    assert sorted(set(names)) == names


def test_a_run_is_running_only_while_its_process_holds_the_lock(tmp_path):
    record = run_record.start("w", str(tmp_path), "data", ["A"])
    other = run_record.start("w", str(tmp_path), "data", ["A"])
    other.pid = os.getppid()  # alive, and never held the lock
    other.save()
    with recovery.exclusive(str(tmp_path), "w", print):
        states = {found.run_id: found.state for found in run_record.load_all(str(tmp_path))}
        assert states == {record.run_id: "running", other.run_id: "interrupted"}
    # As after a kill: the number is still taken, by a process nobody waited for or by a new one.
    assert {found.state for found in run_record.load_all(str(tmp_path))} == {"interrupted"}


def test_from_builds_on_the_newest_run_whose_outputs_are_still_there(tmp_path):
    settings = make_config("taxi", root=str(tmp_path))
    records = []
    for name in ("first", "second"):
        record = run_record.start("taxi", str(tmp_path), "data", ["A", "B"])
        (tmp_path / name).mkdir()
        record.step("A").state, record.step("A").outputs = "ran", {"out": str(tmp_path / name)}
        record.save()
        records.append(record.run_id)
    assert session._base_run(settings, ["A", "B"], "B").run_id == records[1]
    (tmp_path / "second").rmdir()
    assert session._base_run(settings, ["A", "B"], "B").run_id == records[0]
    (tmp_path / "first").rmdir()
    with pytest.raises(ConfigError, match="has the outputs of A"):
        session._base_run(settings, ["A", "B"], "B")


def test_cleaning_keeps_what_kept_runs_and_blessings_need(tmp_path, store):
    runs = [run_record.start("w", str(tmp_path), "data", []) for _ in range(3)]
    context_type = store.put_context_type(metadata_store_pb2.ContextType(name="pipeline_run"))
    uris = {}
    for name, run in (("old", runs[0]), ("blessed", runs[0]), ("new", runs[2])):
        uri = tmp_path / "pipelines" / "w" / name
        uri.mkdir(parents=True)
        (uri / "file").write_text("x" * 10)
        artifact, execution = (
            _artifact(store, "Model", str(uri)),
            _execution(store, metadata_store_pb2.Execution.COMPLETE),
        )
        uris[name] = artifact, uri
        event = metadata_store_pb2.Event(
            artifact_id=artifact, execution_id=execution, type=metadata_store_pb2.Event.OUTPUT
        )
        store.put_events([event])
        context = metadata_store_pb2.Context(type_id=context_type, name=run.run_id)
        found = store.get_context_by_type_and_name("pipeline_run", run.run_id)
        context_id = found.id if found else store.put_contexts([context])[0]
        association = metadata_store_pb2.Association(execution_id=execution, context_id=context_id)
        store.put_attributions_and_associations([], [association])
    blessing_type = store.put_artifact_type(metadata_store_pb2.ArtifactType(name="ModelBlessing"))
    blessing = metadata_store_pb2.Artifact(type_id=blessing_type, uri="nowhere", state=LIVE)
    blessing.custom_properties["blessed"].int_value = 1
    blessing.custom_properties["current_model_id"].int_value = uris["blessed"][0]
    store.put_artifacts([blessing])
    said = cleaning.clean(str(tmp_path), "w", keep=1, dry_run=True)
    assert said.artifacts == [str(uris["old"][1])]
    assert uris["old"][1].exists()
    done = cleaning.clean(str(tmp_path), "w", keep=1)
    assert done == said
    assert done.num_bytes == 10
    assert [name for name, (_, uri) in uris.items() if uri.exists()] == ["blessed", "new"]
    assert [record.run_id for record in run_record.load_all(str(tmp_path))] == [runs[2].run_id]
