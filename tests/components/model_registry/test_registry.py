"""The registry: immutable versions, aliases that change as a whole, on any store, with nobody waiting for a lock."""

import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import fsspec
import pytest

from components.model_registry import Lineage, ModelRegistry, RegistryError, resolve
from components.model_registry.registry import names
from components.model_registry.store import Store, StoreError, TakenError

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_registered_model_is_found_with_its_lineage_and_metrics(root, model):
    lineage = Lineage(data_span=3, data_fingerprint="f", code_fingerprint="c", run="r", source="s", parent=1)
    entry = ModelRegistry(root, "taxi").register(model("a"), lineage=lineage, metrics={"auc": 0.75})
    found = ModelRegistry(root, "taxi").resolve("latest")
    assert found == entry
    assert (found.version, found.lineage, found.metrics) == (1, lineage, {"auc": 0.75})
    filesystem, path = fsspec.core.url_to_fs(found.uri)
    assert filesystem.cat_file(f"{path}/Format-Serving/saved_model.pb") == b"a"
    assert names(root) == ["taxi"]


def test_same_content_is_registered_once(root, model):
    registry = ModelRegistry(root, "taxi")
    assert [registry.register(model("a")).version, registry.register(model("b")).version] == [1, 2]
    assert registry.register(pathlib.Path(model("c").parent / "model-a")).version == 1


def test_promote_and_rollback(root, model):
    registry = ModelRegistry(root, "taxi")
    for content in "abc":
        registry.register(model(content))
    registry.promote(1)
    registry.promote(2, "canary")
    assert registry.aliases() == {"stable": 1, "canary": 2}
    registry.promote("canary")
    assert registry.aliases() == {"stable": 2, "previous": 1}
    registry.promote("latest")
    assert registry.aliases() == {"stable": 3, "previous": 2}
    assert registry.rollback().version == 2
    assert registry.aliases() == {"stable": 2, "previous": 3}
    assert registry.rollback().version == 3
    assert [state["why"] for state in registry.alias_history()][-1] == "rollback"


def test_promoting_what_is_stable_already_changes_nothing(root, model):
    registry = ModelRegistry(root, "taxi")
    registry.register(model("a"))
    registry.register(model("b"))
    registry.promote(1)
    registry.promote(2)
    registry.promote(2)
    assert registry.aliases() == {"stable": 2, "previous": 1}
    assert len(registry.alias_history()) == 2


def test_what_is_not_there_is_named_with_what_is(root, model):
    registry = ModelRegistry(root, "taxi")
    assert resolve(root, "taxi") is None
    with pytest.raises(RegistryError, match="no model is registered"):
        registry.resolve("latest")
    registry.register(model("a"))
    registry.promote(1)
    with pytest.raises(RegistryError, match=r"no model '9'; aliases: stable=1; versions: 1"):
        registry.resolve(9)
    with pytest.raises(RegistryError, match="nothing to roll back to"):
        registry.rollback()
    with pytest.raises(RegistryError, match="not 'latest'"):
        registry.promote(1, "latest")
    with pytest.raises(RegistryError, match="alias '7'"):
        registry.promote(1, "7")
    with pytest.raises(RegistryError, match="keep must be at least 1"):
        registry.gc(0)
    with pytest.raises(RegistryError, match="letters, digits"):
        ModelRegistry(root, "../taxi")


def test_gc_keeps_the_newest_and_what_has_an_alias(root, model):
    registry = ModelRegistry(root, "taxi")
    for content in "abcde":
        registry.register(model(content))
    registry.promote(1)
    registry.promote(2)
    assert registry.gc(keep=2) == [3]
    assert [entry.version for entry in registry.entries()] == [1, 2, 4, 5]
    assert registry.register(model("f")).version == 6


def test_number_of_a_deleted_model_is_not_given_again_below_the_newest(root, model):
    registry = ModelRegistry(root, "taxi")
    for content in "abc":
        registry.register(model(content))
    registry.gc(keep=1)
    assert registry.register(model("a2")).version == 4


def test_fetch_is_a_tfx_model(root, model, tmp_path):
    registry = ModelRegistry(root, "taxi")
    registry.register(model("a"))
    registry.fetch("latest", tmp_path / "fetched")
    assert (tmp_path / "fetched" / "Format-Serving" / "variables" / "variables.index").read_text() == "index of a"
    with pytest.raises(FileExistsError):
        registry.fetch("latest", tmp_path / "fetched")


def test_a_model_that_was_damaged_in_the_registry_is_not_fetched(model, tmp_path):
    registry = ModelRegistry(str(tmp_path / "registry"), "taxi")
    entry = registry.register(model("a"))
    (pathlib.Path(entry.uri) / "Format-Serving" / "variables" / "variables.index").write_text("index of b")
    with pytest.raises(RegistryError, match="not the model that was registered as version 1"):
        registry.fetch("latest", tmp_path / "fetched")
    assert not (tmp_path / "fetched").exists()


def test_an_alias_of_a_model_that_is_gone_is_no_first_run(model, tmp_path):
    root = str(tmp_path / "registry")
    registry = ModelRegistry(root, "taxi")
    assert resolve(root, "taxi") is None
    entry = registry.register(model("a"))
    registry.promote(entry.version)
    shutil.rmtree(pathlib.Path(entry.uri).parent)
    with pytest.raises(RegistryError, match="no model 'stable'; aliases: stable=1; versions: none"):
        resolve(root, "taxi")


def test_rollback_to_a_previous_that_was_set_by_hand(root, model):
    registry = ModelRegistry(root, "taxi")
    registry.register(model("a"))
    registry.promote(1, "previous")
    assert registry.rollback().version == 1
    assert registry.aliases() == {"stable": 1}


def test_moved_registry_still_resolves(model, tmp_path):
    ModelRegistry(str(tmp_path / "one"), "taxi").register(model("a"))
    (tmp_path / "one").rename(tmp_path / "two")
    entry = ModelRegistry(str(tmp_path / "two"), "taxi").resolve("latest")
    assert pathlib.Path(entry.uri, "Format-Serving", "saved_model.pb").read_text() == "a"


def test_concurrent_registrations_get_numbers_of_their_own(root, model):
    folders = [model(str(number)) for number in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        entries = list(pool.map(lambda folder: ModelRegistry(root, "taxi").register(folder), folders))
    assert sorted(entry.version for entry in entries) == list(range(1, 9))
    assert len(ModelRegistry(root, "taxi").entries()) == 8


def test_concurrent_alias_changes_are_all_kept(root, model):
    registry = ModelRegistry(root, "taxi")
    registry.register(model("a"))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda alias: ModelRegistry(root, "taxi").promote(1, alias), "abcdefgh"))
    assert registry.aliases() == dict.fromkeys("abcdefgh", 1)
    assert len(registry.alias_history()) == 8


def test_readers_see_only_whole_models_while_writers_are_killed(model, tmp_path):
    big = model("big")
    (big / "table").write_bytes(os.urandom(20 << 20))
    root = str(tmp_path / "registry")
    code = "import sys; from components.model_registry import ModelRegistry; "
    code += "print('started', flush=True); ModelRegistry(sys.argv[1], 'taxi').register(sys.argv[2])"
    for attempt in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", code, root, str(big)],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        process.stdout.readline()
        try:
            process.wait(timeout=0.02 * (attempt + 1))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        for entry in ModelRegistry(root, "taxi").entries():
            assert pathlib.Path(entry.uri, "Format-Serving", "table").stat().st_size == 20 << 20
    assert ModelRegistry(root, "taxi").register(big).size > 20 << 20
    registry = ModelRegistry(root, "taxi")
    assert [entry.digest for entry in registry.entries()] == [registry.resolve("latest").digest]


def test_unfinished_upload_is_invisible_and_its_number_is_skipped(model):
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/unfinished/taxi/versions/1/CLAIM", b"")
    memory.pipe_file("/unfinished/taxi/versions/1/model/Format-Serving/saved_model.pb", b"half")
    registry = ModelRegistry("memory://unfinished", "taxi")
    assert registry.entries() == []
    assert registry.register(model("a")).version == 2


def test_taken_folder_is_not_replaced(root):
    store = Store(root)
    store.publish("taxi/x", {"a.json": b"1"}, "a.json")
    with pytest.raises(TakenError):
        store.publish("taxi/x", {"a.json": b"2"}, "a.json")
    assert store.read("taxi/x/a.json") == b"1"


def test_left_overs_of_crashed_writers_are_swept(model, tmp_path):
    registry = ModelRegistry(str(tmp_path), "taxi")
    registry.register(model("a"))
    left = tmp_path / "taxi" / "versions" / ".2-deadbeef.partial"
    left.mkdir()
    registry.gc()
    assert left.exists(), "it may still be written"
    os.utime(left, (0, 0))
    registry.gc()
    assert not left.exists()


def test_entries_are_plain_json_that_other_tools_read(model, tmp_path):
    ModelRegistry(str(tmp_path), "taxi").register(model("a"), metrics={"auc": 0.5})
    entry = json.loads((tmp_path / "taxi" / "versions" / "1" / "entry.json").read_text())
    assert entry["metrics"] == {"auc": 0.5}
    assert set(entry) == {"name", "version", "created", "digest", "size", "uri", "lineage", "metrics"}


def test_store_that_cannot_be_used_is_named(model, tmp_path):
    with pytest.raises(StoreError, match=r"no-such-store://x: cannot open: Protocol not known"):
        ModelRegistry("no-such-store://x", "taxi")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write taxi/versions/1: .*Not a directory"):
        ModelRegistry(str(tmp_path / "file"), "taxi").register(model("a"))
