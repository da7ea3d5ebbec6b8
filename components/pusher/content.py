"""A model folder's content: its manifest of sizes and sha256, and a copy that is proven equal."""

import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import stat

from components.pusher.errors import PushError

_CHUNK = 8 << 20


@dataclasses.dataclass(frozen=True)
class FileContent:
    """Size in bytes and sha256 of one file."""

    size: int
    sha256: str


@dataclasses.dataclass(frozen=True)
class Manifest:
    """Every file of a model by its path relative to the model's folder, with '/' between parts."""

    files: dict[str, FileContent]

    @property
    def digest(self) -> str:
        """One sha256 for the whole folder: equal exactly when every path and every byte is equal."""
        lines = (f"{path}\0{content.size}\0{content.sha256}\n" for path, content in sorted(self.files.items()))
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def size(self) -> int:
        return sum(content.size for content in self.files.values())

    def to_json(self) -> str:
        return json.dumps({path: dataclasses.asdict(content) for path, content in sorted(self.files.items())})

    @classmethod
    def from_json(cls, text: str) -> "Manifest":
        return cls({path: FileContent(**content) for path, content in json.loads(text).items()})


def list_files(folder: pathlib.Path) -> dict[str, int]:
    """Relative path to size in bytes of every file under `folder`, links followed.

    Raises PushError for a missing folder, and for sockets, devices and links that lead nowhere.
    """
    if not folder.is_dir():
        what = "is a file; give the folder of a SavedModel" if folder.exists() else "no such model folder"
        raise PushError(f"{folder}: {what}")
    sizes = {}
    for parent, _, names in os.walk(folder, followlinks=True):
        for name in names:
            path = pathlib.Path(parent, name)
            try:
                status = path.stat()
            except FileNotFoundError:
                raise PushError(f"{path}: the link leads nowhere (to {os.readlink(path)})") from None
            if not stat.S_ISREG(status.st_mode):
                raise PushError(f"{path}: not a plain file; a model folder holds files and folders only")
            sizes[path.relative_to(folder).as_posix()] = status.st_size
    return sizes


def sha256_of(path: pathlib.Path) -> str:
    """The file's sha256 in hex, read in large chunks; the interpreter lock is free while hashing."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        buffer = memoryview(bytearray(min(_CHUNK, max(1, os.fstat(file.fileno()).st_size))))
        while count := file.readinto(buffer):
            digest.update(buffer[:count])
    return digest.hexdigest()


def manifest_of(folder: pathlib.Path) -> Manifest:
    """The manifest of the folder as it is on disk now."""
    return Manifest({path: FileContent(size, sha256_of(folder / path)) for path, size in list_files(folder).items()})


def matches(folder: pathlib.Path, manifest: Manifest) -> bool:
    """Whether the folder holds exactly the manifest's files.

    Small files first, so that a model that differs is told apart without reading its large files: even models of
    the same shape differ in the checksums of `variables.index`.
    """
    sizes = list_files(folder)
    if sizes != {path: content.size for path, content in manifest.files.items()}:
        return False
    return all(
        sha256_of(folder / path) == manifest.files[path].sha256 for path in sorted(sizes, key=lambda path: sizes[path])
    )


def copy_verified(source: pathlib.Path, target: pathlib.Path) -> Manifest:
    """Copies `source` into the existing folder `target`, to the disk, and proves that the copy is equal.

    The kernel copies; meanwhile two threads hash the source and the copy, and a third makes it durable. A copy that
    differs (a model still being written, a bad disk) raises PushError.
    """
    sizes = list_files(source)
    copied = {}
    _make_folders(source, target)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for path in sorted(sizes):
            _copy_file(source / path, target / path)
            copied[path] = (
                pool.submit(sha256_of, source / path),
                pool.submit(sha256_of, target / path),
                pool.submit(fsync_path, target / path),
            )
        files = {}
        for path, (wanted, found, durable) in copied.items():
            durable.result()
            if wanted.result() != found.result():
                raise PushError(f"{source / path} changed while it was copied; push again when it is whole")
            files[path] = FileContent((target / path).stat().st_size, found.result())
    return Manifest(files)


def fsync_tree(folder: pathlib.Path) -> None:
    """Makes every file and folder under `folder` durable, itself included."""
    for parent, _, names in os.walk(folder, topdown=False):
        for name in names:
            fsync_path(pathlib.Path(parent, name))
        fsync_path(pathlib.Path(parent))


def fsync_path(path: pathlib.Path) -> None:
    """Makes one file, or one folder's list of names, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_folders(source: pathlib.Path, target: pathlib.Path) -> None:
    """Empty folders count: a SavedModel's `assets/` and `variables/` may be empty. Servers run as another user."""
    target.chmod(0o755)
    for parent, names, _ in os.walk(source, followlinks=True):
        for name in names:
            folder = target / pathlib.Path(parent, name).relative_to(source)
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o755)


def _copy_file(source: pathlib.Path, target: pathlib.Path) -> None:
    shutil.copyfile(source, target)
    target.chmod(0o644)
