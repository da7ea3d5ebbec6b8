"""Everything a person can set about ingestion, in one typed, serializable place.

Only the standard library is imported, so that the command line and the pipeline config can read it at no cost.
"""

import dataclasses
import itertools
import json
import re
from collections.abc import Mapping
from typing import Any

from components.example_gen.errors import IngestConfigError

KINDS = ("int", "float", "bytes", "bool", "timestamp")
FORMATS = ("auto", "csv", "tsv", "jsonl", "parquet", "arrow", "avro", "tfrecord", "images", "arrays")
BAD_ROWS = ("fail", "skip", "quarantine")
FLOAT_LOSS = ("warn", "bytes", "fail")
SPLIT_BY = ("row", "columns", "time", "files")
COMPRESSIONS = ("gzip", "none")
IMAGE_CHECKS = ("decode", "header")

# The feature that is equal for equal pictures, whatever their files are called.
IMAGE_CONTENT = "content"
# What is told of every picture, beside its bytes.
PICTURE_FACTS = ("file", "width", "height", "channels", "brightness", IMAGE_CONTENT)

# Words that mean "no value" between numbers. In a text column they stay text, unless `na` is set.
DEFAULT_NA = ("NA", "N/A", "n/a", "#N/A", "<NA>", "NULL", "null", "None", "NaN", "nan", "-NaN", "-nan")


# Splits are folders, and stock components list their names with commas between.
_SPLIT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitConfig:
    """How rows are divided into named splits.

    Attributes:
      by: "row" (hash of the whole row), "columns" (hash of `columns`: a group stays whole), "time" (cut points on
        `time_column`) or "files" (a glob per split).
      weights: split name to share, as whole numbers; used by "row" and "columns".
      columns: the columns whose values make a group; for "files", those that make two rows duplicates (empty: all).
      time_column: a number, ISO date or timestamp column.
      cuts: for "time": split name to the first value that is NOT in it any more, ascending; the last split has None.
      files: for "files": split name to a glob, relative to the input folder.
      duplicates: for "files", what to do about equal rows in two splits: "warn" or "fail". The other rules keep equal
        rows together.
      seed: another seed, another division; the same seed, the same one.
    """

    by: str = "row"
    weights: Mapping[str, int] = dataclasses.field(default_factory=lambda: {"train": 2, "eval": 1})
    columns: tuple[str, ...] = ()
    time_column: str = ""
    cuts: Mapping[str, str | int | float | None] = dataclasses.field(default_factory=dict)
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    duplicates: str = "warn"
    seed: int = 0

    def __post_init__(self) -> None:
        _choice("split.by", self.by, SPLIT_BY)
        _choice("split.duplicates", self.duplicates, ("warn", "fail"))
        if self.by in ("row", "columns"):
            self._check_weights()
        if (self.by == "columns") != bool(self.columns) and self.by != "files":
            raise IngestConfigError("split.columns belongs to split.by: columns; set both or neither")
        if (self.by == "time") != bool(self.time_column):
            raise IngestConfigError("split.time_column belongs to split.by: time; set both or neither")
        if self.by == "time":
            self._check_cuts()
        for name in self.names:
            if not _SPLIT_NAME.fullmatch(name):
                raise IngestConfigError(f"split name {name!r}: expected letters, digits, '_', '-' and '.'")
        if (self.by == "files") != bool(self.files):
            raise IngestConfigError("split.files belongs to split.by: files; set both or neither")

    def _check_weights(self) -> None:
        if not self.weights:
            raise IngestConfigError("split.weights is empty; name at least one split, such as {train: 2, eval: 1}")
        for name, weight in self.weights.items():
            if not isinstance(weight, int) or isinstance(weight, bool) or weight < 1:
                raise IngestConfigError(f"split.weights: {name} is {weight!r}; expected a whole number of 1 or more")

    def _check_cuts(self) -> None:
        values = list(self.cuts.values())
        if not values or values[-1] is not None or any(value is None for value in values[:-1]):
            raise IngestConfigError(
                "split.cuts gives each split the value where it ends, in order, and null for the last, "
                "such as {train: 2024-03-01, eval: null}"
            )
        numbers = [value for value in values if isinstance(value, int | float)]
        if any(one >= other for one, other in itertools.pairwise(numbers)):
            raise IngestConfigError(f"split.cuts are not ascending: {', '.join(map(str, numbers))}")

    @property
    def names(self) -> list[str]:
        """The split names, in order."""
        chosen = {"time": self.cuts, "files": self.files}.get(self.by, self.weights)
        return list(chosen)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageConfig:
    """How pictures are read: from a folder per class, from arrays, or as the files that a table names.

    Attributes:
      path_column: of a table (CSV, JSON Lines, Parquet ...), the column with the paths of image files, absolute or
        relative to the table. It makes any tabular format one of images; its other columns stay as they are.
      image_column: the feature for the encoded bytes.
      label_column: the feature for the class, where the folder or the array says it.
      check: "decode" looks at every pixel: no damage is missed, and equal pictures are equal in any encoding. "header"
        looks at the first and the last bytes, ten times faster or more: brightness is then missing, and content is the
        hash of the file.
      max_pixels: a picture of more is refused, before it is decoded.
      jpeg_quality: of pictures that have to be written again as JPEG: turned ones, and CMYK.
    """

    path_column: str = ""
    image_column: str = "image"
    label_column: str = "label"
    check: str = "decode"
    max_pixels: int = 100_000_000
    jpeg_quality: int = 95

    def __post_init__(self) -> None:
        _choice("images.check", self.check, IMAGE_CHECKS)
        for name, low, high in (("max_pixels", 1, 1 << 32), ("jpeg_quality", 1, 100)):
            if not low <= getattr(self, name) <= high:
                raise IngestConfigError(f"images.{name} is {getattr(self, name)}; expected {low} to {high}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class IngestConfig:
    """Ingestion options. Every field has a default that is right for a folder of CSV files with headers.

    Attributes:
      pattern: a glob relative to the input folder; may hold {SPAN} (or {YYYY}, {MM}, {DD}) and {VERSION}.
      format: one of FORMATS; "auto" goes by file name, then by content.
      delimiter: one character; "" goes by the file name (comma, or TAB for .tsv) and is refused where another fits
        better; "auto" takes the one that fits.
      encoding: text encoding of CSV and JSON files.
      column_names: names for files that have no header line. Empty: the first record is the header.
      types: column to one of KINDS. Other columns are inferred from all of the data.
      schema_file: a tensorflow_metadata Schema (pbtxt) whose feature types are declared types; `types` wins over it.
      na: words that are missing values. None: DEFAULT_NA, in number columns only. A list of one's own also applies
        to text columns. The empty field is always missing.
      bad_rows: "fail" at the first one, "skip" and count them, or "quarantine" them in a file beside the report.
      keep: only these columns. Empty: all.
      drop: without these columns.
      float_loss: what to do where float32 does not keep a number: "warn" with a count, keep the column as "bytes",
        or "fail".
      images: how pictures are read; only with format "images" or "arrays", or with images.path_column.
      split: how rows become splits. Pictures are rows that are equal if their content is, whatever they are called.
      shuffle: put rows in a random order (of the seed) within each chunk, and chunks in a random order.
      shards: at least so many files per split, as far as there are rows for them.
      max_shard_bytes: more files where one would be larger than this.
      compression: "gzip" or "none". TensorFlow's TFRecord readers have no ZSTD.
      gzip_level: 1 (fast) to 9 (small).
      chunk_bytes: input bytes per unit of work, and what bounds memory.
      workers: processes on this machine; 0 means one per core. On a distributed runner the runner decides.
      beam_pipeline_args: Beam flags for this component only, such as ("--runner=FlinkRunner", ...).
    """

    pattern: str = "*"
    format: str = "auto"
    delimiter: str = ""
    encoding: str = "utf-8"
    column_names: tuple[str, ...] = ()
    types: Mapping[str, str] = dataclasses.field(default_factory=dict)
    schema_file: str = ""
    na: tuple[str, ...] | None = None
    bad_rows: str = "fail"
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    float_loss: str = "warn"
    images: ImageConfig = dataclasses.field(default_factory=ImageConfig)
    split: SplitConfig = dataclasses.field(default_factory=SplitConfig)
    shuffle: bool = False
    shards: int = 4
    max_shard_bytes: int = 256 << 20
    compression: str = "gzip"
    gzip_level: int = 1
    chunk_bytes: int = 4 << 20
    workers: int = 0
    beam_pipeline_args: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _choice("format", self.format, FORMATS)
        _choice("bad_rows", self.bad_rows, BAD_ROWS)
        _choice("float_loss", self.float_loss, FLOAT_LOSS)
        _choice("compression", self.compression, COMPRESSIONS)
        for column, kind in self.types.items():
            _choice(f"types: {column}", kind, KINDS)
        self._check_text()
        for name, low, high in (("shards", 1, 100_000), ("gzip_level", 1, 9), ("workers", 0, 1024)):
            if not low <= getattr(self, name) <= high:
                raise IngestConfigError(f"{name} is {getattr(self, name)}; expected {low} to {high}")
        if not 1 << 10 <= self.chunk_bytes <= 1 << 30:
            raise IngestConfigError(f"chunk_bytes is {self.chunk_bytes}; expected 1 KiB to 1 GiB")
        both = set(self.keep) & set(self.drop)
        if both:
            raise IngestConfigError(f"columns in both keep and drop: {', '.join(sorted(both))}")
        if self.of_images and not self.split.columns and self.split.by in ("row", "files"):
            by = "columns" if self.split.by == "row" else "files"
            split = dataclasses.replace(self.split, by=by, columns=(IMAGE_CONTENT,))
            object.__setattr__(self, "split", split)

    def wants(self, column: str) -> bool:
        """Whether `keep` and `drop` leave a column in."""
        return (not self.keep or column in self.keep) and column not in self.drop

    @property
    def of_images(self) -> bool:
        """Whether rows are pictures."""
        return self.format in ("images", "arrays") or bool(self.images.path_column)

    @property
    def described(self) -> tuple[str, ...]:
        """The columns that are made of a picture, its own first; none where rows are no pictures."""
        return (self.images.image_column, *PICTURE_FACTS) if self.of_images else ()

    def _check_text(self) -> None:
        if self.delimiter not in ("", "auto") and (
            len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '"\r\n'
        ):
            raise IngestConfigError(
                f"delimiter is {self.delimiter!r}; expected one ASCII character (not a quote or line end), or auto"
            )
        try:
            "".encode(self.encoding)
        except (LookupError, ValueError):
            raise IngestConfigError(
                f"encoding {self.encoding!r} is unknown; for example utf-8, latin-1, cp1252, utf-16"
            ) from None
        if len(set(self.column_names)) != len(self.column_names):
            raise IngestConfigError(f"column_names has a name twice: {', '.join(self.column_names)}")

    def to_json(self) -> str:
        """The config as a JSON object. The order of splits is kept: it means something."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "IngestConfig":
        """The inverse of `to_json`; an empty text is the default config."""
        return cls.from_dict(json.loads(text) if text else {}, "ingest config")

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any], where: str) -> "IngestConfig":
        """A config from plain YAML or JSON values.

        Args:
          mapping: field name to value; lists become tuples, `split` is a mapping of SplitConfig's fields.
          where: named in errors, such as "workload.yaml: ingest".

        Raises:
          IngestConfigError: an unknown key or a value that is not allowed.
        """
        values = _known(cls, mapping, where)
        for key, part in (("split", SplitConfig), ("images", ImageConfig)):
            if isinstance(values.get(key), Mapping):
                values[key] = _build(part, _known(part, values[key], f"{where}.{key}"), where)
        return _build(cls, values, where)


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise IngestConfigError(f"{name} is {value!r}; expected one of: {', '.join(allowed)}")


def _known(cls: type, mapping: Mapping[str, Any], where: str) -> dict[str, Any]:
    """`mapping` with each value in the shape of its field; raises for keys and shapes that are not known."""
    if not isinstance(mapping, Mapping):
        raise IngestConfigError(f"{where}: expected a mapping, got {mapping!r}")
    fields = {field.name: field for field in dataclasses.fields(cls)}
    values: dict[str, Any] = {}
    for key, value in mapping.items():
        if key not in fields:
            raise IngestConfigError(f"{where}: unknown key {key!r}; allowed: {', '.join(sorted(fields))}")
        values[key] = _shaped(str(fields[key].type), value, f"{where}: {key}")
    return values


def _shaped(annotation: str, value: Any, where: str) -> Any:
    if "tuple" in annotation:
        if value is None and "None" in annotation:
            return None
        if not isinstance(value, list | tuple):
            raise IngestConfigError(f"{where}: expected a list, got {value!r}")
        if any(isinstance(item, bool) for item in value):
            raise IngestConfigError(f"{where}: YAML reads {value!r}; put words such as no and yes in quotes")
        return tuple("null" if item is None else str(item) for item in value)
    if "Mapping" in annotation:
        if not isinstance(value, Mapping):
            raise IngestConfigError(f"{where}: expected a mapping, got {value!r}")
        # YAML makes dates of what looks like dates.
        return {str(name): item.isoformat() if hasattr(item, "isoformat") else item for name, item in value.items()}
    for name, kind in (("str", str), ("bool", bool), ("int", int)):
        if name in annotation and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
            raise IngestConfigError(f"{where}: expected {name}, got {value!r}")
    return value


def _build(cls: type, values: dict[str, Any], where: str) -> Any:
    try:
        return cls(**values)
    except IngestConfigError as error:
        raise IngestConfigError(f"{where}: {error}") from None
