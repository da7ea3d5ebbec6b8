"""Training on other machines: inputs go to storage that all of them share, outputs come back from there.

On Kubeflow Pipelines a step sees its artifacts on its own disk, where the launcher has put them. Pods that the step
starts do not see that disk.
"""

import dataclasses
import json
import os
import pathlib
import shutil
from collections.abc import Sequence

from components.trainer.errors import TrainingConfigError
from components.trainer.training_spec import TrainingSpec

_PATH_FIELDS = ("schema_path", "transform_graph_path", "base_model")


def stage_in(spec: TrainingSpec, shared_dir: str, name: str) -> TrainingSpec:
    """Copies the inputs that lie on this machine only, and moves the outputs, below `<shared_dir>/<name>`.

    Args:
      spec: the job as the step has been given it.
      shared_dir: a folder on storage that the workers mount at the same place.
      name: of the job; the same for a repeated step, which then finds the checkpoints of the try before.

    Returns:
      The job as the workers should see it.
    """
    base = pathlib.Path(shared_dir, name)
    moves: dict[str, str] = {}
    for number, root in enumerate(_local_inputs(spec, shared_dir)):
        destination = base / "inputs" / f"{number}-{pathlib.Path(root).name}"
        _copy(pathlib.Path(root), destination)
        moves[root] = str(destination)
    for root, folder in ((spec.model_dir, "model"), (spec.fn_args["model_run_dir"], "model_run")):
        if _is_elsewhere(root, shared_dir):
            moves[root] = str(base / folder)
    text = json.dumps(dataclasses.asdict(spec))
    for root in sorted(moves, key=len, reverse=True):
        text = text.replace(root, moves[root])
    return dataclasses.replace(TrainingSpec(**json.loads(text)), job_dir=str(base / "job"))


def stage_out(spec: TrainingSpec, staged: TrainingSpec) -> None:
    """Brings the published model and the model run back to where TFX expects them, and frees the shared storage."""
    pairs = [(staged.model_dir, spec.model_dir), (staged.fn_args["model_run_dir"], spec.fn_args["model_run_dir"])]
    for source, destination in pairs:
        if source != destination and os.path.isdir(source):
            shutil.copytree(source, destination, dirs_exist_ok=True)
    shutil.rmtree(pathlib.Path(staged.job_dir).parent)


def require_visible(spec: TrainingSpec, mounts: Sequence[str]) -> None:
    """Checks that workers elsewhere will see what the job reads and writes.

    Raises:
      TrainingConfigError: a path is on this machine only.
    """
    paths = [*_inputs(spec), spec.model_dir, spec.fn_args["model_run_dir"], spec.job_dir]
    for path in paths:
        if "://" not in path and not any(_is_below(path, mount) for mount in mounts):
            raise TrainingConfigError(
                f"cluster: {path} is on this machine only and the training pods would not see it; "
                "set kubernetes.shared_dir to a folder on a volume that this step mounts as well"
            )


def _inputs(spec: TrainingSpec) -> list[str]:
    """Every input folder or file once, in a fixed order."""
    patterns = [*(spec.fn_args.get("train_files") or []), *(spec.fn_args.get("eval_files") or [])]
    # <examples>/Split-<name>/*: the whole artifact is taken, because a DataAccessor wants it whole.
    roots = [str(pathlib.Path(pattern).parent.parent) if "://" not in pattern else pattern for pattern in patterns]
    roots += [spec.fn_args[field] for field in _PATH_FIELDS if spec.fn_args.get(field)]
    return list(dict.fromkeys(roots))


def _local_inputs(spec: TrainingSpec, shared_dir: str) -> list[str]:
    return [root for root in _inputs(spec) if _is_elsewhere(root, shared_dir)]


def _is_elsewhere(path: str, shared_dir: str) -> bool:
    return "://" not in path and not _is_below(path, shared_dir)


def _is_below(path: str, folder: str) -> bool:
    return pathlib.Path(folder) in (pathlib.Path(path), *pathlib.Path(path).parents)


def _copy(source: pathlib.Path, destination: pathlib.Path) -> None:
    if not source.is_dir():
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, destination)
        return
    # Whole or not at all: a step that was killed while copying copies again.
    if not destination.exists():
        partial = destination.with_name(f".{destination.name}.{os.getpid()}")
        shutil.copytree(source, partial, dirs_exist_ok=True)
        partial.rename(destination)
