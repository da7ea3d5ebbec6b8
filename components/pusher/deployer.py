"""The deployer: takes a model from a folder to where it serves, state by state, through any crash.

    RESERVED -> STAGED -> VERIFIED -> PUBLISHED -> AVAILABLE -> PROBED -> CANARY -> PROMOTED -> DONE

Every state is journalled once it is reached. A crash before the rename that publishes is undone by the next push; a
crash after it is resumed. A failure after it restores the servers first, confirms that the model which served before
answers, and only then takes the failed version out of sight.
"""

import dataclasses
import pathlib
import time
from collections.abc import Callable
from typing import Any, NoReturn

from components.pusher import content, recorded_files, verification
from components.pusher.base_folder import BaseFolder
from components.pusher.config import PushTarget
from components.pusher.errors import PushError, explained
from components.pusher.journal import ORDER, State
from components.pusher.rollout import Rollout, Unobserved

Verify = Callable[[pathlib.Path, PushTarget], dict[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PushResult:
    """What a push came to."""

    version: int
    destination: str
    """The folder of the published version."""

    outcome: str
    """"pushed"; "unchanged": the live version (or the canary held) has this very content; "held as canary";
    "rolled back"; "recovered: ..." with one of these, or with "undone"."""

    digest: str
    """sha256 over the model's files as the trainer wrote them."""

    observed: bool
    """Whether servers confirmed that they serve it. False: the folder is published, and nobody was asked."""

    previous_version: int | None = None
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    """Seconds per state."""

    report: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The verifying process's report."""

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


class Deployer:
    """Deploys models to one target.

    Args:
      target: where to.
      rollout: the servers' side; by default made from the target.
      verify: loads and checks a staged model; by default in a process of its own.
      boundary: called with the name of every state boundary as it is crossed; tests kill the process there.
      clock: seconds since the epoch.
    """

    def __init__(
        self,
        target: PushTarget,
        *,
        rollout: Rollout | None = None,
        verify: Verify = verification.verify_in_subprocess,
        boundary: Callable[[str], None] = lambda name: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.target = target
        self.folder = BaseFolder(target.base, target.name, nested=target.kind == "kserve")
        self.rollout: Rollout = rollout or Unobserved(self.folder)
        self._verify = verify
        self._boundary = boundary
        self._clock = clock
        self._seconds: dict[str, float] = {}

    def push(self, model: str | pathlib.Path) -> PushResult:
        """Deploys the SavedModel folder `model`; returns once it serves.

        The same content as the live version's is not pushed again. What an earlier push left half done is finished
        or undone first. Raises PushError; what served before then still serves.
        """
        source = pathlib.Path(model)
        if not ({"saved_model.pb", "saved_model.pbtxt"} & content.list_files(source).keys()):
            raise PushError(f"{source}: no saved_model.pb or saved_model.pbtxt; {_what_to_give(source)}")
        with self.folder.locked(self.target.lock_timeout_s):
            self._recover_or_undo()
            if unchanged := self._unchanged(source):
                return unchanged
            return self._deploy(source)

    def recover(self) -> PushResult | None:
        """Finishes or undoes what a crash interrupted; None when nothing was."""
        with self.folder.locked(self.target.lock_timeout_s):
            return self._recover()

    def rollback(self) -> PushResult:
        """Makes the version before the live one live again, and takes the live one out of sight; ends a held canary.

        Raises PushError when there is none to go back to.
        """
        with self.folder.locked(self.target.lock_timeout_s):
            self._recover()
            live = self.rollout.live_version()
            bad, good = self._bad_and_good(live)
            self.folder.journal.append(bad, State.ROLLING_BACK, back_to=good)
            return self._roll_back(bad, good)

    def promote(self) -> PushResult:
        """Makes the canary that the last push held the stable version. Raises PushError when none is held."""
        with self.folder.locked(self.target.lock_timeout_s):
            self._recover()
            held = self.folder.journal.held_canary()
            if held is None:
                raise PushError(f"{self.folder.path}: no canary is held; push with hold_canary first")
            self.folder.journal.append(held, State.CANARY)
            return self._advance(held, State.CANARY)

    def _bad_and_good(self, live: int | None) -> tuple[int, int]:
        """What a rollback takes away, and what it goes back to: from a held canary to the live version."""
        held = self.folder.journal.held_canary()
        if held is not None and live is not None and held != live:
            return held, live
        older = [version for version in self.folder.versions() if live is not None and version < live]
        if live is None or not older:
            there = ", ".join(map(str, self.folder.versions())) or "none"
            raise PushError(
                f"{self.folder.path}: no older version to go back to (there: {there}); "
                "push the model wanted, for instance from the registry: sluice models list"
            )
        return live, older[-1]

    def _deploy(self, source: pathlib.Path) -> PushResult:
        with self._timed(State.RESERVED):
            version = self.folder.next_version(self._clock(), self.rollout.highest_version())
            self._boundary("before RESERVED")
            self.folder.journal.append(
                version,
                State.RESERVED,
                snapshot=self.rollout.snapshot(),
                source=str(source),
                hold=self.target.hold_canary,
            )
            staging = self.folder.reserve(version)
            self._boundary("after RESERVED")
        try:
            self._stage_and_verify(source, staging, version)
        except PushError as error:
            self.folder.empty_staging(version)  # first: on a full disk even the journal needs the space
            self._fail(version, error)
        return self._advance(version, State.VERIFIED, hold=self.target.hold_canary)

    def _stage_and_verify(self, source: pathlib.Path, staging: pathlib.Path, version: int) -> None:
        with self._timed(State.STAGED), explained(self.folder.path, "copy the model"):
            self._boundary("before STAGED")
            self.folder.check_space(sum(content.list_files(source).values()))
            self._boundary("within STAGED")
            manifest = content.copy_verified(source, staging)
            self.folder.journal.append(version, State.STAGED, digest=manifest.digest)
            self._boundary("after STAGED")
        with self._timed(State.VERIFIED):
            recorded_files.check(source, manifest)  # the copy's, which equals the source's
            report = self._verify(staging, self.target)
            with explained(self.folder.path, "keep the model's manifest"):
                content.fsync_tree(self.folder.staging_path(version))
                self.folder.write_manifest(version, _with_new_files(staging, manifest))
            self._boundary("before VERIFIED")
            self.folder.journal.append(version, State.VERIFIED, report=report)
            self._boundary("after VERIFIED")

    def _advance(self, version: int, reached: State, hold: bool = False) -> PushResult:
        """Runs every state after `reached`, with `hold` only up to the canary; a failure undoes the deployment."""
        steps = {State.PUBLISHED: self._publish, **self.rollout.steps(), State.DONE: self._retire}
        for state in [state for state in ORDER[ORDER.index(reached) + 1 :] if state in steps]:
            try:
                with self._timed(state):
                    self._boundary(f"before {state}")
                    steps[state](version)
                    self._boundary(f"within {state}")
                    self.folder.journal.append(version, state)
                    self._boundary(f"after {state}")
            except PushError as error:
                if state == State.DONE:  # it serves; what is left to tidy up, the next push does
                    return self._result(version, "pushed", f"old versions are not retired yet: {error}")
                self._fail(version, error)
            if hold and state == State.CANARY and self.rollout.live_version() != version:
                self.folder.journal.append(version, State.HELD)
                return self._result(version, "held as canary")
        return self._result(version, "pushed")

    def _publish(self, version: int) -> None:
        if not self.folder.is_published(version):
            self.folder.publish(version)

    def _retire(self, version: int) -> None:
        """Old versions go only now that the new one serves; those that servers are told to serve stay."""
        needed = self.rollout.release(version)
        older = [old for old in self.folder.versions() if old < version]
        kept = {*older[max(0, len(older) - (self.target.keep_versions - 1)) :], *needed}
        for old in older:
            # A folder that this journal knows nothing of is somebody else's: it is not ours to delete.
            if old not in kept and self.folder.journal.state(old) is not None:
                self.folder.retire(old)

    def _recover_or_undo(self) -> None:
        """An earlier push that cannot be finished must not keep this one from trying, once it is undone."""
        try:
            self._recover()
        except PushError:
            if self.folder.journal.open_deployment() is not None:
                raise

    def _recover(self) -> PushResult | None:
        """Under the lock: an open deployment is resumed where its folder is published, and undone where not."""
        journal = self.folder.journal
        version = journal.open_deployment()
        if version is None:
            self.folder.discard_staging()
            return None
        state, detail = journal.state(version), journal.detail(version)
        assert state is not None
        if state == State.ROLLING_BACK:
            result = self._roll_back(version, detail["back_to"])
        elif state == State.UNDOING or not self.folder.is_published(version):
            self._undo(version, detail.get("reason", "the push was interrupted"))
            result = self._result(version, "undone")
        else:
            hold = detail.get("hold", False) and not journal.has_reached(version, State.HELD)
            result = self._advance(version, max(state, State.PUBLISHED, key=ORDER.index), hold)
        self.folder.discard_staging()
        return dataclasses.replace(result, outcome=f"recovered: {result.outcome}")

    def _fail(self, version: int, error: PushError) -> NoReturn:
        """Undoes the deployment and raises `error`, with what went wrong in undoing, if anything did."""
        try:
            self._undo(version, str(error))
        except PushError as undoing:
            raise PushError(
                f"{error}; and going back is not finished: {undoing}; `sluice push --recover` goes on with it"
            ) from error
        raise error

    def _undo(self, version: int, reason: str) -> None:
        """Servers first, then the folder: what served before is asked before anything is taken away."""
        journal = self.folder.journal
        if journal.state(version) != State.UNDOING:
            journal.append(version, State.UNDOING, reason=reason)
        self._boundary("after UNDOING")
        snapshot = journal.detail(version).get("snapshot", {})
        if self.folder.is_published(version) or journal.has_reached(version, State.PUBLISHED):
            self.rollout.restore(snapshot, version)
            self._boundary("before withdrawal")
            self.folder.withdraw(version)
            self.rollout.after_withdrawal(snapshot)
        self._boundary("before UNDONE")
        self.folder.discard_staging()
        self.folder.manifest_path(version).unlink(missing_ok=True)
        journal.append(version, State.UNDONE)
        self._boundary("after UNDONE")

    def _roll_back(self, bad: int, good: int) -> PushResult:
        self._boundary("after ROLLING_BACK")
        self.rollout.restore({"live": good}, bad)
        self._boundary("before withdrawal")
        self.folder.withdraw(bad)
        self.rollout.after_withdrawal({"live": good})
        self._boundary("before ROLLED_BACK")
        self.folder.journal.append(bad, State.ROLLED_BACK)
        self._boundary("after ROLLED_BACK")
        return dataclasses.replace(self._result(good, "rolled back"), previous_version=bad)

    def _unchanged(self, source: pathlib.Path) -> PushResult | None:
        """The live version, or else the canary held, where it holds exactly this content and is whole on disk."""
        for version in (self.rollout.live_version(), self.folder.journal.held_canary()):
            if version is not None and self._holds(version, source):
                self._confirm(version)
                return self._result(version, "unchanged")
        return None

    def _confirm(self, version: int) -> None:
        """Asks the servers for a version that is not pushed again: one that lies on disk need not serve."""
        if not self.target.servers:
            return
        self.rollout.highest_version()  # raises at once where a server does not answer
        steps = self.rollout.steps()
        if self.target.kind == "folder":
            steps[State.AVAILABLE](version)  # waits only: the server may have been started just now
        steps[State.PROBED](version)

    def _holds(self, version: int, source: pathlib.Path) -> bool:
        manifest = self.folder.manifest(version)
        if manifest is None or version not in self.folder.versions():
            return False
        added = set(manifest.files) - set(content.list_files(source))
        as_trained = content.Manifest({path: file for path, file in manifest.files.items() if path not in added})
        return (
            as_trained.digest == self.folder.journal.detail(version).get("digest")
            and content.matches(source, as_trained)
            and content.matches(self.folder.model_path(version), manifest)
        )

    def _result(self, version: int, outcome: str, *warnings: str) -> PushResult:
        detail = self.folder.journal.detail(version)
        older = [old for old in self.folder.versions() if old < version]
        report = detail.get("report", {})
        if warnings:
            report = {**report, "warnings": [*report.get("warnings", []), *warnings]}
        return PushResult(
            version=version,
            destination=str(self.folder.version_path(version)),
            outcome=outcome,
            digest=detail.get("digest", ""),
            observed=State.PROBED in self.rollout.steps(),
            previous_version=older[-1] if older else None,
            seconds=dict(self._seconds),
            report=report,
        )

    def _timed(self, state: State) -> "_Timer":
        return _Timer(self._seconds, str(state))


def _what_to_give(folder: pathlib.Path) -> str:
    """What a person who named `folder` may have meant."""
    below = sorted(path.parent.name for path in folder.glob("*/saved_model.pb*"))
    return f"give one of the folders in it: {', '.join(below)}" if below else "give the folder of a SavedModel"


class _Timer:
    """Adds the seconds of a `with` block to a dictionary."""

    def __init__(self, seconds: dict[str, float], name: str) -> None:
        self._seconds, self._name = seconds, name

    def __enter__(self) -> None:
        self._started = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._seconds[self._name] = round(time.monotonic() - self._started, 4)


def _with_new_files(staging: pathlib.Path, manifest: content.Manifest) -> content.Manifest:
    """The manifest with what verification added (warm-up requests)."""
    added = {
        path: content.FileContent(size, content.sha256_of(staging / path))
        for path, size in content.list_files(staging).items()
        if path not in manifest.files
    }
    return content.Manifest(manifest.files | added)
