"""The journal of a serving folder: what every push did, one fsynced JSON line per state."""

import dataclasses
import datetime
import enum
import json
import os
import pathlib
from typing import Any

from components.pusher.content import fsync_path
from components.pusher.errors import PushError, explained


class State(enum.StrEnum):
    """How far a deployment came, in this order up to DONE; those after it end a deployment otherwise."""

    RESERVED = "RESERVED"  # the version number is taken for good
    STAGED = "STAGED"  # a proven copy lies beside the versions
    VERIFIED = "VERIFIED"  # it loads, and predicts what the trainer predicted
    PUBLISHED = "PUBLISHED"  # one rename made it visible
    AVAILABLE = "AVAILABLE"  # every replica has loaded it
    PROBED = "PROBED"  # every replica answered by explicit version, rightly
    CANARY = "CANARY"  # the canary label (or share of traffic) answers rightly
    PROMOTED = "PROMOTED"  # stable is this version
    DONE = "DONE"  # older versions are retired
    HELD = "HELD"  # it stays the canary until somebody promotes it or rolls it back
    UNDOING = "UNDOING"
    UNDONE = "UNDONE"
    ROLLING_BACK = "ROLLING_BACK"
    ROLLED_BACK = "ROLLED_BACK"

    @property
    def is_final(self) -> bool:
        return self in (State.DONE, State.HELD, State.UNDONE, State.ROLLED_BACK)


ORDER = list(State)[: list(State).index(State.DONE) + 1]


@dataclasses.dataclass(frozen=True)
class Record:
    """One line: `version` reached `state`; `detail` holds what a later step or a restart needs."""

    version: int
    state: State
    at: str = ""
    detail: dict[str, Any] = dataclasses.field(default_factory=dict)


class Journal:
    """Append-only file of records. Only the holder of the folder's lock appends."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    def append(self, version: int, state: State, **detail: Any) -> None:
        """Writes one record and makes it durable before it returns."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"version": version, "state": state, "at": now, "detail": detail}) + "\n"
        with explained(self.path, "write the journal"):
            is_new = not self.path.exists()
            self._drop_torn_line()
            with open(self.path, "ab", buffering=0) as file:
                file.write(line.encode())
                os.fsync(file.fileno())
            if is_new:
                fsync_path(self.path.parent)

    def records(self) -> list[Record]:
        """Every whole record, oldest first. A line torn by a crash never counted and is left out."""
        if not self.path.exists():
            return []
        text = self.path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1].decode(errors="replace")
        return [self._record(number, line) for number, line in enumerate(whole.splitlines(), 1)]

    def _record(self, number: int, line: str) -> Record:
        try:
            entry = json.loads(line)
            return Record(entry["version"], State(entry["state"]), entry["at"], entry["detail"])
        except (ValueError, KeyError, TypeError) as error:
            raise PushError(
                f"{self.path}:{number}: not a journal line ({error}); the file is damaged: look at what is published, "
                "then remove that line"
            ) from None

    def open_deployment(self) -> int | None:
        """The version whose deployment or rollback a crash interrupted, if any."""
        records = self.records()
        return records[-1].version if records and not records[-1].state.is_final else None

    def held_canary(self) -> int | None:
        """The version that the last push left as a canary, if it did."""
        records = self.records()
        return records[-1].version if records and records[-1].state == State.HELD else None

    def state(self, version: int) -> State | None:
        """The last state that `version` reached."""
        return next((record.state for record in reversed(self.records()) if record.version == version), None)

    def has_reached(self, version: int, state: State) -> bool:
        """Whether `version` was ever in `state`."""
        return any(record.version == version and record.state == state for record in self.records())

    def detail(self, version: int) -> dict[str, Any]:
        """Everything recorded about `version`; later records win."""
        merged: dict[str, Any] = {}
        for record in self.records():
            if record.version == version:
                merged.update(record.detail)
        return merged

    def highest_version(self) -> int:
        return max((record.version for record in self.records()), default=0)

    def _drop_torn_line(self) -> None:
        if not self.path.exists():
            return
        with open(self.path, "rb+") as file:
            text = file.read()
            if not text.endswith(b"\n"):
                file.truncate(text.rfind(b"\n") + 1)
