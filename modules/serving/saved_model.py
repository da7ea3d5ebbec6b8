"""One SavedModel version in a TensorFlow session: the loading path closest to TensorFlow Serving's own."""

import dataclasses
import logging
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import config_pb2, meta_graph_pb2

from modules.serving.status import Code, ServingError, invalid

DEFAULT_SIGNATURE = "serving_default"
GRAPH_FILES = ("saved_model.pb", "saved_model.pbtxt")
_SERVE_TAG = "serve"
_NODE_NAMES = re.compile(r"\{\{[^{}]*\}\}\s*|\s*\[Op:[^\]]*\].*")  # of TensorFlow's own messages

# What a session raises, as the code a client should see. Everything else is INTERNAL.
_CODES = {
    tf.errors.InvalidArgumentError: Code.INVALID_ARGUMENT,
    tf.errors.OutOfRangeError: Code.INVALID_ARGUMENT,
    tf.errors.FailedPreconditionError: Code.FAILED_PRECONDITION,
    tf.errors.NotFoundError: Code.NOT_FOUND,
    tf.errors.ResourceExhaustedError: Code.RESOURCE_EXHAUSTED,
    tf.errors.UnimplementedError: Code.UNIMPLEMENTED,
    tf.errors.DeadlineExceededError: Code.DEADLINE_EXCEEDED,
    tf.errors.CancelledError: Code.UNAVAILABLE,
}


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """One input or output of a signature. `shape` is None for an unknown rank; -1 marks an unknown dimension."""

    name: str
    dtype: tf.DType
    shape: tuple[int, ...] | None

    @property
    def dtype_name(self) -> str:
        """The type as protocol messages write it, such as DT_FLOAT."""
        return types_pb2.DataType.Name(self.dtype.as_datatype_enum)

    def accepts(self, shape: Sequence[int]) -> bool:
        """Whether an array of `shape` can be fed."""
        if self.shape is None:
            return True
        return len(shape) == len(self.shape) and all(
            want in (-1, got) for want, got in zip(self.shape, shape, strict=True)
        )


@dataclasses.dataclass(frozen=True)
class Signature:
    """A named entry point of a model: aliases of its inputs and outputs, sorted by alias."""

    name: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]

    @property
    def example_input(self) -> str | None:
        """The alias of the one input that takes serialized tf.Examples (a string vector), or None."""
        if len(self.inputs) != 1:
            return None
        alias, spec = next(iter(self.inputs.items()))
        is_vector = spec.shape is None or len(spec.shape) == 1
        return alias if spec.dtype == tf.string and is_vector else None


class LoadedModel:
    """A SavedModel version, loaded. Safe to call from many threads; `close` frees the memory.

    Args:
      path: the version folder, which holds saved_model.pb.
      threads: threads of one session operation and between operations; 0 lets TensorFlow choose.
      run_timeout: seconds after which a call of the session is given up; 0 waits for ever.

    Raises:
      ServingError: NOT_FOUND when the folder holds no SavedModel, INTERNAL when it cannot be loaded.
    """

    def __init__(self, path: str, threads: int = 0, run_timeout: float = 0):
        if not any(os.path.isfile(os.path.join(path, name)) for name in GRAPH_FILES):
            raise ServingError(Code.NOT_FOUND, f"no saved_model.pb in {path}: not a SavedModel version folder")
        self.path = path
        tf.get_logger().addFilter(_is_no_loader_advice)
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads, allow_soft_placement=True
        )
        self._session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
        config.gpu_options.allow_growth = True  # leave the rest of a GPU to whoever else uses it
        self._run_options = config_pb2.RunOptions(timeout_in_ms=int(run_timeout * 1000))
        self._callables: dict[tuple[str, tuple[str, ...]], Callable[..., list[np.ndarray]]] = {}
        self._callables_lock = threading.Lock()
        try:
            with self._session.graph.as_default():
                self.meta_graph: meta_graph_pb2.MetaGraphDef = tf.compat.v1.saved_model.load(
                    self._session, [_SERVE_TAG], path
                )
            self.signatures = _signatures(self.meta_graph)
            self._session.graph.finalize()
        except Exception as error:
            self.close()
            raise ServingError(Code.INTERNAL, f"cannot load {path}: {cause(error)}") from error

    def signature(self, name: str = "") -> Signature:
        """The signature called `name`, or the default one."""
        wanted = name or DEFAULT_SIGNATURE
        try:
            return self.signatures[wanted]
        except KeyError:
            known = ", ".join(sorted(self.signatures)) or "none"
            raise invalid(f'Serving signature name: "{wanted}" not found in signature def (it has: {known})') from None

    def run(
        self, signature: Signature, inputs: Mapping[str, np.ndarray], outputs: Sequence[str] = ()
    ) -> dict[str, np.ndarray]:
        """Run `signature` on arrays keyed by input alias; returns arrays keyed by output alias.

        `outputs` restricts what is computed and returned; empty means every output.
        """
        aliases = tuple(outputs) or tuple(signature.outputs)
        feeds = [np.asarray(inputs[alias], dtype=_feed_dtype(spec)) for alias, spec in signature.inputs.items()]
        try:
            values = self._callable(signature, aliases)(*feeds)
        except (tf.errors.OpError, ValueError, TypeError, RuntimeError) as error:
            raise _as_serving_error(error) from error
        return dict(zip(aliases, values, strict=True))

    def _callable(self, signature: Signature, aliases: tuple[str, ...]) -> Callable[..., list[np.ndarray]]:
        """The session call for these outputs; Session.run would look up every name again at each request."""
        key = (signature.name, aliases)
        with self._callables_lock:
            if key not in self._callables:
                options = config_pb2.CallableOptions(
                    feed=[spec.name for spec in signature.inputs.values()],
                    fetch=[signature.outputs[alias].name for alias in aliases],
                    run_options=self._run_options,
                )
                # Not public, but the only way to the runtime's prepared call: 40 us against Session.run's 230 us.
                self._callables[key] = self._session._make_callable_from_options(options)
            return self._callables[key]

    def close(self) -> None:
        """Release the session and its variables."""
        with self._callables_lock:
            self._callables.clear()  # they hold on to the session
        self._session.close()

    def __enter__(self) -> "LoadedModel":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _is_no_loader_advice(record: logging.LogRecord) -> bool:
    """Drops the advice to load with tf.saved_model.load: a session is what TensorFlow Serving uses, so it is meant."""
    return "Use `tf.saved_model.load` instead" not in record.getMessage()


def _signatures(meta_graph: meta_graph_pb2.MetaGraphDef) -> dict[str, Signature]:
    found = {}
    for name, definition in meta_graph.signature_def.items():
        if name.startswith("__saved_model"):  # bookkeeping of the loader, without inputs
            continue
        inputs = {alias: _spec(info) for alias, info in sorted(definition.inputs.items())}
        outputs = {alias: _spec(info) for alias, info in sorted(definition.outputs.items())}
        found[name] = Signature(name, inputs, outputs)
    return found


def _spec(info: meta_graph_pb2.TensorInfo) -> TensorSpec:
    unknown = info.tensor_shape.unknown_rank
    shape = None if unknown else tuple(dim.size for dim in info.tensor_shape.dim)
    return TensorSpec(info.name, tf.dtypes.as_dtype(info.dtype), shape)


def _feed_dtype(spec: TensorSpec) -> np.dtype:
    """The array type that the session takes: strings travel as objects."""
    return np.dtype(object) if spec.dtype == tf.string else np.dtype(spec.dtype.as_numpy_dtype)


def _as_serving_error(error: Exception) -> ServingError:
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return ServingError(code, cause(error))
    if isinstance(error, ValueError | TypeError):  # the session refuses the fed value
        return ServingError(Code.INVALID_ARGUMENT, cause(error))
    if isinstance(error, RuntimeError) and not isinstance(error, tf.errors.OpError):  # the session was closed
        return ServingError(Code.UNAVAILABLE, cause(error))
    return ServingError(Code.INTERNAL, cause(error))


def cause(error: Exception) -> str:
    """What went wrong, in one line, without the graph dump and the names of nodes that TensorFlow adds."""
    message = error.message if isinstance(error, tf.errors.OpError) else str(error)
    message = _NODE_NAMES.sub("", message)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    # "Graph execution error:" and "... root error(s) found." are headings; the cause stands below them.
    causes = [line for line in lines if not line.endswith((":", "root error(s) found."))]
    return (causes or lines or [type(error).__name__])[0]
