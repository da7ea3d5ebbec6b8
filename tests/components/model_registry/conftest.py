"""Folders that look like SavedModels: the registry never loads them."""

import pathlib
import uuid

import pytest


@pytest.fixture
def model(tmp_path):
    """Makes a model folder with the given content."""

    def make(content: str) -> pathlib.Path:
        folder = tmp_path / f"model-{content}"
        (folder / "variables").mkdir(parents=True)
        (folder / "saved_model.pb").write_text(content)
        (folder / "variables" / "variables.index").write_text(f"index of {content}")
        return folder

    return make


@pytest.fixture(params=["folder", "object store"])
def root(request, tmp_path) -> str:
    """The registry's root, on a file system and on an object store (fsspec's in-memory one)."""
    if request.param == "folder":
        return str(tmp_path / "registry")
    return f"memory://{uuid.uuid4().hex}/registry"  # the store in memory is one for the whole process
