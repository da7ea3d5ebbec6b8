"""Folders that look like SavedModels: the registry never loads them."""

import importlib.util
import pathlib
import types
import uuid
from collections.abc import Iterator

import fsspec
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


@pytest.fixture(params=["folder", "memory", "s3", "s3 of another maker"])
def root(request, tmp_path, monkeypatch) -> Iterator[str]:
    """The registry's root: on a file system, in fsspec's memory, and through s3fs on servers that speak S3."""
    if request.param == "folder":
        yield str(tmp_path / "registry")
    elif request.param == "memory":
        yield f"memory://{uuid.uuid4().hex}/registry"  # the store in memory is one for the whole process
    else:
        with load_s3_server().S3Server(says_condition=request.param == "s3") as server:
            for name, value in {"KEY": "test", "SECRET": "test", "ENDPOINT_URL": server.url}.items():
                monkeypatch.setitem(fsspec.config.conf.setdefault("s3", {}), name.lower(), value)
            yield "s3://bucket/registry"


def load_s3_server() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("s3_server", pathlib.Path(__file__).with_name("s3_server.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
