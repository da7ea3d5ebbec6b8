"""What this machine has and lacks. Imports TensorFlow only in a child process, so that its failure is a finding."""

import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing looked at: ok, note (works without it) or problem."""

    name: str
    state: str
    detail: str
    advice: str = ""


def examine(root: str) -> list[Finding]:
    """All findings about this machine."""
    return [
        _python(),
        _glibc(),
        *_wheels(),
        _tensorflow(),
        _cores(),
        _memory(),
        _disk(root),
        _program("docker", ["docker", "version", "--format", "{{.Server.Version}}"], "image and e2e-docker targets"),
        _program("kubectl", ["kubectl", "version", "--client", "-o", "yaml"], "manifests and cluster targets"),
        _tf_config(),
    ]


def _python() -> Finding:
    version = platform.python_version()
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Finding("python", "ok", f"{version} at {sys.executable}")
    return Finding("python", "problem", version, "Sluice needs Python 3.11, 3.12 or 3.13: make setup PYTHON=...")


def _glibc() -> Finding:
    library, version = platform.libc_ver()
    if library != "glibc":
        return Finding("glibc", "ok", "not a glibc system")
    version = (os.confstr("CS_GNU_LIBC_VERSION") or version).split()[-1]
    private = pathlib.Path(sys.prefix, "runtime").is_dir()
    if tuple(int(part) for part in version.split(".")[:2]) >= (2, 38):
        return Finding("glibc", "ok", version + (" (private to .venv)" if private else ""))
    return Finding("glibc", "problem", version, "2.38 or newer is needed: make setup adds a private one where it can")


def _wheels() -> list[Finding]:
    names = ("tfx", "tensorflow", "tf-keras", "tensorflow-data-validation", "ml-metadata", "apache-beam", "kfp")
    found, missing = [], []
    for name in names:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        return [Finding("wheels", "problem", f"missing: {', '.join(missing)}", "make setup")]
    return [Finding("wheels", "ok", ", ".join(found))]


def _tensorflow() -> Finding:
    code = (
        "import json, tensorflow as tf, ml_metadata, tensorflow_data_validation;"
        "print(json.dumps([tf.__version__, len(tf.config.list_physical_devices('GPU'))]))"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if process.returncode:
        last = (process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        return Finding(
            "tensorflow", "problem", last, "make setup; if it persists, use the container image (make image)"
        )
    version, num_gpus = json.loads(process.stdout.splitlines()[-1])
    flags = _cpu_flags()
    features = [name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags]
    return Finding("tensorflow", "ok", f"{version} loads, {num_gpus} GPUs, CPU has {' '.join(features) or 'AVX'}")


def _cpu_flags() -> set[str]:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return next((set(line.split(":")[1].split()) for line in lines if line.startswith("flags")), set())


def _cores() -> Finding:
    num_cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if num_cores >= 2:
        return Finding("cores", "ok", str(num_cores))
    return Finding("cores", "note", str(num_cores), "two workers on one core train slowly: sluice run --workers 1")


def _memory() -> Finding:
    try:
        lines = pathlib.Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        available = next(int(line.split()[1]) / 1e6 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return Finding("memory", "note", "unknown on this system")
    if available >= 6:
        return Finding("memory", "ok", f"{available:.1f} GB available")
    return Finding("memory", "problem", f"{available:.1f} GB available", "a run with two workers needs about 6 GB")


def _disk(root: str) -> Finding:
    folder = pathlib.Path(root).absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free / 1e9
    if not os.access(folder, os.W_OK):
        return Finding("disk", "problem", f"{folder} cannot be written to", "choose another --root")
    if free >= 5:
        return Finding("disk", "ok", f"{free:.0f} GB free at {folder}")
    return Finding("disk", "problem", f"{free:.1f} GB free at {folder}", "sluice clean, or another --root")


def _program(name: str, command: list[str], purpose: str) -> Finding:
    if shutil.which(name) is None:
        return Finding(name, "note", "not installed", f"only needed for the {purpose}")
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return Finding(name, "note", "does not answer within 20 s", f"only needed for the {purpose}")
    if process.returncode:
        last = (process.stderr.strip().splitlines() or ["no message"])[-1]
        return Finding(name, "note", f"installed, but: {last}", f"only needed for the {purpose}")
    version = [line.split(":")[1].strip() for line in process.stdout.splitlines() if "gitVersion" in line]
    return Finding(name, "ok", version[0] if version else process.stdout.strip())


def _tf_config() -> Finding:
    value = os.environ.get("TF_CONFIG")
    if value is None:
        return Finding("TF_CONFIG", "ok", "not set: the Trainer step sets it for its workers")
    try:
        config = json.loads(value)
        task = config["task"]
        num_workers = {kind: len(hosts) for kind, hosts in config["cluster"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return Finding("TF_CONFIG", "problem", f"not valid: {value[:60]}", "unset TF_CONFIG")
    return Finding(
        "TF_CONFIG", "problem", f"set: {task} of {num_workers}", "this process is a worker; unset it before sluice run"
    )
