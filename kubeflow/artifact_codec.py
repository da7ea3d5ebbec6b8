"""TFX artifacts from Kubeflow's runtime artifacts, and their properties back."""

import hashlib
import importlib
from typing import Any

from google.protobuf import struct_pb2
from ml_metadata.proto import metadata_store_pb2
from tfx.types import artifact

from kubeflow.errors import StepInputError
from kubeflow.executor_input import RuntimeArtifact

_KUBEFLOW_KEYS = ("display_name", "store_session_info", "_kfp_workspace")
"""Keys that Kubeflow adds to every artifact's metadata."""
_INT64 = 1 << 63
PropertyType = metadata_store_pb2.PropertyType


def load_class(path: str) -> Any:
    """The class with this dotted path.

    Raises:
      StepInputError: where the image has no such class.
    """
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise StepInputError(f"the image has no {path} ({error}); was it built from other code?") from error


def to_tfx(runtime: RuntimeArtifact, class_path: str) -> artifact.Artifact:
    """The TFX artifact at the container's path of `runtime`, with the properties that its metadata holds.

    Kubeflow sends the metadata through its store, which knows fewer types than TFX: whole numbers come back as floats,
    and lists and mappings wrapped in a mapping.
    """
    result = load_class(class_path)()
    message = type(result.mlmd_artifact)()
    message.CopyFrom(result.mlmd_artifact)
    message.uri = runtime.path
    message.id = _numeric_id(runtime.name)
    declared = result.artifact_type.properties
    for key, wrapped in runtime.metadata.items():
        if key in _KUBEFLOW_KEYS:
            continue
        value = _unwrapped(wrapped)
        if key in declared:
            _set_declared(message.properties[key], declared[key], value)
        else:
            message.custom_properties[key.removeprefix(artifact.CUSTOM_PROPERTIES_PREFIX)].CopyFrom(_custom(value))
    result.set_mlmd_artifact(message)
    return result


def metadata(made: artifact.Artifact) -> dict[str, Any]:
    """Properties and custom properties as one JSON mapping; custom ones that share a name get TFX's prefix."""
    values = {key: _plain(value) for key, value in made.mlmd_artifact.properties.items()}
    for key, value in made.mlmd_artifact.custom_properties.items():
        clash = key in made.artifact_type.properties
        values[artifact.CUSTOM_PROPERTIES_PREFIX + key if clash else key] = _plain(value)
    return {key: value for key, value in values.items() if value is not None}


def _numeric_id(name: str) -> int:
    """Kubeflow's ids are numbers today and text tomorrow; TFX wants numbers."""
    if name.isdigit() and int(name) < _INT64:
        return int(name)
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % _INT64


def _unwrapped(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        key, inner = next(iter(value.items()))
        if (key == "list" and isinstance(inner, list)) or (key == "struct" and isinstance(inner, dict)):
            return inner
    return value


def _set_declared(target: Any, kind: int, value: Any) -> None:
    if kind == PropertyType.Value("INT"):
        target.int_value = int(value)
    elif kind == PropertyType.Value("DOUBLE"):
        target.double_value = float(value)
    elif kind == PropertyType.Value("STRING"):
        target.string_value = str(value)
    else:
        target.struct_value.CopyFrom(_encoded(value))


def _custom(value: Any) -> Any:
    """As a struct: TFX's getters read numbers and text from it whatever type they want."""
    return metadata_store_pb2.Value(struct_value=_encoded(value))


def _encoded(value: Any) -> struct_pb2.Struct:
    return artifact._encode_struct_value(value)


def _plain(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "struct_value":
        return artifact._decode_struct_value(value.struct_value)
    return getattr(value, kind)
