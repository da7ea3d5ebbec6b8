"""The history of runs: one JSON file per run, kept up to date while it runs."""

import dataclasses
import datetime
import fcntl
import json
import os
import pathlib
import time
from typing import Any

from pipeline.errors import ConfigError


@dataclasses.dataclass
class StepRecord:
    """What became of one step: running, ran, cached, reused (from an earlier run), failed or not run."""

    name: str
    state: str = "not run"
    seconds: float = 0.0
    detail: str = ""
    outputs: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class RunRecord:
    """One run, as `sluice runs`, `sluice show` and `--json` tell it."""

    run_id: str
    workload: str
    root: str
    data: str
    started: str
    pid: int
    state: str = "running"
    seconds: float = 0.0
    steps: list[StepRecord] = dataclasses.field(default_factory=list)
    splits: dict[str, int] = dataclasses.field(default_factory=dict)
    metrics: dict[str, Any] = dataclasses.field(default_factory=dict)
    verdict: str = "none"
    reasons: list[str] = dataclasses.field(default_factory=list)
    pushed_version: str | None = None
    serving_dir: str | None = None
    prediction: dict[str, Any] | None = None
    samples: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    error: str | None = None
    exit_code: int | None = None

    @property
    def path(self) -> pathlib.Path:
        return runs_folder(self.root) / self.run_id / "run.json"

    @property
    def log_path(self) -> pathlib.Path:
        return self.path.with_name("log.txt")

    def step(self, name: str) -> StepRecord:
        return next(step for step in self.steps if step.name == name)

    def save(self) -> None:
        """Replaces the file in one step, so that a reader never sees half of it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")
        temporary.replace(self.path)


def runs_folder(root: str) -> pathlib.Path:
    return pathlib.Path(root, "runs")


def lock_path(root: str, workload: str) -> pathlib.Path:
    """The file that a run of this workload locks, with its process's number inside."""
    return pathlib.Path(root, f".{workload}.lock")


def start(workload: str, root: str, data: str, steps: list[str]) -> RunRecord:
    """A new record, saved, with an id that sorts by time."""
    while True:
        now = datetime.datetime.now()
        run_id = f"{workload}-{now:%Y%m%d-%H%M%S-%f}"[:-3]
        try:
            (runs_folder(root) / run_id).mkdir(parents=True)
            break
        except FileExistsError:  # another run began in the same millisecond
            time.sleep(0.001)
    record = RunRecord(
        run_id=run_id,
        workload=workload,
        root=root,
        data=data,
        started=now.isoformat(timespec="seconds"),
        pid=os.getpid(),
        steps=[StepRecord(name) for name in steps],
    )
    record.save()
    return record


def load_all(root: str, workload: str | None = None) -> list[RunRecord]:
    """All runs under `root`, newest first; one whose process is gone counts as interrupted."""
    records = [_load(path) for path in runs_folder(root).glob("*/run.json")]
    records = [record for record in records if workload in (None, record.workload)]
    return sorted(records, key=lambda record: record.started + record.run_id, reverse=True)


def find(root: str, run_id: str | None) -> RunRecord:
    """The run with this id (or a unique part of it), or the newest one.

    Raises:
      ConfigError: where there is none, or several fit.
    """
    records = load_all(root)
    if not records:
        raise ConfigError(f"no run under {root} yet: `sluice run` makes one")
    if run_id is None:
        return records[0]
    fits = [record for record in records if run_id in record.run_id]
    if len(fits) != 1:
        problem = "no run fits" if not fits else f"{len(fits)} runs fit"
        raise ConfigError(f"{problem} {run_id!r}: `sluice runs` lists them")
    return fits[0]


def _load(path: pathlib.Path) -> RunRecord:
    content = json.loads(path.read_text(encoding="utf-8"))
    content["steps"] = [StepRecord(**step) for step in content["steps"]]
    record = RunRecord(**content)
    lock = lock_path(str(path.parents[2]), record.workload)
    if record.state == "running" and not (_is_alive(record.pid) and _may_hold(lock, record.pid)):
        record.state = "interrupted"
    return record


def _may_hold(lock: pathlib.Path, pid: int) -> bool:
    """Whether the process may hold the lock that a run holds to its end.

    A number alone says little: a killed process that nobody waited for still has it, and another may have got it since.
    """
    try:
        with lock.open(encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return lock.read_text(encoding="utf-8") in ("", str(pid))  # empty: its holder is about to write there
    except OSError:  # no such file, or a file system without locks
        return True
    return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
