"""Which files are data, and of what format."""

import collections
import dataclasses
import os
from collections.abc import Callable

from components.example_gen import sniffing, storage
from components.example_gen.config import IngestConfig
from components.example_gen.errors import IngestDataError

_SUFFIX_FORMATS = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow",
    ".avro": "avro",
    ".tfrecord": "tfrecord",
    ".tfrecords": "tfrecord",
    ".npz": "arrays",
    ".npy": "arrays",
}
_SUFFIX_COMPRESSIONS = {".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zstd": "zstd"}
# A compressed file of nothing has some bytes; larger ones are not looked into.
_LARGEST_BLANK = 128
_NOT_DATA_NAMES = ("readme", "license", "licence", "changelog", "notes", "makefile", "thumbs.db", "desktop.ini")


@dataclasses.dataclass(frozen=True)
class Source:
    """One input file, or many small ones that are read together.

    Attributes:
      path: where it is; of many, their common folder.
      size: bytes, as stored.
      format: "csv" (also for TSV), "jsonl", "parquet", "arrow", "avro", "tfrecord", "images" or "arrays".
      compression: "", "gzip", "bz2" or "zstd": of the whole file, not within it as Parquet has it.
      tabs: whether the name says that TAB separates.
      split: the split this file was given to, or "".
      members: of many files, their paths below `path`; each is a row.
    """

    path: str
    size: int
    format: str
    compression: str = ""
    tabs: bool = False
    split: str = ""
    members: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The file name alone, as errors and reports show it."""
        if self.members:
            more = f" and {len(self.members) - 1} more" if len(self.members) > 1 else ""
            return f"{self.members[0]}{more}"
        return os.path.basename(self.path)

    @property
    def shown(self) -> str:
        """What a list of files says about it."""
        return os.path.join(self.path, self.name) if self.members else self.path

    def file_of(self, line: int) -> str:
        """The name of the file that row `line`, counted from 1, is in."""
        return self.members[line - 1] if self.members else self.name

    def place(self, line: int) -> str:
        """Where row `line` is, for a person to find it."""
        return self.members[line - 1] if self.members else f"{self.name}:{line}"

    def all_paths(self) -> list[str]:
        """The path of every file."""
        return [os.path.join(self.path, member) for member in self.members] or [self.path]


# Given a pattern, the split it is for and the options: the files, and those left out as (path, why).
Finder = Callable[[str, str, IngestConfig], tuple[list[Source], list[tuple[str, str]]]]


def find_sources(patterns: dict[str, str], config: IngestConfig) -> tuple[list[Source], list[tuple[str, str]]]:
    """The data files under `patterns` and the files left out, as (path, why).

    Args:
      patterns: split name ("" where files are not divided into splits) to a folder or glob.
      config: `format` overrules what the names say.

    Raises:
      IngestDataError: nothing matches, nothing is data, or several formats are mixed.
    """
    sources: list[Source] = []
    skipped: list[tuple[str, str]] = []
    for split, pattern in patterns.items():
        found, left_out = _finder(config)(pattern, split, config)
        if not found:
            raise IngestDataError(_nothing(pattern, left_out))
        sources += found
        skipped += left_out
    formats = {source.format for source in sources}
    if len(formats) > 1:
        examples = ", ".join(
            f"{next(s.name for s in sources if s.format == kind)} ({kind})" for kind in sorted(formats)
        )
        raise IngestDataError(f"the input mixes formats: {examples}; narrow the pattern or set format")
    if len(patterns) > 1:
        counts = collections.Counter(path for source in sources for path in source.all_paths())
        twice = [path for path, count in counts.items() if count > 1]
        if twice:
            raise IngestDataError(f"{min(twice)} matches the patterns of two splits; make the patterns disjoint")
    return sources, skipped


def _finder(config: IngestConfig) -> Finder:
    if config.format != "images":
        return _in_pattern
    from components.example_gen.images import folders  # here, because it makes Sources

    return folders.find


def _nothing(pattern: str, left_out: list[tuple[str, str]]) -> str:
    if not left_out:
        return f"no file matches {pattern}"
    reasons = "; ".join(f"{os.path.basename(path)}: {why}" for path, why in left_out[:5])
    return f"no data file in {pattern} ({reasons})"


def _in_pattern(pattern: str, split: str, config: IngestConfig) -> tuple[list[Source], list[tuple[str, str]]]:
    if storage.is_folder(pattern):
        pattern = f"{storage.escape(pattern.rstrip('/'))}/*"
    listed = storage.find(pattern)
    named: list[Source] = []
    unnamed: list[tuple[str, int, str]] = []
    skipped = [entry for entry in storage.not_files(pattern) if not os.path.basename(entry[0]).startswith("_")]
    companions = {label_file(path) for path, _ in listed if path.endswith(".npy")}
    for path, size in listed:
        why = _not_data(path, size)
        if why or path in companions:
            skipped.append((path, why or "read with the pictures that it belongs to"))
            continue
        stem, compression = _split_compression(path)
        suffix = os.path.splitext(stem)[1].lower()
        kind = _SUFFIX_FORMATS.get(suffix, "")
        if suffix == ".txt" and sniffing.sniff(path, compression) == "jsonl":
            kind = "jsonl"
        if size <= _LARGEST_BLANK and sniffing.is_blank(path, compression):
            skipped.append((path, "nothing but white space"))
        elif kind:
            named.append(_source(path, size, kind, compression, split, config))
        else:
            unnamed.append((path, size, compression))
    for path, size, compression in unnamed:
        kind = config.format if config.format != "auto" else sniffing.sniff(path, compression)
        has_suffix = bool(os.path.splitext(_split_compression(path)[0])[1])
        if (named and has_suffix) or not kind:
            skipped.append((path, "its name and content are of no known data format"))
        else:
            named.append(_source(path, size, kind, compression, split, config))
    return sorted(named, key=lambda source: source.path), skipped


def label_file(path: str) -> str:
    """The .npy file with the classes of the pictures in `path`: labels.npy for images.npy, x_labels.npy for x.npy."""
    folder, name = os.path.split(path)
    stem = name.removesuffix(".npy")
    other = stem.replace("images", "labels") if "images" in stem else f"{stem}_labels"
    return os.path.join(folder, f"{other}.npy")


def _source(path: str, size: int, kind: str, compression: str, split: str, config: IngestConfig) -> Source:
    kind = config.format if config.format != "auto" else kind
    tabs = kind == "tsv"
    return Source(path, size, "csv" if tabs else kind, compression, tabs, split)


def _not_data(path: str, size: int) -> str:
    name = os.path.basename(path)
    if name.startswith((".", "_")):
        return "a hidden or marker file"
    if name.lower().split(".")[0] in _NOT_DATA_NAMES or name.lower() in _NOT_DATA_NAMES:
        return "not data by its name"
    return "an empty file" if size == 0 else ""


def _split_compression(path: str) -> tuple[str, str]:
    stem, suffix = os.path.splitext(path)
    compression = _SUFFIX_COMPRESSIONS.get(suffix.lower(), "")
    return (stem, compression) if compression else (path, "")
