"""Artifact types that Sluice's own components add to TFX's standard ones."""

from tfx.types import artifact


class IngestionReport(artifact.Artifact):
    """What ingestion read and what it made of it: `report.json` and `report.html`."""

    TYPE_NAME = "IngestionReport"
    PROPERTIES = {
        "span": artifact.Property(type=artifact.PropertyType.INT),
    }


class DataVerdict(artifact.Artifact):
    """Whether the data may be trained on, and why: `verdict.json` and `report.html`."""

    TYPE_NAME = "DataVerdict"
    PROPERTIES = {
        "accepted": artifact.Property(type=artifact.PropertyType.INT),
    }
