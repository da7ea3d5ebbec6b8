"""One run from start to finish: lock, put right, run the steps, read the results, write the record."""

import gc
import importlib
import logging
import os
import pathlib
import sys
import time

from tfx.orchestration import metadata

from pipeline import default_data, local_runner, quiet, recovery, report, run_record
from pipeline.ahead import Ahead
from pipeline.beam_shortcuts import beam_shortcuts
from pipeline.config import PipelineConfig
from pipeline.errors import ConfigError, ExitCode
from pipeline.pipeline import create_pipeline
from pipeline.run_record import RunRecord

PREDICTOR = "modules.serving.predictor"


def run(
    config: PipelineConfig,
    from_step: str | None = None,
    to_step: str | None = None,
    native_logs: quiet.NativeLogs | None = None,
    debug: bool = False,
) -> RunRecord:
    """Runs the pipeline and returns its record; a failed step is in the record, not raised.

    Args:
      config: what to run.
      from_step: first step to run, with the outputs of an earlier run for those before it.
      to_step: last step to run.
      native_logs: what native code logs is added to the run's log file.
      debug: logs go to the terminal too.

    Raises:
      ConfigError: before anything runs, for settings that cannot be right.
    """
    for path in (config.pipeline_root, os.path.dirname(config.metadata_path)):
        pathlib.Path(path).mkdir(parents=True, exist_ok=True)
    with recovery.exclusive(config.root, config.workload.name, _say):
        if config.data_is_default:
            default_data.make(config.workload.data, config.data)
        pipeline = create_pipeline(config)
        names = local_runner.step_names(pipeline)
        local_runner.check_range(from_step, to_step, names)
        base_run = _base_run(config, names, from_step)
        connection = metadata.sqlite_metadata_connection_config(config.metadata_path)
        for line in recovery.reconcile(connection, config.pipeline_root):
            _say(line)
        record = run_record.start(config.workload.name, config.root, config.data, names)
        record.serving_dir = config.serving_dir
        quiet.python_logs_to(str(record.log_path), debug)
        if native_logs:
            native_logs.send_to(str(record.log_path))
        gc.freeze()  # what is imported by now is not searched for garbage again
        progress, ahead = _Progress(record), Ahead(config, names, to_step)

        def on_step(name: str, state: str) -> None:
            progress.on_step(name, state)
            ahead.on_step(name, state)

        runner = local_runner.RecordingDagRunner(
            record, on_step, from_step=from_step, to_step=to_step, base_run=base_run
        )
        try:
            _run_steps(runner, pipeline, record, config)
        finally:
            ahead.close()
    return record


def _run_steps(runner, pipeline, record: RunRecord, config: PipelineConfig) -> None:
    start = time.monotonic()
    arguments, sys.argv = sys.argv, sys.argv[:1]  # TFX's Beam steps would parse them as absl flags
    try:
        with beam_shortcuts():
            runner.run(pipeline)
        record.state, record.exit_code = "done", int(ExitCode.OK)
        _read_results(record, config)
    except KeyboardInterrupt:
        record.state, record.error, record.exit_code = "stopped", "stopped by Ctrl-C", 130
        raise
    except Exception as error:
        logging.getLogger("sluice").error("the run failed", exc_info=error)
        record.state = "failed"
        record.exit_code = int(getattr(error, "exit_code", ExitCode.STEP_FAILED))
        record.error = _message(error)
    finally:
        sys.argv = arguments
        record.seconds = round(time.monotonic() - start, 1)
        record.save()


def _message(error: Exception) -> str:
    if getattr(error, "exit_code", None) is not None:
        return str(error)
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no message'}"


def _base_run(config: PipelineConfig, names: list[str], from_step: str | None) -> RunRecord | None:
    """The newest run that has outputs of every step before `from_step`."""
    if from_step is None or from_step == names[0]:
        return None
    needed = names[: names.index(from_step)]
    for record in run_record.load_all(config.root, config.workload.name):
        steps = {step.name: step for step in record.steps}
        if all(name in steps and _has_outputs(steps[name]) for name in needed):
            return record
    raise ConfigError(
        f"--from {from_step}: no earlier run under {config.root} has the outputs of {', '.join(needed)}. "
        "Run once without --from."
    )


def _has_outputs(step: run_record.StepRecord) -> bool:
    """Whether the step ended well and nobody has removed since what it wrote."""
    uris = [uri for uri in step.outputs.values() if "://" not in uri]
    return step.state in ("ran", "cached", "reused") and all(os.path.exists(uri) for uri in uris)


def _read_results(record: RunRecord, config: PipelineConfig) -> None:
    ingest = record.step("ExampleGen")
    if ingest.outputs:
        record.splits = report.split_rows(ingest.outputs)
    evaluator = record.step("Evaluator")
    if not evaluator.outputs:
        record.verdict = "not evaluated"
        return
    verdict = report.read_verdict(evaluator.outputs["evaluation"])
    record.metrics = report.overall_metrics(verdict)
    record.verdict = "blessed" if verdict["blessed"] else "not blessed"
    record.reasons = verdict["reasons"]
    if not verdict["blessed"]:
        record.exit_code = int(ExitCode.NOT_BLESSED)
        return
    pusher = record.step("Pusher")
    if pusher.outputs:
        record.pushed_version = _latest_version(config.serving_dir)
        version_dir = os.path.join(config.serving_dir, str(record.pushed_version))
        if config.workload.ask:
            record.samples = _ask(version_dir, config.workload.ask)
        else:
            record.prediction = _predict(version_dir, ingest.outputs["examples"])


def _latest_version(base: str) -> str:
    return str(importlib.import_module(PREDICTOR).latest_version(base))


def _predict(version_dir: str, examples_uri: str) -> dict:
    """One real answer of the pushed model, through its serving signature, to a raw tf.Example of the eval split."""
    predictor = importlib.import_module(PREDICTOR)
    rows = importlib.import_module("modules.serving.example_rows")
    example = _first_example(examples_uri)
    return {"input": rows.decode_example(example), "output": predictor.predict_examples(version_dir, [example])[0]}


def _ask(version_dir: str, rows: tuple[dict, ...]) -> list[dict]:
    """The pushed model's answers, through its serving signature, to the rows that the workload asks about."""
    answers = importlib.import_module(PREDICTOR).predict_rows(version_dir, rows)
    return [{"input": row, "output": answer} for row, answer in zip(rows, answers, strict=True)]


def _first_example(examples_uri: str) -> bytes:
    import tensorflow as tf

    files = sorted(str(path) for path in pathlib.Path(examples_uri, "Split-eval").iterdir())
    return next(iter(tf.data.TFRecordDataset(files, compression_type="GZIP"))).numpy()


class _Progress:
    """One line per step on stderr, as it happens."""

    def __init__(self, record: RunRecord):
        self._record = record
        self._terminal = sys.stderr.isatty()
        self._width = max(len(step.name) for step in record.steps)

    def on_step(self, name: str, state: str) -> None:
        position = [step.name for step in self._record.steps].index(name) + 1
        head = f"[{position:2d}/{len(self._record.steps)}] {name:{self._width}}"
        if state == "running":
            if self._terminal:
                print(f"{head}  ...", end="\r", file=sys.stderr, flush=True)
            return
        step = self._record.step(name)
        step.detail = report.describe(name, step.outputs)
        seconds = f"{step.seconds:6.1f} s" if state in ("ran", "failed") else " " * 8
        print(f"{head}  {state:7}  {seconds}  {step.detail}".rstrip(), file=sys.stderr, flush=True)


def _say(line: str) -> None:
    print(f"sluice: {line}", file=sys.stderr, flush=True)
