"""Makes the modules beside the tests importable: this folder is no package."""

import importlib.util
import pathlib
import sys
import types

import pytest

HERE = pathlib.Path(__file__).parent


def load(name: str) -> types.ModuleType:
    """The module in `<name>.py` of this folder."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


for _name in (
    "kfp_conditions",
    "kfp_driver",
    "kfp_launcher",
    "kfp_simulation",
    "kfp_server",
    "docker_engine",
    "taxi_pipeline",
    "kfp_real_launcher",
    "small_pipeline",
    "manifest_objects",
):
    load(_name)


@pytest.fixture(scope="session")
def sample_pipelines() -> types.ModuleType:
    """TFX pipelines to compile; loaded when a test asks, because it imports TFX."""
    return load("sample_pipelines")
