"""Runs the training step: the stock Trainer's inputs and outputs, with the work done by a cluster of processes."""

import os
import tempfile
from typing import Any

from tfx import types
from tfx.components.trainer import executor
from tfx.types import standard_component_specs
from tfx.utils import json_utils

from components.trainer import unfinished
from components.trainer.cluster_config import ClusterConfig
from components.trainer.errors import TrainingError
from components.trainer.fn_args import plain_fields
from components.trainer.launch import launch
from components.trainer.training_spec import TrainingSpec

CLUSTER_KEY = "cluster"
CODE_FINGERPRINT_KEY = "code_fingerprint"


class Executor(executor.GenericExecutor):
    """TFX's generic trainer, except that `run_fn` runs in the workers of a cluster and never in this process."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See TFX's BaseExecutor.

        Raises:
          TrainingError: training did not end well; nothing is left at the Model artifact.
          TrainingConfigError: it could not be started as configured.
        """
        cluster = ClusterConfig.from_json(exec_properties.get(CLUSTER_KEY) or "{}")
        [model] = output_dict[standard_component_specs.MODEL_KEY]
        [model_run] = output_dict[standard_component_specs.MODEL_RUN_KEY]
        # Read here as well as in the workers, so that a wrong input is reported before any process starts.
        fn_args = plain_fields(self._GetFnArgs(input_dict, output_dict, exec_properties))
        code = exec_properties.get(CODE_FINGERPRINT_KEY) or self._code_flag()
        identity = _identity(code, input_dict, exec_properties, cluster) if code else ""
        with unfinished.working_dir(model_run.uri, identity) as working_dir:
            spec = TrainingSpec(
                run_fn=exec_properties[standard_component_specs.RUN_FN_KEY],
                fn_args=fn_args | {"model_run_dir": working_dir},
                tfx={
                    "input_dict": json_utils.dumps(input_dict),
                    "output_dict": json_utils.dumps(output_dict),
                    "exec_properties": json_utils.dumps(exec_properties),
                },
                model_dir=model.uri,
                job_dir=_job_dir(working_dir),
                name=self._pipeline_name(),
            )
            try:
                launch(spec, cluster)
            except TrainingError as error:
                if working_dir == model_run.uri or not error.keeps_work:
                    raise
                hint = "the same run again goes on from the last checkpoint"
                raise TrainingError(f"{error}; {hint}", error.exit_code, keeps_work=True) from error

    def _pipeline_name(self) -> str:
        info = self._context.pipeline_info if self._context else None
        return info.id if info else "train"

    def _code_flag(self) -> str:
        """The fingerprint of the code that a runner has put into the executor spec, such as pipeline.local_runner."""
        return next((flag for flag in self._extra_flags or () if str(flag).startswith("code=")), "")


def _job_dir(working_dir: str) -> str:
    """Beside the TensorBoard logs, where a person will look; object stores cannot hold a file that grows."""
    return tempfile.mkdtemp(prefix="training-") if "://" in working_dir else os.path.join(working_dir, "job")


def _identity(
    code: str,
    input_dict: dict[str, list[types.Artifact]],
    exec_properties: dict[str, Any],
    cluster: ClusterConfig,
) -> str:
    inputs = {key: [artifact.uri for artifact in artifacts] for key, artifacts in input_dict.items()}
    # Where the workers run, and how often they may be restarted, is no part of the result. How many there are is.
    settings = exec_properties | {CODE_FINGERPRINT_KEY: code, CLUSTER_KEY: cluster.task_counts()}
    return unfinished.identity(inputs, settings)
