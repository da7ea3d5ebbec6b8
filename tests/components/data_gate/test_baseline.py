"""Which statistics are the baseline, in a real metadata store."""

import pytest
from ml_metadata import metadata_store
from ml_metadata.proto import metadata_store_pb2 as mlmd
from tfx.types import standard_artifacts

from components.data_gate.baseline import LastBlessedStatisticsStrategy


class History:
    """Runs in an in-memory store, each with statistics and (perhaps) a judged model."""

    def __init__(self):
        config = mlmd.ConnectionConfig()
        config.fake_database.SetInParent()
        self.store = metadata_store.MetadataStore(config)
        self._run = self.store.put_context_type(mlmd.ContextType(name="pipeline_run"))
        self._node = self.store.put_context_type(mlmd.ContextType(name="node"))
        self._step = self.store.put_execution_type(mlmd.ExecutionType(name="step"))
        self._type = self.store.put_artifact_type(mlmd.ArtifactType(name="any"))
        self.statistics, self.blessings = [], []

    def add_run(self, name, blessed=None, same_statistics=None):
        """Returns the id of the run's statistics; `same_statistics` is an id that a cached step gave again."""
        context = mlmd.Context(type_id=self._run, name=name)
        if same_statistics is None:
            self.statistics.append(self._put(standard_artifacts.ExampleStatistics(), context))
        else:
            self._put(None, context, same_statistics)
        if blessed is not None:
            blessing = standard_artifacts.ModelBlessing()
            blessing.set_int_custom_property("blessed", int(blessed))
            self.blessings.append(self._put(blessing, context))
        return same_statistics or self.statistics[-1].id

    def _put(self, artifact, context, known=None):
        proto = mlmd.Artifact(type_id=self._type, id=known) if known else mlmd.Artifact(type_id=self._type)
        contexts = [context]
        saved = self.store.get_context_by_type_and_name("pipeline_run", context.name)
        if saved is not None:
            contexts = [saved]
        _, (artifact_id,), _ = self.store.put_execution(
            mlmd.Execution(type_id=self._step), [(proto, mlmd.Event(type=mlmd.Event.OUTPUT))], contexts
        )
        if artifact is not None:
            artifact.id = artifact_id
        return artifact

    def baseline(self, candidate_id=10**6):
        candidate = standard_artifacts.ExampleStatistics()
        candidate.id = candidate_id
        inputs = {"candidate": [candidate], "statistics": self.statistics, "model_blessing": self.blessings}
        found = LastBlessedStatisticsStrategy().resolve_artifacts(self.store, inputs)
        assert found["model_blessing"] == []
        return [artifact.id for artifact in found["statistics"]]


@pytest.fixture
def history():
    return History()


def test_nothing_was_blessed_yet(history):
    assert history.baseline() == []
    history.add_run("refused", blessed=False)
    history.add_run("failed before a model was made")
    assert history.baseline() == []


def test_the_newest_run_with_a_blessed_model_counts(history):
    history.add_run("first", blessed=True)
    wanted = history.add_run("second", blessed=True)
    history.add_run("refused", blessed=False)
    history.add_run("present")
    assert history.baseline() == [wanted]


def test_cached_statistics_are_found_in_the_run_that_used_them(history):
    wanted = history.add_run("first", blessed=False)
    history.add_run("second, on the same data", blessed=True, same_statistics=wanted)
    assert history.baseline() == [wanted]


def test_data_is_never_compared_with_itself_or_with_what_came_later(history):
    first = history.add_run("first", blessed=True)
    second = history.add_run("second", blessed=True)
    assert history.baseline(candidate_id=first) == []
    assert history.baseline(candidate_id=second) == [first]
