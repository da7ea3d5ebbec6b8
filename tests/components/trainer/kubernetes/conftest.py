"""A cluster to talk to."""

import importlib.util
import pathlib

import pytest
from kubernetes import client

from components.trainer.kubernetes.api import Api


@pytest.fixture
def server():
    """The HTTP server of api_server.py (importlib mode keeps test folders off sys.path)."""
    spec = importlib.util.spec_from_file_location("api_server", pathlib.Path(__file__).parent / "api_server.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = module.ApiServer()
    yield server
    server.close()


@pytest.fixture
def api(server):
    return Api(client.ApiClient(client.Configuration(host=server.url)), "research", first_delay=0.01)
