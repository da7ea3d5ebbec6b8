"""The package shares its name with the Kubeflow SDK: both are importable, whichever comes first."""

import os
import pathlib
import subprocess
import sys

import pytest

PROJECT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize("ours_first", [True, False])
def test_other_distributions_may_add_to_the_package(tmp_path, ours_first):
    (tmp_path / "kubeflow" / "trainer").mkdir(parents=True)
    (tmp_path / "kubeflow" / "__init__.py").write_text(
        '__path__ = __import__("pkgutil").extend_path(__path__, __name__)\n'
    )
    (tmp_path / "kubeflow" / "trainer" / "__init__.py").write_text("NAME = 'sdk'\n")
    places = [str(PROJECT), str(tmp_path)]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(places if ours_first else reversed(places)),
    }
    program = "import kubeflow.trainer, kubeflow.plan; print(kubeflow.trainer.NAME, kubeflow.plan.PAGE_PORT)"
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert result.stdout == "sdk html_page\n", result.stderr
