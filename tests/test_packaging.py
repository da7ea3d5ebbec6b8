"""What is in the wheel, and that the shared name `kubeflow` still lets the Kubeflow SDK be imported."""

import pathlib
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "source"
    ignored = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    for name in ignored:
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(copy)]
    subprocess.run(command, capture_output=True, text=True, check=True)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_top_level_names(wheel):
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {name for name in tops if ".dist-info" not in name} == {"pipeline", "components", "modules", "kubeflow"}


def test_the_workload_travels_whole(wheel):
    names = set(wheel.namelist())
    assert {"modules/taxi/workload.yaml", "modules/taxi/schema.pbtxt", "modules/taxi/model.py"} <= names
    assert not [name for name in names if name.startswith("tests/") or "/tests/" in name]


def test_console_script(wheel):
    (name,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert "sluice = pipeline.cli:console" in wheel.read(name).decode()


def test_the_kubeflow_sdk_is_importable_beside_ours(tmp_path):
    """kubeflow/__init__.py extends the path, so that another distribution's `kubeflow.trainer` is found too."""
    sdk = tmp_path / "kubeflow" / "trainer_sdk_stand_in"
    sdk.mkdir(parents=True)
    (tmp_path / "kubeflow" / "__init__.py").touch()
    (sdk / "__init__.py").write_text("WHO = 'the SDK'\n")
    code = (
        f"import sys; sys.path.append({str(tmp_path)!r})\nimport kubeflow\n"
        "from kubeflow import trainer_sdk_stand_in as sdk\nprint(sdk.WHO, len(kubeflow.__path__))"
    )
    process = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["the", "SDK", "2"]
