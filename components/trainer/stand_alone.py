"""A training job from folders on disk, without a pipeline and without importing TFX (`sluice train`)."""

import pathlib
from typing import Any

from components.trainer.errors import TrainingConfigError
from components.trainer.training_spec import TrainingSpec

MODEL_DIR = "model"
MODEL_RUN_DIR = "model_run"
JOB_DIR = "job"


def make_spec(
    *,
    run_fn: str,
    examples: pathlib.Path,
    output: pathlib.Path,
    schema: pathlib.Path | None = None,
    transform_graph: pathlib.Path | None = None,
    base_model: pathlib.Path | None = None,
    train_steps: int | None = None,
    eval_steps: int | None = None,
    custom_config: dict[str, Any] | None = None,
    resume: bool = False,
) -> TrainingSpec:
    """Describes the job; nothing is written yet.

    Args:
      run_fn: dotted path.
      examples: folder with `Split-train` and `Split-eval` (the latter may be missing), each holding TFRecord files.
      output: the model goes to `model/Format-Serving` in it, checkpoints and logs to `model_run`.
      schema: schema.pbtxt.
      transform_graph: folder that Transform wrote.
      base_model: SavedModel to start from.
      train_steps: optimizer steps; None leaves it to run_fn.
      eval_steps: evaluation steps; None leaves it to run_fn.
      custom_config: passed to run_fn.
      resume: go on with what `model_run` holds; otherwise it must not hold anything.

    Raises:
      TrainingConfigError: a path is not what it should be.
    """
    _require(
        "." in run_fn and all(part.isidentifier() for part in run_fn.split(".")),
        f'run_fn is "{run_fn}"; expected a dotted path, such as my_package.model.run_fn',
    )
    for name, number in (("steps", train_steps), ("eval_steps", eval_steps)):
        _require(number is None or number > 0, f"{name} is {number}; expected a number above 0")
    examples, output = examples.resolve(), output.resolve()
    _require((examples / "Split-train").is_dir(), f"examples: {examples} has no folder Split-train with TFRecord files")
    for path, name in ((schema, "schema"), (transform_graph, "transform graph"), (base_model, "base model")):
        _require(path is None or path.exists(), f"{name}: {path} does not exist")
    model_run = output / MODEL_RUN_DIR
    # A run that failed before its first checkpoint leaves only its logs: nothing that another one could mix up.
    is_fresh = not model_run.exists() or all(path.name == JOB_DIR for path in model_run.iterdir())
    _require(
        resume or is_fresh,
        f"{model_run} holds an earlier run; add --resume to go on with it, or choose another --output",
    )
    return TrainingSpec(
        run_fn=run_fn,
        fn_args={
            "train_files": [str(examples / "Split-train" / "*")],
            "eval_files": [str(examples / "Split-eval" / "*")] if (examples / "Split-eval").is_dir() else [],
            "train_steps": train_steps,
            "eval_steps": eval_steps,
            "schema_path": _text(schema),
            "schema_file": _text(schema),
            "transform_graph_path": _text(transform_graph),
            "transform_output": _text(transform_graph),
            "serving_model_dir": str(output / MODEL_DIR / "Format-Serving"),
            "eval_model_dir": str(output / MODEL_DIR / "Format-TFMA"),
            "model_run_dir": str(model_run),
            "base_model": _text(base_model),
            "custom_config": custom_config or {},
        },
        tfx={},
        model_dir=str(output / MODEL_DIR),
        job_dir=str(model_run / JOB_DIR),
    )


def tfx_arguments(spec: TrainingSpec) -> tuple[dict, dict, dict]:
    """What TFX would hand to an executor for this job: input_dict, output_dict and exec_properties."""
    from tfx.proto import trainer_pb2
    from tfx.types import artifact_utils, standard_artifacts
    from tfx.utils import proto_utils

    examples = standard_artifacts.Examples()
    split_train = pathlib.Path(spec.fn_args["train_files"][0]).parent
    examples.uri = str(split_train.parent)
    splits = [path.name.removeprefix("Split-") for path in split_train.parent.glob("Split-*")]
    examples.split_names = artifact_utils.encode_split_names(sorted({*splits, "eval"}))
    model, model_run = standard_artifacts.Model(), standard_artifacts.ModelRun()
    model.uri, model_run.uri = spec.model_dir, spec.fn_args["model_run_dir"]
    exec_properties = {
        "train_args": proto_utils.proto_to_json(trainer_pb2.TrainArgs()),
        "eval_args": proto_utils.proto_to_json(trainer_pb2.EvalArgs()),
        "custom_config": "null",
    }
    return {"examples": [examples]}, {"model": [model], "model_run": [model_run]}, exec_properties


def _text(path: pathlib.Path | None) -> str | None:
    return None if path is None else str(path.resolve())


def _require(is_valid: object, message: str) -> None:
    if not is_valid:
        raise TrainingConfigError(message)
