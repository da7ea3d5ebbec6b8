"""What a person and a dashboard see of a running training."""

import dataclasses
import sys
import time
from typing import Protocol

import numpy as np

from modules.training.loop import StepRecords


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """Measurements over the steps since the previous snapshot."""

    step: int
    total_steps: int
    loss: float
    grad_norm: float
    learning_rate: float
    loss_scale: float
    skipped_steps: int
    examples_per_s: float
    step_p50_s: float
    step_p95_s: float
    input_wait_share: float
    all_reduce_share: float

    def scalars(self) -> dict[str, float]:
        """By the name under which TensorBoard and Prometheus know them."""
        values = dataclasses.asdict(self)
        values.pop("total_steps")
        return {name: float(value) for name, value in values.items()}

    def line(self) -> str:
        """One line for a person."""
        width = len(str(self.total_steps))
        left_s = (self.total_steps - self.step) * self.step_p50_s
        parts = [
            f"step {self.step:>{width}}/{self.total_steps}",
            f"loss {self.loss:.4f}",
            f"{self.examples_per_s:,.{0 if self.examples_per_s >= 100 else 1}f} examples/s",
            f"ETA {duration(left_s)}",
        ]
        if self.input_wait_share > 0.05:
            parts.append(f"waiting for input {self.input_wait_share:.0%}")
        if self.skipped_steps:
            parts.append(f"{self.skipped_steps} skipped")
        return "  ".join(parts)


def duration(seconds: float) -> str:
    """45 s, 3 min 20 s, 2 h 05 min."""
    seconds = max(0, round(seconds))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02d} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02d} min"


class Reporter(Protocol):
    """Somebody who wants to know how the training goes."""

    def training(self, snapshot: Snapshot) -> None:
        """Called every few seconds or `log_every` steps."""

    def evaluation(self, step: int, metrics: dict[str, float]) -> None:
        """Called after every evaluation."""

    def close(self) -> None:
        """Called once, however the training ends."""


class Window:
    """Collects step records until somebody wants a snapshot."""

    def __init__(self, global_batch: int, total_steps: int):
        self._global_batch, self._total_steps = global_batch, total_steps
        self._records: list[StepRecords] = []
        self._opened = time.monotonic()

    def add(self, records: StepRecords) -> None:
        self._records.append(records)

    @property
    def age_s(self) -> float:
        return time.monotonic() - self._opened

    def close(self, *, learning_rate: float, loss_scale: float, skipped_steps: int) -> Snapshot | None:
        """The snapshot of everything added; None if nothing was. The window starts again empty."""
        records, self._records, elapsed_s = self._records, [], self.age_s
        self._opened = time.monotonic()
        if not records:
            return None
        step_s = np.concatenate([r.step_s for r in records])
        total_s = max(float(step_s.sum()), 1e-9)
        good = np.concatenate([r.loss for r in records])
        good = good[np.isfinite(good)]
        norms = np.concatenate([r.grad_norm for r in records])
        return Snapshot(
            step=records[-1].first_step + records[-1].num_steps,
            total_steps=self._total_steps,
            loss=float(good.mean()) if len(good) else float("nan"),
            grad_norm=float(norms[-1]),
            learning_rate=learning_rate,
            loss_scale=loss_scale,
            skipped_steps=skipped_steps,
            examples_per_s=len(step_s) * self._global_batch / max(elapsed_s, 1e-9),
            step_p50_s=float(np.percentile(step_s, 50)),
            step_p95_s=float(np.percentile(step_s, 95)),
            input_wait_share=float(sum(r.wait_s.sum() for r in records)) / total_s,
            all_reduce_share=float(sum(r.reduce_s.sum() for r in records)) / total_s,
        )


def say(text: str) -> None:
    """A line on stderr: stdout belongs to the command's result."""
    print(text, file=sys.stderr, flush=True)
