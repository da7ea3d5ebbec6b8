"""The folder that a model server watches: `<base>/<name>/<version>`, and ours beside the versions.

TensorFlow Serving picks up, within a second, any folder whose name is a number, whole or not. So everything that is not
a whole, verified model stays in `.sluice/`, in the same folder so that it is on the same file system, and a version
appears by one rename and disappears by one rename.
"""

import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import socket
import time
from collections.abc import Iterator

from components.pusher.content import Manifest, fsync_path
from components.pusher.errors import PushError, explained
from components.pusher.journal import Journal

# What TensorFlow Serving reads as a version number: it also takes leading zeros and a plus sign.
_NUMBER = re.compile(r"\+?[0-9]+")
_MAX_VERSION = 2**63 - 1
_POLL_S = 0.05


class BaseFolder:
    """One model's serving folder, with its lock, journal, staging area and the manifests of its versions.

    Args:
      base: the folder of all models.
      name: the model's name.
      nested: publish `<version>/<version>/`, for KServe, which wants a storage that holds version folders.
    """

    def __init__(self, base: str, name: str, *, nested: bool = False) -> None:
        self._nested = nested
        self.path = pathlib.Path(base).absolute() / name
        self.state_path = self.path / ".sluice"
        self.journal = Journal(self.state_path / "journal.jsonl")

    def versions(self) -> dict[int, pathlib.Path]:
        """Version to folder, ascending: what a model server that polls now would see."""
        if not self.path.is_dir():
            return {}
        numbers = [path for path in self.path.iterdir() if _NUMBER.fullmatch(path.name.strip()) and path.is_dir()]
        found = sorted((int(path.name), path) for path in numbers if int(path.name) <= _MAX_VERSION)
        return dict(found)

    def version_path(self, version: int) -> pathlib.Path:
        return self.versions().get(version, self.path / str(version))

    def model_path(self, version: int) -> pathlib.Path:
        """The SavedModel of a published version."""
        return self._inside(self.version_path(version), version)

    def staged_model_path(self, version: int) -> pathlib.Path:
        """The SavedModel of a version that is not published yet."""
        return self._inside(self.staging_path(version), version)

    def _inside(self, folder: pathlib.Path, version: int) -> pathlib.Path:
        return folder / str(version) if self._nested else folder

    def staging_path(self, version: int) -> pathlib.Path:
        return self.state_path / "staging" / str(version)

    def next_version(self, now_s: float, server_version: int) -> int:
        """A number above everything that was ever seen: the clock may stand still or run backwards."""
        highest = max(*self.versions(), 0, self.journal.highest_version(), server_version)
        version = max(int(now_s), highest + 1)
        if version > _MAX_VERSION:
            raise PushError(f"{self.path}: version {highest} is the highest that a server reads; remove that folder")
        return version

    def prepare(self) -> None:
        """Makes the folders that a push needs, before anything else can fail half way."""
        with explained(self.path, "prepare the folder"):
            for path in (self.state_path / "staging", self.state_path / "manifests"):
                path.mkdir(parents=True, exist_ok=True)

    @contextlib.contextmanager
    def locked(self, timeout_s: float) -> Iterator[None]:
        """Holds the folder's lock, which dies with the process. Raises PushError when another push keeps it."""
        self.prepare()
        descriptor = self._acquire(timeout_s)
        try:
            yield
        finally:
            os.close(descriptor)

    def reserve(self, version: int) -> pathlib.Path:
        """Takes `version` by making its staging folder, exclusive even where locks do not reach (some NFS).

        Returns the folder to copy the model into.
        """
        staging = self.staging_path(version)
        try:
            with explained(self.path, f"reserve version {version}"):
                staging.mkdir()
                self.staged_model_path(version).mkdir(exist_ok=True)
        except FileExistsError:
            raise PushError(f"{staging} exists: another push is at work there; run this one again") from None
        return self.staged_model_path(version)

    def check_space(self, needed: int) -> None:
        """Refuses before copying what cannot fit; 1 MiB stays for the journal and folders."""
        free = shutil.disk_usage(self.path).free
        if free < needed + (1 << 20):
            raise PushError(
                f"{self.path}: the model needs {needed / 1e6:,.2f} MB and {free / 1e6:,.2f} MB are free; "
                f"free some space (the oldest version: {next(iter(self.versions().values()), 'none')})"
            )

    def publish(self, version: int) -> None:
        """The one rename that makes a version visible, whole."""
        target = self.path / str(version)
        with explained(self.path, f"publish version {version}"):
            if target.exists():
                raise PushError(f"{target} was made by somebody else; push again")
            os.rename(self.staging_path(version), target)
            fsync_path(self.path)
            fsync_path(self.state_path / "staging")

    def is_published(self, version: int) -> bool:
        """Whether our rename of `version` happened. With the staged folder still there, somebody else made this one."""
        return version in self.versions() and not self.staging_path(version).exists()

    def empty_staging(self, version: int) -> None:
        """Gives the space of a staged model back; the folder itself stays and says that nothing was published."""
        for path in self.staging_path(version).iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def withdraw(self, version: int) -> pathlib.Path | None:
        """Takes a version out of the servers' sight by one rename; only the last one withdrawn is kept to look at."""
        source = self.versions().get(version)
        if source is None:
            return None
        withdrawn = self.state_path / "withdrawn"
        with explained(self.path, f"withdraw version {version}"):
            shutil.rmtree(withdrawn, ignore_errors=True)
            withdrawn.mkdir(parents=True, exist_ok=True)
            os.rename(source, withdrawn / str(version))
            fsync_path(self.path)
        return withdrawn / str(version)

    def retire(self, version: int) -> None:
        """Takes an old version out of sight by one rename, then deletes it."""
        retired = self.state_path / "retired"
        retired.mkdir(parents=True, exist_ok=True)
        if source := self.versions().get(version):
            with explained(self.path, f"retire version {version}"):
                os.rename(source, retired / str(version))
                fsync_path(self.path)
        shutil.rmtree(retired, ignore_errors=True)
        self.manifest_path(version).unlink(missing_ok=True)

    def discard_staging(self) -> None:
        """Removes what interrupted pushes left; called under the lock, when no push is open."""
        with explained(self.path, "remove what an interrupted push left"):
            for path in (self.state_path / "staging", self.state_path / "retired"):
                for left in path.iterdir() if path.is_dir() else ():
                    shutil.rmtree(left)

    def manifest_path(self, version: int) -> pathlib.Path:
        return self.state_path / "manifests" / f"{version}.json"

    def write_manifest(self, version: int, manifest: Manifest) -> None:
        """Keeps the manifest of what is published, warm-up requests included; replaced whole."""
        path = self.manifest_path(version)
        partial = path.with_suffix(".partial")
        with explained(self.path, f"write {path.name}"):
            partial.write_text(manifest.to_json(), encoding="utf-8")
            fsync_path(partial)
            os.replace(partial, path)
            fsync_path(path.parent)

    def manifest(self, version: int) -> Manifest | None:
        path = self.manifest_path(version)
        return Manifest.from_json(path.read_text(encoding="utf-8")) if path.exists() else None

    def _acquire(self, timeout_s: float) -> int:
        path = self.state_path / "lock"
        deadline = time.monotonic() + timeout_s
        while True:
            with explained(self.path, "open the lock"):
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_same_file(descriptor, path):
                    _write_holder(descriptor)
                    return descriptor
                # The folder was emptied while we waited: this lock guards nothing any more.
                self.prepare()
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    holder = os.pread(descriptor, 1000, 0).decode(errors="replace")
                    os.close(descriptor)
                    raise PushError(
                        f"{self.path}: another push is at work ({holder.strip() or 'unknown'}) and did not end within "
                        f"{timeout_s:g} s; nothing was changed, push again later"
                    ) from None
                time.sleep(_POLL_S)
            except OSError as error:
                os.close(descriptor)
                raise PushError(
                    f"{self.path}: its file system gives no locks ({error.strerror}), so two pushes could not be kept "
                    "apart; mount it with locks (NFS: version 4)"
                ) from None
            os.close(descriptor)


def _is_same_file(descriptor: int, path: pathlib.Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _write_holder(descriptor: int) -> None:
    holder = json.dumps(
        {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%FT%TZ", time.gmtime())}
    )
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, holder.encode(), 0)
