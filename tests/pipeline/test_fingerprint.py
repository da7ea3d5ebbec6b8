"""The fingerprint changes with the code that a step runs, and only with it."""

import pytest

from pipeline import fingerprint


@pytest.fixture
def package(tmp_path, monkeypatch):
    folder = tmp_path / "fp_package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "model.py").write_text(
        "from fp_package import layers\nfrom . import names\nimport json\ndef run_fn(): pass\n"
    )
    (folder / "layers.py").write_text("from fp_package.names import A\n")
    (folder / "names.py").write_text("A = 1\n")
    (folder / "unrelated.py").write_text("B = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


def test_follows_imports_and_leaves_libraries_out(package):
    files = fingerprint.source_files("fp_package.model.run_fn")
    assert [path.name for path in files] == ["layers.py", "model.py", "names.py"]


@pytest.mark.parametrize("name", ["model.py", "layers.py", "names.py"])
def test_changes_with_any_followed_file(package, name):
    before = fingerprint.code_fingerprint("fp_package.model.run_fn")
    with (package / name).open("a") as file:
        file.write("C = 3\n")
    assert fingerprint.code_fingerprint("fp_package.model.run_fn") != before


def test_ignores_touch_and_unrelated_files(package):
    before = fingerprint.code_fingerprint("fp_package.model.run_fn")
    (package / "model.py").touch()
    (package / "unrelated.py").write_text("B = 2\n")
    assert fingerprint.code_fingerprint("fp_package.model.run_fn") == before


def test_imports_nothing(package):
    (package / "model.py").write_text("raise RuntimeError('imported')\n")
    assert fingerprint.source_files("fp_package.model.run_fn") == [package / "model.py"]


def test_changes_with_the_libraries(package, monkeypatch):
    before = fingerprint.code_fingerprint("fp_package.model")
    monkeypatch.setattr(fingerprint.importlib.metadata, "version", lambda name: "0")
    assert fingerprint.code_fingerprint("fp_package.model") != before


def test_the_model_does_not_depend_on_preprocessing():
    names = {path.name for path in fingerprint.source_files("modules.taxi.preprocessing.preprocessing_fn")}
    assert names == {"features.py", "preprocessing.py"}
    model = {path.name for path in fingerprint.source_files("modules.taxi.model.run_fn")}
    assert "preprocessing.py" not in model
    assert {"model.py", "features.py"} <= model
