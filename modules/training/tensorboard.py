"""TensorBoard: training and evaluation curves, and a profile of a few steps."""

import tensorflow as tf

from modules.training.loop import At
from modules.training.telemetry import Snapshot


class TensorBoardWriter:
    """Writes to <folder>/train and <folder>/eval; on the chief only.

    Point TensorBoard at the folder above the runs' and it compares them.
    """

    def __init__(self, folder: str):
        self._train = tf.summary.create_file_writer(f"{folder}/train")
        self._eval = tf.summary.create_file_writer(f"{folder}/eval")

    def training(self, snapshot: Snapshot) -> None:
        """Loss, learning rate and the speed of the steps since the last point."""
        with self._train.as_default(step=snapshot.step):
            for name, value in snapshot.scalars().items():
                tf.summary.scalar(name, value)
        self._train.flush()

    def evaluation(self, step: int, metrics: dict[str, float]) -> None:
        with self._eval.as_default(step=step):
            for name, value in metrics.items():
                tf.summary.scalar(name, value)
        self._eval.flush()

    def close(self) -> None:
        self._train.close()
        self._eval.close()


class Profile:
    """Takes a profile over a window of steps; `boundaries` tells the loop to return at its edges."""

    def __init__(self, folder: str, window: tuple[int, int] | None, *, active: bool):
        self._folder, self._window, self._active = folder, window, active
        self._running = False

    def boundaries(self) -> list[At]:
        """Steps after which the loop must return; on all workers, because their calls must be alike."""
        return [] if self._window is None else [At(self._window[0] - 1), At(self._window[1])]

    def after(self, step: int) -> None:
        """Starts or stops after this step."""
        if self._window is None or not self._active:
            return
        first, last = self._window
        if not self._running and first - 1 <= step < last:
            tf.profiler.experimental.start(self._folder)
            self._running = True
        elif self._running and step >= last:
            self.close()

    def close(self) -> None:
        """Writes what was recorded, also when the training ends inside the window."""
        if self._running:
            tf.profiler.experimental.stop()
            self._running = False
            self._active = False
