"""`sluice train`: the Trainer step by itself, on folders."""

import argparse
import json
import pathlib
import sys
import time
from typing import Any

HELP = "train a run_fn on local workers, without a pipeline"

_ENGINE_OPTIONS = ("strategy", "precision", "accumulate", "batch_size", "learning_rate")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--run-fn", required=True, metavar="PATH", help="such as modules.taxi.model.run_fn")
    parser.add_argument("--examples", required=True, type=pathlib.Path, metavar="DIR", help="with Split-train")
    parser.add_argument("--output", required=True, type=pathlib.Path, metavar="DIR", help="for model and model_run")
    parser.add_argument("--schema", type=pathlib.Path, metavar="FILE", help="schema.pbtxt")
    parser.add_argument("--transform-graph", type=pathlib.Path, metavar="DIR", help="what Transform wrote")
    parser.add_argument("--base-model", type=pathlib.Path, metavar="DIR", help="SavedModel to start from")
    parser.add_argument("--steps", type=int, metavar="N", help="optimizer steps")
    parser.add_argument("--eval-steps", type=int, metavar="N", help="evaluation steps")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint in --output")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    cluster = parser.add_argument_group("cluster")
    cluster.add_argument("--workers", type=int, default=1, metavar="N", help="worker processes")
    cluster.add_argument("--parameter-servers", type=int, default=0, metavar="N", help="and a chief, if there are any")
    cluster.add_argument("--evaluator", action="store_true", help="a task that evaluates while parameter servers train")
    cluster.add_argument("--max-restarts", type=int, default=3, metavar="N", help="of all workers, after a lost one")
    engine = parser.add_argument_group("engine", "passed to run_fn as custom_config['training']")
    engine.add_argument("--strategy", metavar="NAME", help="auto, one_device, mirrored, multi_worker, parameter_server")
    engine.add_argument("--precision", metavar="NAME", help="float32, mixed_bfloat16 or mixed_float16")
    engine.add_argument("--accumulate", type=int, metavar="K", help="micro-batches per optimizer step")
    engine.add_argument("--batch-size", type=int, metavar="N", help="examples per replica and step")
    engine.add_argument("--learning-rate", type=float, metavar="X", help="of the optimizer")
    engine.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any other setting of the engine",
    )


def run(args: argparse.Namespace) -> int:
    """Trains; returns the exit code."""
    from components.trainer.cluster_config import ClusterConfig
    from components.trainer.stand_alone import make_spec

    started = time.monotonic()
    spec = make_spec(
        run_fn=args.run_fn,
        examples=args.examples,
        output=args.output,
        schema=args.schema,
        transform_graph=args.transform_graph,
        base_model=args.base_model,
        train_steps=args.steps,
        eval_steps=args.eval_steps,
        custom_config={"training": engine_settings(args)},
        resume=args.resume,
    )
    cluster = ClusterConfig(
        num_workers=args.workers,
        num_parameter_servers=args.parameter_servers,
        evaluator=args.evaluator,
        max_restarts=args.max_restarts,
    )
    if args.resume and not pathlib.Path(spec.fn_args["model_run_dir"]).exists():
        print(f"nothing to resume in {args.output}: training begins at step 0", file=sys.stderr)
    result = _launched(spec, cluster)
    summary = {
        "model": spec.fn_args["serving_model_dir"],
        "model_run": spec.fn_args["model_run_dir"],
        "num_workers": cluster.num_workers,
        "num_restarts": result.num_restarts,
        "seconds": round(time.monotonic() - started, 1),
    }
    if args.json:
        print(json.dumps(summary))
    else:
        print(f"trained in {summary['seconds']} s; the model is in {summary['model']}", file=sys.stderr)
    return 0


def _launched(spec: Any, cluster: Any) -> Any:
    """`launch`, which says how to go on where that makes sense."""
    from components.trainer.errors import TrainingError
    from components.trainer.launch import launch

    how = "add --resume to go on from the last checkpoint, if there is one"
    try:
        return launch(spec, cluster)
    except TrainingError as error:
        if not error.keeps_work:
            raise
        raise TrainingError(f"{error}; {how}", error.exit_code, keeps_work=True) from error
    except KeyboardInterrupt:
        print(how, file=sys.stderr)
        raise


def engine_settings(args: argparse.Namespace) -> dict[str, Any]:
    """The engine's settings that were given on the command line, and no others.

    Raises:
      TrainingConfigError: --set is not KEY=VALUE.
    """
    from components.trainer.errors import TrainingConfigError

    settings = {name: getattr(args, name) for name in _ENGINE_OPTIONS if getattr(args, name) is not None}
    for item in args.set:
        key, separator, text = item.partition("=")
        if not separator:
            raise TrainingConfigError(f'--set "{item}": expected KEY=VALUE, such as --set warmup_steps=100')
        try:
            settings[key] = json.loads(text)
        except json.JSONDecodeError:
            settings[key] = text  # a word, such as the name of an optimizer
    return settings
