"""What the registry knows of one model."""

import dataclasses
import json
from typing import Any

MODEL_FOLDER = "model"
"""Laid out as a TFX Model artifact: the SavedModel is in its Format-Serving folder."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lineage:
    """Where a model came from. Every field may be empty: a model pushed by hand has no run."""

    data_span: int | None = None
    data_fingerprint: str = ""
    schema_fingerprint: str = ""
    code_fingerprint: str = ""
    run: str = ""
    """The pipeline run that trained it."""

    source: str = ""
    """The URI that it was registered from."""

    parent: int | None = None
    """The version that was `stable` when this one was registered."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """One registered model."""

    name: str
    version: int
    created: str
    """ISO 8601, UTC."""

    digest: str
    """sha256 over every file; equal digests are equal models."""

    size: int
    """Bytes."""

    uri: str
    """The model, laid out as a TFX Model artifact."""

    lineage: Lineage = dataclasses.field(default_factory=Lineage)
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, text: str | bytes, uri: str) -> "ModelEntry":
        """Reads an entry; `uri` is where the model is now, which a copied or remounted registry changes."""
        fields = json.loads(text)
        return cls(**{**fields, "lineage": Lineage(**fields["lineage"]), "uri": uri})
