"""Titles and class paths of artifact types."""

from tfx.types import artifact, standard_artifacts

_STANDARD = {value for value in vars(standard_artifacts).values() if isinstance(value, type)}


def class_path(any_class: type) -> str:
    """Dotted path from which a step's container imports a class."""
    return f"{any_class.__module__}.{any_class.__qualname__}"


def schema_title(artifact_class: type[artifact.Artifact]) -> str:
    """What Kubeflow shows as the artifact's type: `tfx.Examples`, or `sluice.DataVerdict` for types that TFX lacks."""
    namespace = "tfx" if artifact_class in _STANDARD else "sluice"
    return f"{namespace}.{artifact_class.__name__}"


def schema(artifact_class: type[artifact.Artifact]) -> dict[str, str]:
    """The type as the pipeline spec holds it."""
    return {"schemaTitle": schema_title(artifact_class), "schemaVersion": "0.0.1"}
