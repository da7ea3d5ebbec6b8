"""The latest blessed model, from the model registry: `python -m kubeflow.blessed_model probe|copy`.

`probe` is never cached: it says which version there is. `copy` is cached by that version: it makes it an artifact of
the run. On a first run there is none; then `resolved` is false, and the steps that read the artifact run without it.
"""

import argparse
import logging
import pathlib
import shutil

from kubeflow import plan, step_process
from kubeflow.executor_input import ExecutorInput

LOG = logging.getLogger("sluice")


def main(argv: list[str] | None = None) -> int:
    """Runs the probe or the copy; returns the exit code of the container."""
    parser = argparse.ArgumentParser(description="Started by Kubeflow's launcher; not for people.")
    parser.add_argument("action", choices=("probe", "copy"))
    parser.add_argument("--executor-input", required=True, help="what the launcher sends, as JSON")
    parser.add_argument("--name", required=True, help="the model's name in the registry")
    parser.add_argument("--model-port", help="output that gets the model")
    parser.add_argument("--blessing-port", help="output that gets its blessing")
    args = parser.parse_args(argv)
    request = ExecutorInput.from_json(args.executor_input)
    action = _probe if args.action == "probe" else _copy
    return step_process.guarded("blessed-model", lambda: action(args, request))


def _probe(args: argparse.Namespace, request: ExecutorInput) -> None:
    version = baseline_version(request.parameters[plan.REGISTRY_PARAMETER], args.name, _candidate_folder(request))
    LOG.info("the latest blessed model is %s", f"version {version}" if version else "not there yet")
    request.write_output({}, {"resolved": "true" if version else "false", "version": str(version or "")})


def baseline_version(root: str, name: str, candidate: pathlib.Path | None) -> int | None:
    """The version to compare with: the stable one, else the newest; None where there is none.

    Where the candidate itself is registered, because an earlier run made and blessed the very same model, it is what
    was there before it: a model compared with itself would say nothing.
    """
    from components.model_registry.registry import ModelRegistry, resolve
    from components.pusher.content import manifest_of

    entries = ModelRegistry(root, name).entries()
    if candidate is not None and candidate.is_dir():
        digest = manifest_of(candidate).digest
        own = [entry for entry in entries if entry.digest == digest]
        if own:
            older = [entry.version for entry in entries if entry.version < own[0].version]
            return own[0].lineage.parent or max(older, default=None)
    stable = resolve(root, name, "stable")
    return stable.version if stable else max((entry.version for entry in entries), default=None)


def _candidate_folder(request: ExecutorInput) -> pathlib.Path | None:
    from components.model_registry.registry import SERVING_FOLDER  # and not TFX, which takes ten seconds to import

    candidates = request.inputs.get("candidate", [])
    return pathlib.Path(candidates[0].path, SERVING_FOLDER) if candidates else None


def _copy(args: argparse.Namespace, request: ExecutorInput) -> None:
    from components.model_registry.registry import ModelRegistry

    version = request.parameters["version"]
    if not version:
        request.write_output({})
        return
    registry = ModelRegistry(request.parameters[plan.REGISTRY_PARAMETER], args.name)
    metadata: dict[str, dict] = {}
    if args.model_port:
        target = pathlib.Path(request.outputs[args.model_port].path)
        shutil.rmtree(target, ignore_errors=True)  # a retry finds what the attempt before it left
        entry = registry.fetch(version, target)
        metadata[args.model_port] = {"registry_version": entry.version, "digest": entry.digest}
    if args.blessing_port:
        folder = pathlib.Path(request.outputs[args.blessing_port].path)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "BLESSED").write_text(f"version {version} of {args.name}\n", encoding="utf-8")
        metadata[args.blessing_port] = {"blessed": 1}
    LOG.info("copied version %s", version)
    request.write_output(metadata)


if __name__ == "__main__":
    raise SystemExit(main())
