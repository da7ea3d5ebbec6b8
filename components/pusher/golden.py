"""Golden predictions: what the trainer's own model answered to a few examples, kept with the export.

Whoever loads the model later, in whatever server, can tell whether it is still the same model.
"""

import base64
import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from components.pusher.errors import PushError

GOLDEN_PATH = "assets.extra/golden_predictions.json"
WARMUP_PATH = "assets.extra/tf_serving_warmup_requests"  # made of the golden examples where the trainer wrote none


class GoldenError(PushError):
    """The golden predictions cannot be read, or the model does not answer as they say."""


@dataclasses.dataclass(frozen=True)
class Golden:
    """A request and the answer that must come back.

    Attributes:
      signature: the signature to ask.
      input_key: its one input, a [rows] string tensor of serialized tf.Examples.
      examples: the rows.
      outputs: by output name, shape [rows, ...].
      tolerance: relative to the trainer's value, or to the spread of its column where that is larger.
      absolute_tolerance: comes on top.
    """

    signature: str
    input_key: str
    examples: list[bytes]
    outputs: dict[str, np.ndarray]
    tolerance: float
    absolute_tolerance: float

    def compare(self, answer: Mapping[str, Any]) -> float:
        """The largest absolute difference over all outputs. Raises GoldenError above the tolerance.

        Whole numbers have to be equal: they are identifiers, classes or counts.
        """
        missing = sorted(self.outputs.keys() - answer.keys())
        if missing:
            raise GoldenError(f"the answer has {sorted(answer)}; the trainer's had {missing} too")
        return max(self._difference(name, wanted, np.asarray(answer[name])) for name, wanted in self.outputs.items())

    def _difference(self, name: str, wanted: np.ndarray, found: np.ndarray) -> float:
        if wanted.shape != found.shape:
            raise GoldenError(f"output {name!r} has shape {found.shape}; the trainer's had {wanted.shape}")
        if found.size == 0:
            return 0.0
        if not np.issubdtype(wanted.dtype, np.number) and wanted.dtype != bool:
            if not np.array_equal(_texts(found), _texts(wanted)):
                raise GoldenError(f"output {name!r} differs from the trainer's golden predictions")
            return 0.0
        allowed = self._allowed(wanted, found)
        wanted, found = wanted.astype(np.float64), found.astype(np.float64)
        close = np.isclose(found, wanted, rtol=0.0, atol=allowed, equal_nan=True)
        if not close.all():
            row = int(np.argmax(~close))
            raise GoldenError(
                f"output {name!r} differs from the trainer's golden predictions: value {row} is {found.flat[row]:.6g}, "
                f"the trainer's was {wanted.flat[row]:.6g} (allowed: {allowed.flat[row]:.2g} more or less)"
            )
        finite = np.isfinite(wanted) & np.isfinite(found)
        gaps = np.abs(found[finite] - wanted[finite])
        return float(gaps.max()) if gaps.size else 0.0

    def _allowed(self, wanted: np.ndarray, found: np.ndarray) -> np.ndarray:
        """How far each value may be off.

        Rounding goes with the size of what is added up, so a logit near zero may be off by a share of what its column
        spreads over the rows: the median distance from the median, which no single large value blows up.
        """
        if all(np.issubdtype(array.dtype, np.integer) or array.dtype == bool for array in (wanted, found)):
            return np.zeros(wanted.shape)
        values = np.where(np.isfinite(wanted), wanted, 0.0)
        centred = np.abs(values - np.median(values, axis=0)) if values.ndim else values
        spread = np.median(centred, axis=0) if values.ndim else 0.0
        return self.absolute_tolerance + self.tolerance * np.maximum(np.abs(values), spread)


def read_golden(model: pathlib.Path) -> Golden | None:
    """The golden predictions of a SavedModel folder; None where the trainer stored none. Raises GoldenError."""
    path = model / GOLDEN_PATH
    if not path.exists():
        return None
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        golden = Golden(
            signature=stored["signature"],
            input_key=stored["input_key"],
            examples=[base64.b64decode(text, validate=True) for text in stored["examples_b64"]],
            outputs={name: np.asarray(values) for name, values in stored["outputs"].items()},
            tolerance=float(tolerance := stored.get("tolerance", 1e-3)),
            # Records of before there were two tolerances meant both by one.
            absolute_tolerance=float(stored.get("absolute_tolerance", tolerance)),
        )
        if not golden.examples or not golden.outputs:
            raise ValueError("it holds no examples or no outputs")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise GoldenError(f"{GOLDEN_PATH} cannot be read: {error!r}") from None
    return golden


def _texts(values: np.ndarray) -> list[str]:
    return [value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in values.flat]
