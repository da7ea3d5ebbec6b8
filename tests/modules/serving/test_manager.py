"""Versions that come and go, labels, reloads, warm-up and what is refused."""

import os
import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from modules.serving import model_api
from modules.serving.manager import LoadingConfig, ModelManager, ModelRef
from modules.serving.model_config import ModelConfig, VersionPolicy, models_under
from modules.serving.status import Code, ServingError
from modules.serving.versions import ModelVersion, State
from modules.serving.warmup import MAX_RECORDS, WARMUP_FILE

LOADING = LoadingConfig(poll_seconds=0.05, max_retries=0)


@pytest.fixture
def base(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    return folder


@pytest.fixture
def start(base, tmp_path):
    started = []

    def begin(policy="latest", loading=LOADING, labels=None, roots=None):
        model = ModelConfig("small", str(base), VersionPolicy.parse(policy), labels or {})
        manager = ModelManager([model], roots or [str(tmp_path)], loading)
        started.append(manager)
        manager.start()
        return manager

    yield begin
    for manager in started:
        manager.stop()


def states(manager, name="small"):
    try:
        return {version.number: version.state for version in manager.status(ModelRef(name))}
    except ServingError:
        return {}


def factor(manager, version=None, label="", name="small"):
    """What the addressed version multiplies with."""
    with manager.use(ModelRef(name, version, label)) as used:
        signature = used.model.signature()
        run = lambda s, i, o: used.run(s, i, o, timeout=30)  # noqa: E731
        return float(model_api.predict(run, signature, {"x": np.ones((1, 2), np.float32)})["y"][0, 0])


class TestPolicies:
    def test_latest(self, start, base, publish):
        for version in (1, 2, 10):
            publish(base, version)
        manager = start()
        assert states(manager) == {10: State.AVAILABLE}

    def test_latest_two_and_all_and_specific(self, start, base, publish):
        for version in (1, 2, 10):
            publish(base, version)
        assert set(states(start("latest:2"))) == {2, 10}
        assert set(states(start("all"))) == {1, 2, 10}
        assert set(states(start("1,2,7"))) == {1, 2}

    def test_only_numbers_are_versions(self, start, base, publish):
        publish(base, 3)
        for name in (".staged-4", "4.tmp", "latest", "-5", "٤"):
            shutil.copytree(base / "3", base / name)
        assert set(states(start("all"))) == {3}


class TestSwap:
    def test_a_new_version_replaces_the_old(self, start, base, publish, eventually):
        publish(base, 1, factor=1)
        manager = start()
        assert factor(manager) == 1.0
        publish(base, 2, factor=2)
        eventually(lambda: states(manager) == {1: State.END, 2: State.AVAILABLE})
        assert factor(manager) == 2.0
        with pytest.raises(ServingError) as caught, manager.use(ModelRef("small", 1)):
            pass
        assert caught.value.code is Code.NOT_FOUND

    def test_removing_the_newest_brings_the_old_back(self, start, base, publish, eventually):
        publish(base, 1, factor=1)
        publish(base, 2, factor=2)
        manager = start()
        assert factor(manager) == 2.0
        os.rename(base / "2", base / ".withdrawn-2")
        eventually(lambda: states(manager) == {1: State.AVAILABLE, 2: State.END})
        assert factor(manager) == 1.0

    def test_a_version_in_use_is_closed_after_its_last_request(self, start, base, publish, eventually):
        publish(base, 1, factor=1)
        manager = start()
        with manager.use(ModelRef("small")) as used:
            publish(base, 2, factor=2)
            eventually(lambda: states(manager) == {1: State.UNLOADING, 2: State.AVAILABLE})
            signature = used.model.signature()
            assert used.run(signature, {"x": np.ones((1, 2), np.float32)}, (), timeout=30)["y"][0, 0] == 1.0
        eventually(lambda: states(manager)[1] is State.END)

    def test_a_damaged_version_never_replaces_a_good_one(self, start, base, publish, eventually):
        publish(base, 1)
        manager = start()
        staged = publish(base, 50)
        os.rename(staged, base / ".damaged")
        (base / ".damaged" / "saved_model.pb").write_bytes(b"\x00garbage")
        os.rename(base / ".damaged", base / "2")
        eventually(lambda: states(manager).get(2) is State.END)
        assert states(manager)[1] is State.AVAILABLE
        (failed, _) = [v for v in manager.status(ModelRef("small")) if v.number in (1, 2)]
        assert failed.error is not None
        assert "2" in failed.error.message
        os.rename(base / "2", base / ".removed")  # and once repaired under the same number it is loaded
        eventually(lambda: manager.status(ModelRef("small", 2))[0].was_unloaded)
        publish(base, 2, factor=2)
        eventually(lambda: states(manager).get(2) is State.AVAILABLE)

    def test_a_model_that_is_still_being_copied_is_tried_again(self, start, base, publish, eventually):
        (base / "1").mkdir()
        manager = start(loading=LoadingConfig(poll_seconds=0.05, max_retries=1000, retry_seconds=0.05), policy="7")
        assert states(manager) == {}
        publish(base, 8, factor=2)
        (base / "7").mkdir()
        eventually(lambda: states(manager).get(7) is State.LOADING)
        shutil.copytree(base / "8", base / "7", dirs_exist_ok=True)
        eventually(lambda: states(manager).get(7) is State.AVAILABLE)

    def test_an_emptied_base_unloads_but_a_missing_one_does_not(self, start, base, publish, eventually):
        publish(base, 1)
        manager = start()
        os.rename(base, base.with_name("away"))
        publish(base.with_name("away"), 2)
        assert factor(manager) == 1.0
        os.rename(base.with_name("away"), base)
        eventually(lambda: states(manager).get(2) is State.AVAILABLE)
        for version in (1, 2):
            os.rename(base / str(version), base / f".gone-{version}")
        eventually(lambda: states(manager) == {1: State.END, 2: State.END})

    def test_a_folder_that_is_away_when_it_is_to_be_loaded_is_not_given_up(self, start, base, publish):
        publish(base, 1)
        manager = start()
        seen_just_before = ModelVersion("small", 2, str(base / "2"), manager._loading.log)
        for _ in range(manager._loading.max_retries + 1):
            manager._load(seen_just_before)
        assert seen_just_before.state is State.LOADING
        publish(base, 2)
        manager._load(seen_just_before)
        assert seen_just_before.state is State.AVAILABLE


class TestLabels:
    def test_a_label_addresses_its_version(self, start, base, publish):
        publish(base, 1, factor=1)
        publish(base, 2, factor=2)
        manager = start("all", labels={"stable": 1, "canary": 2})
        assert (factor(manager, label="stable"), factor(manager, label="canary")) == (1.0, 2.0)
        with pytest.raises(ServingError, match="Unrecognized servable version label"):
            factor(manager, label="absent")

    def test_a_version_and_its_label_need_two_reloads(self, start, base, publish, eventually):
        publish(base, 1, factor=1)
        manager = start("1", labels={"stable": 1})
        publish(base, 2, factor=2)
        both = ModelConfig("small", str(base), VersionPolicy.parse("1,2"), {"stable": 2})
        with pytest.raises(ServingError, match="not currently available") as caught:
            manager.reload([both])
        assert caught.value.code is Code.FAILED_PRECONDITION
        assert factor(manager, label="stable") == 1.0, "a refused reload changes nothing"
        manager.reload([ModelConfig("small", str(base), VersionPolicy.parse("1,2"), {"stable": 1})])
        eventually(lambda: states(manager) == {1: State.AVAILABLE, 2: State.AVAILABLE})
        manager.reload([both])
        assert factor(manager, label="stable") == 2.0


class TestReload:
    def test_the_list_is_replaced(self, start, base, tmp_path, publish, eventually):
        publish(base, 1)
        other = tmp_path / "other"
        other.mkdir()
        publish(other, 5, factor=2)
        manager = start()
        manager.reload([ModelConfig("other", str(other))])
        assert factor(manager, name="other") == 2.0, "returns when the new model answers"
        eventually(lambda: states(manager) == {1: State.END})
        manager.reload([ModelConfig("small", str(base)), ModelConfig("other", str(other))])
        assert factor(manager) == 1.0, "a model that was removed can come back"

    def test_a_new_model_that_cannot_be_loaded(self, start, base, tmp_path, publish):
        publish(base, 1)
        (tmp_path / "broken" / "1").mkdir(parents=True)
        manager = start()
        with pytest.raises(ServingError, match="broken") as caught:
            manager.reload([ModelConfig("small", str(base)), ModelConfig("broken", str(tmp_path / "broken"))])
        assert caught.value.code is Code.UNAVAILABLE
        assert factor(manager) == 1.0

    def test_a_folder_outside_the_roots_is_refused(self, start, base, tmp_path, publish):
        publish(base, 1)
        outside = tmp_path / "outside"
        outside.mkdir()
        publish(outside, 1)
        manager = start(roots=[str(base)])
        for path in (str(outside), f"{base}/../outside", "/etc"):
            with pytest.raises(ServingError, match="outside") as caught:
                manager.reload([ModelConfig("small", path)])
            assert caught.value.code is Code.FAILED_PRECONDITION
        assert factor(manager) == 1.0

    def test_a_link_out_of_the_base_is_refused(self, start, base, tmp_path, publish, eventually):
        publish(base, 1)
        outside = tmp_path.parent / f"{tmp_path.name}-outside"
        outside.mkdir()
        publish(outside, 2)
        manager = start()
        os.symlink(outside / "2", base / "2")
        eventually(lambda: states(manager).get(2) is State.END)
        assert "outside" in manager.status(ModelRef("small", 2))[0].error.message
        assert factor(manager) == 1.0


def test_models_that_appear_later_are_found(tmp_path, publish, eventually):
    manager = ModelManager([], [str(tmp_path)], LOADING, discover=lambda: models_under(str(tmp_path)))
    manager.start()
    try:
        assert manager.models() == {}
        (tmp_path / "late").mkdir()
        publish(tmp_path / "late", 1, factor=2)
        eventually(lambda: states(manager, "late") == {1: State.AVAILABLE})
        assert factor(manager, name="late") == 2.0
        manager.reload([])
        eventually(lambda: states(manager, "late") == {1: State.END})
        assert manager.models() == {}, "a reload replaces what was found"
    finally:
        manager.stop()


class TestWarmup:
    @staticmethod
    def write(version_dir, requests):
        (version_dir / "assets.extra").mkdir()
        with tf.io.TFRecordWriter(str(version_dir / "assets.extra" / WARMUP_FILE)) as writer:
            for request in requests:
                writer.write(request if isinstance(request, bytes) else request.SerializeToString())

    @staticmethod
    def predict_log(values):
        log = prediction_log_pb2.PredictionLog()
        log.predict_log.request.model_spec.name = "small"
        log.predict_log.request.inputs["x"].CopyFrom(tf.make_tensor_proto(values, tf.float32))
        return log

    def load(self, start, base, publish, requests):
        staged = publish(base, 5)
        os.rename(staged, base / ".filling")
        self.write(base / ".filling", requests)
        os.rename(base / ".filling", base / "5")
        (version,) = start().status(ModelRef("small"))
        return version

    def test_good_requests(self, start, base, publish):
        classify = prediction_log_pb2.PredictionLog()
        classify.classify_log.request.model_spec.signature_name = "classify"
        example = classify.classify_log.request.input.example_list.examples.add()
        example.features.feature["x"].float_list.value.append(0.5)
        version = self.load(start, base, publish, [self.predict_log([[1, 2]]), classify])
        assert version.state is State.AVAILABLE

    @pytest.mark.parametrize("kind", ["wrong shape", "no log", "empty log"])
    def test_a_failing_request_fails_the_load(self, start, base, publish, kind):
        bad = {"wrong shape": self.predict_log([[1, 2, 3]]), "no log": b"\xff\xff", "empty log": b""}[kind]
        version = self.load(start, base, publish, [self.predict_log([[1, 2]]), bad])
        assert version.state is State.END
        assert "warm-up record 2" in version.error.message or "records of kind none" in version.error.message

    def test_too_many(self, start, base, publish):
        requests = [self.predict_log([[1, 2]])] * (MAX_RECORDS + 1)
        version = self.load(start, base, publish, requests)
        assert str(MAX_RECORDS) in version.error.message

    def test_a_truncated_file(self, start, base, publish):
        staged = publish(base, 5)
        os.rename(staged, base / ".filling")
        self.write(base / ".filling", [self.predict_log([[1, 2]])])
        path = base / ".filling" / "assets.extra" / WARMUP_FILE
        path.write_bytes(path.read_bytes()[:-3])
        os.rename(base / ".filling", base / "5")
        (version,) = start().status(ModelRef("small"))
        assert version.state is State.END
        assert "warm-up" in version.error.message
