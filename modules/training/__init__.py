"""The distributed training engine.

`train(fn_args, build_model, ...)` does a whole training inside a TFX `run_fn`. For a loop of one's own the pieces
stand alone: `strategy.build_strategy`, `input.RecordInput`, `step.TrainStep`, `loop.StepLoop`,
`checkpoint.CheckpointFolder`, `evaluate.Evaluator`, `export.export`.

TF_USE_LEGACY_KERAS=1 must be in the environment before anything imports TensorFlow.
"""

from modules.training.config import TrainingConfig
from modules.training.errors import (
    NonFiniteError,
    PeerLostError,
    PreemptedError,
    StorageError,
    TrainingConfigError,
    TrainingDataError,
    TrainingError,
)
from modules.training.train import TrainingResult, train

__all__ = [
    "NonFiniteError",
    "PeerLostError",
    "PreemptedError",
    "StorageError",
    "TrainingConfig",
    "TrainingConfigError",
    "TrainingDataError",
    "TrainingError",
    "TrainingResult",
    "train",
]
