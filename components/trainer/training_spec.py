"""The file that tells every worker what to train: paths and plain values, no closures, no TFX needed to read it."""

import dataclasses
import json
import os
import pathlib
from typing import Any

SPEC_FILE = "spec.json"
STAGING_DIR = ".staging"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSpec:
    """One training job.

    `fn_args` has the plain fields of TFX's FnArgs. `tfx` has the artifacts and execution properties in TFX's own JSON,
    from which a worker rebuilds what cannot be written down (`data_accessor` holds closures); it is empty without a
    pipeline.
    """

    run_fn: str  # dotted path
    fn_args: dict[str, Any]
    tfx: dict[str, str]  # input_dict, output_dict, exec_properties
    model_dir: str  # root of the Model artifact; exports are staged inside and moved when all is done
    job_dir: str  # this file, logs and failure records
    name: str = "train"  # for people: jobs on a cluster are called after it

    @property
    def path(self) -> pathlib.Path:
        """Where the spec is written."""
        return pathlib.Path(self.job_dir, SPEC_FILE)

    def write(self) -> pathlib.Path:
        """Writes the spec into its job folder and returns the path."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")
        return self.path

    @classmethod
    def read(cls, path: str | os.PathLike) -> "TrainingSpec":
        """Reads what `write` wrote."""
        return cls(**json.loads(pathlib.Path(path).read_text(encoding="utf-8")))

    def staging_dir(self, task: str) -> str:
        """Where this task's exports go until the whole cluster is done. Only the chief's are kept."""
        return os.path.join(self.model_dir, STAGING_DIR, task)

    @property
    def chief_done_path(self) -> pathlib.Path:
        """Is there when the chief has trained and exported."""
        return pathlib.Path(self.job_dir, "chief-done")

    def failure_path(self, task: str) -> pathlib.Path:
        """Where a worker records why it failed."""
        return pathlib.Path(self.job_dir, "failures", f"{task}.json")
