"""GPUs of this machine, shared out among local workers: TensorFlow would give each of them all."""

import pathlib
from collections.abc import Mapping, Sequence

VARIABLE = "CUDA_VISIBLE_DEVICES"
_DRIVER = pathlib.Path("/proc/driver/nvidia/gpus")


def visible(environ: Mapping[str, str], driver: pathlib.Path = _DRIVER) -> list[str]:
    """The GPUs that a process with this environment sees, as CUDA_VISIBLE_DEVICES names them."""
    if VARIABLE in environ:
        names = [name.strip() for name in environ[VARIABLE].split(",")]
        # CUDA stops reading at the first name that is no device, -1 above all.
        return names[: next((i for i, name in enumerate(names) if not name or name.startswith("-")), len(names))]
    return [str(i) for i, _ in enumerate(driver.iterdir())] if driver.is_dir() else []


def share(gpus: Sequence[str], num_workers: int, index: int) -> str | None:
    """CUDA_VISIBLE_DEVICES of one worker: its equal part of the GPUs.

    Returns:
      None where there is nothing to share out, or not one GPU for each worker: then everything stays as it is.
    """
    per_worker = len(gpus) // num_workers
    if num_workers == 1 or per_worker == 0:
        return None
    return ",".join(gpus[index * per_worker : (index + 1) * per_worker])
