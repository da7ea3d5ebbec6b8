"""Starting from the weights of a model that is already out there."""

import tensorflow as tf
import tf_keras

from modules.training.errors import TrainingConfigError
from modules.training.telemetry import say


def warm_start(model: tf_keras.Model, base_model: str) -> list[str]:
    """Copies every weight that has the same name and shape in `base_model`, a SavedModel of this engine or of Keras.

    Args:
      model: the model to start from there.
      base_model: folder of the SavedModel (fn_args.base_model).

    Returns:
      Names of the variables that kept their fresh values, because a vocabulary has grown, say.

    Raises:
      TrainingConfigError: the folder is no SavedModel, or nothing in it fits.
    """
    try:
        loaded = tf.saved_model.load(base_model)
    except (OSError, tf.errors.OpError) as error:
        raise TrainingConfigError(f"cannot warm start from {base_model}: {str(error).splitlines()[0]}") from None
    known = getattr(loaded, "model_variables", None) or getattr(loaded, "variables", [])
    values = {variable.name: variable for variable in known}
    fresh = []
    for variable in model.variables:
        value = values.get(variable.name)
        if value is None or value.shape != variable.shape:
            fresh.append(f"{variable.name} {tuple(variable.shape)}")
        else:
            variable.assign(value)
    if len(fresh) == len(model.variables):
        raise TrainingConfigError(
            f"nothing in {base_model} fits this model; set warm_start to false to start from scratch"
        )
    say(f"warm start: {len(model.variables) - len(fresh)} of {len(model.variables)} variables from {base_model}")
    return fresh
