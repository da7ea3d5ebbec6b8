"""Pictures as columns of a block."""

import pyarrow as pa

from components.example_gen.blocks import BadRow, Note
from components.example_gen.config import ImageConfig
from components.example_gen.images import picture
from components.example_gen.images.picture import Picture


class Rows:
    """Gathers pictures, and the rows that are none."""

    def __init__(self, config: ImageConfig) -> None:
        self._config = config
        self.lines: list[int] = []
        self.bad: list[BadRow] = []
        self.notes: list[Note] = []
        self._files: list[str] = []
        self._pictures: list[Picture] = []

    def add(self, line: int, file: str, made: Picture) -> None:
        """Adds row `line`, a picture that reports call `file`."""
        self.lines.append(line)
        self._files.append(file)
        self._pictures.append(made)
        self.notes += [Note(self._config.image_column, text, line, value) for text, value in made.notes]

    def refuse(self, line: int, file: str, reason: str) -> None:
        """Notes that row `line` is no picture."""
        self.bad.append(BadRow(line, reason, file))

    def columns(self) -> dict[str, pa.Array]:
        """One array per column of `picture.columns`."""
        made = self._pictures
        arrays = (
            pa.array([one.encoded for one in made], pa.large_binary()),
            pa.array(self._files, pa.string()),
            pa.array([one.width for one in made], pa.int64()),
            pa.array([one.height for one in made], pa.int64()),
            pa.array([one.channels for one in made], pa.int64()),
            pa.array([one.brightness for one in made], pa.float32()),
            pa.array([one.content for one in made], pa.string()),
        )
        return dict(zip(picture.columns(self._config), arrays, strict=True))
