"""`sluice compile`."""

import argparse
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

HELP = "Compile a workload's pipeline for Kubeflow Pipelines, and check it as the cluster's API server would."
DEFAULT_CONFIG = "kubeflow.yaml"
BUILT_IMAGE = "build/kubeflow/image.json"
"""What `make image` notes about the image that it has built."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pipeline_arguments(parser)
    parser.add_argument("--output", metavar="FILE", help="where to (default: build/kubeflow/<name>.yaml; - for stdout)")
    parser.add_argument("--json", action="store_true", help="one JSON object, last on stdout")


def add_pipeline_arguments(parser: argparse.ArgumentParser) -> None:
    """What `compile` and `submit` need to know of the pipeline."""
    parser.add_argument("--workload", default="taxi", help="folder under modules/, or a dotted package")
    parser.add_argument(
        "--config", metavar="FILE", help=f"the cluster's side (default: {DEFAULT_CONFIG} if there is one)"
    )
    parser.add_argument(
        "--image", help="by git SHA or digest (default: `image` of the config, then what `make image` has built)"
    )
    parser.add_argument("--data", metavar="URL", help="where the pods find the data: a folder of a mounted claim")
    parser.add_argument("--workers", type=int, metavar="N", help="training workers (default: the workload's)")
    parser.add_argument("--precision", help="float32, mixed_bfloat16 or mixed_float16 (default: the workload's)")
    parser.add_argument("--train-steps", type=int, metavar="N", help="optimizer steps (default: the workload's)")
    parser.add_argument(
        "--beam",
        action="append",
        default=[],
        metavar="STEP=FLAGS",
        help="Beam flags of a step, or of `all`: another engine, for example (docs/scaling.md); may be repeated",
    )
    parser.add_argument("--no-cache", action="store_true", help="compile with caching off for every step")


def run(args: argparse.Namespace) -> int:
    compiled, size = compile_workload(args)
    text = compiled.to_yaml()
    if args.output == "-":
        print(text, end="")
        return 0
    path = pathlib.Path(args.output or f"build/kubeflow/{compiled.name}.yaml")
    _write(path, text)
    if args.json:
        print(json.dumps(_summary(compiled, size, str(path))))
        return 0
    num_tasks = len(compiled.pipeline_spec["deploymentSpec"]["executors"])
    print(f"{path}: {num_tasks} steps, checked as Kubeflow's API server checks them")
    for image in images_of(compiled):
        print(f"image: {image}{'' if '@sha256:' in image else ' (by tag; `make image PUSH=1` notes the digest)'}")
    print(f"request: {size.request:,} of {size.request_limit:,} bytes")
    print(f"workflow: about {size.workflow:,} of {size.workflow_limit:,} bytes")
    for name, default in compiled.parameters.items():
        print(f"  --param {name}={default if default is not None else '(must be given)'}")
    print(f"next: sluice submit --pipeline {path} --host http://localhost:8080")
    return 0


def _write(path: pathlib.Path, text: str) -> None:
    from pipeline.errors import ConfigError

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--output {path}: {error.strerror}") from None


def compile_workload(args: argparse.Namespace) -> tuple[Any, Any]:
    """The compiled pipeline of the workload and its size, for what the command line says."""
    from kubeflow import config as kubeflow_config
    from pipeline import config as pipeline_config

    _check_data(args.data)
    cluster = _cluster(args, kubeflow_config)
    if not cluster.storage_is_mounted:
        print(
            f"note: no claim is mounted at {cluster.storage}: models that are registered or pushed there are lost with "
            f"the pod; `default.volumes` of {DEFAULT_CONFIG} names claims (kubeflow/kubeflow.example.yaml)",
            file=sys.stderr,
        )
    scratch = tempfile.TemporaryDirectory(prefix="sluice-compile-")  # TFX makes the folder of a database that it gets
    settings = pipeline_config.make_config(
        args.workload,
        data=args.data,
        root=cluster.storage,
        metadata_path=f"{scratch.name}/unused.sqlite",
        num_workers=args.workers,
        precision=args.precision,
        train_steps=args.train_steps,
        beam=args.beam,
        enable_cache=not args.no_cache,
        compare_with_last_blessed_data=False,
    )
    _note_on_data(settings)
    print("reading the pipeline ...", file=sys.stderr)
    with scratch, contextlib.nullcontext() if args.debug else _quiet():
        from components.trainer.cluster_config import ClusterConfig
        from kubeflow import compiler, size
        from pipeline import pipeline

        trainer = ClusterConfig.from_dict(cluster.trainer_cluster(), "kubeflow config: trainer")
        compiled = compiler.compile_pipeline(pipeline.create_pipeline(settings, trainer), cluster)
        return compiled, size.measure(compiled.pipeline_spec, compiled.platform_spec)


def _note_on_data(settings: Any) -> None:
    """Says what is left to do where the data are the workload's own, made by a function on the machine of a run."""
    from pipeline import default_data

    name, made_by = settings.workload.name, settings.workload.data
    if settings.data_is_default and default_data.must_be_copied(made_by):
        print(
            f"note: the pods look for the data in {settings.data}, and no step puts them there: `sluice run --to "
            f"ExampleGen` of this workload writes them to build/data/{name}; copy that folder to the claim, or name "
            "another with --data or --param data=",
            file=sys.stderr,
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keeps what TensorFlow's native code logs while it is imported off the terminal."""
    from pipeline.quiet import NativeLogs

    logs = NativeLogs()
    try:
        yield
    finally:
        logs.restore()


def _check_data(data: str | None) -> None:
    """Pods know neither this machine's folders nor where the command was given."""
    from pipeline.errors import ConfigError

    if data is not None and not data.startswith("/") and not re.match(r"(package:|[a-z][a-z0-9]*://)\S", data):
        raise ConfigError(f"--data {data!r}: expected the data as pods see it: an absolute path below a mounted claim")


def _cluster(args: argparse.Namespace, kubeflow_config: Any) -> Any:
    path = args.config or (DEFAULT_CONFIG if pathlib.Path(DEFAULT_CONFIG).is_file() else None)
    configured = kubeflow_config.names_image(path) if path else False
    image = args.image or (None if configured else _built_image())
    if path:
        return kubeflow_config.load(path, image=image)
    return kubeflow_config.KubeflowConfig(image=image)


def _built_image() -> str:
    """The image that `make image` has noted, with a word on standard error where it is not that of the last commit."""
    from pipeline.errors import ConfigError

    path = pathlib.Path(BUILT_IMAGE)
    try:
        built = json.loads(path.read_text(encoding="utf-8"))
        image, made_from = built["image"], built["git_sha"]
    except FileNotFoundError:
        raise ConfigError(
            f"say which image the steps run in: --image NAME:GIT_SHA, `image:` in {DEFAULT_CONFIG}, or `make image`"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{path}: not what `make image` writes; run it again, or give --image") from None
    head = _head()
    if head and not head.startswith(made_from):
        print(f"note: {image} was built from {made_from}, and the last commit is {head[:12]}", file=sys.stderr)
    return image


def _head() -> str:
    """The commit that is checked out; empty outside a git repository."""
    command = ["git", "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""


def images_of(compiled: Any) -> list[str]:
    """The images that the pipeline's containers name, each once."""
    executors = compiled.pipeline_spec["deploymentSpec"]["executors"].values()
    return sorted({executor["container"]["image"] for executor in executors if "container" in executor})


def _summary(compiled: Any, size: Any, path: str) -> dict[str, Any]:
    return {
        "images": images_of(compiled),
        "name": compiled.name,
        "path": path,
        "digest": compiled.digest,
        "parameters": compiled.parameters,
        "steps": sorted(compiled.pipeline_spec["deploymentSpec"]["executors"]),
        "request_bytes": size.request,
        "workflow_bytes": size.workflow,
    }
