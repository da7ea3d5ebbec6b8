"""What can go wrong in training, each with the exit code its process ends with.

The launcher reads the codes: 1 to 127 are permanent (do not restart), 138 means a peer was lost or stalled and 143
that the process was asked to stop; both of the latter are worth a restart of the whole gang.
"""

PEER_LOST = 138
PREEMPTED = 143


class TrainingError(RuntimeError):
    """Training cannot go on, and starting again will not help."""

    exit_code = 1


class TrainingConfigError(TrainingError):
    """A setting, TF_CONFIG or a combination of settings is wrong."""

    exit_code = 2


class TrainingDataError(TrainingError):
    """The training data cannot be used: missing, corrupt, or too few shards."""

    exit_code = 3


class StorageError(TrainingError):
    """Files could not be written or read: once that is put right, the same training goes on from its checkpoints."""

    keeps_work = True  # the Trainer step does not remove the checkpoints


class NonFiniteError(TrainingError):
    """A loss or gradient was NaN or infinite; `batch` is the global batch's number, from 0, over the whole training."""

    def __init__(self, message: str, batch: int):
        super().__init__(message)
        self.batch = batch


class PeerLostError(TrainingError):
    """Another worker died, was stopped, or makes no progress."""

    exit_code = PEER_LOST


class PreemptedError(TrainingError):
    """The process was asked to stop and has saved its work."""

    exit_code = PREEMPTED
