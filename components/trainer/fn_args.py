"""FnArgs for `run_fn`, without paying for TFX where nobody asked for it.

Importing tfx.components takes about as long as importing TensorFlow, because it pulls in Beam and TFMA. Most run_fns
read paths and step counts only. So: when the user's module has imported TFX, it gets TFX's own FnArgs; when it has not,
it gets the same attributes from this module, and `data_accessor` imports TFX when it is first read.
"""

import json
import sys
from typing import Any

from components.trainer import stand_alone
from components.trainer.training_spec import TrainingSpec

_TFX_MODULE = "tfx.components.trainer.fn_args_utils"


_FIELDS = [
    "working_dir",
    "train_files",
    "eval_files",
    "train_steps",
    "eval_steps",
    "schema_path",
    "schema_file",
    "transform_graph_path",
    "transform_output",
    "serving_model_dir",
    "eval_model_dir",
    "model_run_dir",
    "base_model",
    "hyperparameters",
    "custom_config",
]


class FnArgs:
    """The attributes of tfx.components.FnArgs, those that were not given being None."""

    def __init__(self, spec: TrainingSpec, values: dict[str, Any]):
        self._spec = spec
        self._data_accessor: Any = None
        self.__dict__.update(dict.fromkeys(_FIELDS) | values)

    @property
    def data_accessor(self) -> Any:
        """TFX's DataAccessor for the examples artifact."""
        if self._data_accessor is None:
            self._data_accessor = _tfx_fn_args(self._spec).data_accessor
        return self._data_accessor


def make_fn_args(spec: TrainingSpec, serving_model_dir: str, eval_model_dir: str) -> Any:
    """FnArgs for one worker, whose exports go to the two folders given. Call it after importing the user's module."""
    values = spec.fn_args | {"serving_model_dir": serving_model_dir, "eval_model_dir": eval_model_dir}
    if _TFX_MODULE not in sys.modules and "custom_config" in values:
        return FnArgs(spec, values)
    fn_args = _tfx_fn_args(spec)
    for name, value in values.items():
        setattr(fn_args, name, value)
    return fn_args


def plain_fields(fn_args: Any) -> dict[str, Any]:
    """The fields of TFX's FnArgs that can be written as JSON: not `data_accessor`, not a custom_config with protos."""
    return {name: value for name, value in vars(fn_args).items() if name != "data_accessor" and _is_json(value)}


def _is_json(value: Any) -> bool:
    try:
        return json.loads(json.dumps(value)) == value
    except TypeError:
        return False


def _tfx_fn_args(spec: TrainingSpec) -> Any:
    from tfx.components.trainer import executor
    from tfx.utils import json_utils

    if spec.tfx:
        arguments = [json_utils.loads(spec.tfx[key]) for key in ("input_dict", "output_dict", "exec_properties")]
    else:
        arguments = list(stand_alone.tfx_arguments(spec))
    return executor.GenericExecutor()._GetFnArgs(*arguments)
