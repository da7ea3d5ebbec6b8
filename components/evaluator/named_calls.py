"""Signatures called by their argument's name.

TFMA calls a SavedModel's signature with one unnamed tensor. TensorFlow then first tries to bind it by name, fails, and
writes the whole tensor of serialized examples into an error message that it throws away, for every batch: a fourth of
the time of evaluating 100,000 rows.
"""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow_model_analysis as tfma
from tensorflow_model_analysis import constants
from tensorflow_model_analysis.api import types as tfma_types


def custom_eval_shared_model(**parameters: Any) -> tfma.types.EvalSharedModel:
    """TFMA's own model, whose signatures take their only argument by name; parameters are TFMA's."""
    model = tfma.default_eval_shared_model(**parameters)
    if model.model_type != constants.TF_GENERIC:
        return model
    loader = model.model_loader
    load = functools.partial(_load, loader.construct_fn)
    return model._replace(model_loader=tfma_types.ModelLoader(construct_fn=load, tags=loader.tags))


def _load(construct: Callable[[], Any]) -> Any:
    return _Model(construct())


class _Model:
    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded
        self.signatures = {name: _Signature(function) for name, function in loaded.signatures.items()}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loaded, name)


class _Signature:
    def __init__(self, function: Any) -> None:
        self._function = function
        self.structured_input_signature = function.structured_input_signature

    def __call__(self, *unnamed: Any, **named: Any) -> Any:
        names = self.structured_input_signature[1]
        return self._function(**dict(zip(names, unnamed, strict=False)), **named)
