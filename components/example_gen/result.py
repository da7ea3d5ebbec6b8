"""What ingestion did, put together from what every chunk reports."""

import dataclasses
import functools

from components.example_gen import readers
from components.example_gen.chunks import Outcome
from components.example_gen.evidence import Evidence, total
from components.example_gen.findings import Finding, describe
from components.example_gen.shards import Shard
from components.example_gen.sources import Source


@dataclasses.dataclass
class Result:
    """What was read and written.

    Attributes:
      sources: the files.
      skipped: files left out, as (path, why).
      layouts: how each file is laid out.
      declared: column to declared kind.
      outcomes: per chunk, in input order.
      shards: what was written.
      split_names: in order.
      straddling: (split, other split) to how many distinct rows are in both; only looked for where splits are files.
      seconds: from the first look at a file to the last shard.
    """

    sources: list[Source]
    skipped: list[tuple[str, str]]
    layouts: list[readers.Layout]
    declared: dict[str, str]
    outcomes: list[Outcome]
    shards: list[Shard]
    split_names: list[str]
    straddling: dict[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0

    @functools.cached_property
    def evidence(self) -> dict[str, Evidence]:
        """What was seen in each column, over all chunks."""
        names = dict.fromkeys(name for outcome in self.outcomes for name in outcome.evidence)
        return {
            name: total(outcome.evidence[name] for outcome in self.outcomes if name in outcome.evidence)
            for name in names
        }

    @functools.cached_property
    def kinds(self) -> dict[str, str]:
        """The kind each column was written as."""
        return {name: kind for outcome in self.outcomes if outcome.rows for name, kind in outcome.kinds.items()}

    @functools.cached_property
    def findings(self) -> list[Finding]:
        """What there is to tell about the columns."""
        found: list[Finding] = []
        for source, layout in zip(self.sources, self.layouts, strict=True):
            for name in getattr(layout, "unnamed", ()):
                found.append(Finding("warning", name, f"has no name in {source.name}; it was given this one"))
            for name in getattr(layout, "numeric_names", ())[:1]:
                told = f"is a number, yet the name of a column in {source.name}; if it has no header, set column_names"
                found.append(Finding("warning", name, f"{told}: its first row is lost"))
        for source in self._empty:
            found.append(Finding("warning", source.name, "0 rows: only a header, or no records at all"))
        for (one, other), count in self.straddling.items():
            found.append(Finding("warning", f"split {other}", f"{count} of its distinct rows are in {one} too"))
        for name, kind in self.kinds.items():
            found += describe(name, self.evidence[name], kind, self.declared.get(name, ""), self.sources)
        return found

    @property
    def _empty(self) -> list[Source]:
        filled = {outcome.chunk.source_index for outcome in self.outcomes if outcome.rows or outcome.num_bad_rows}
        return [source for index, source in enumerate(self.sources) if index not in filled]

    @property
    def stage_seconds(self) -> dict[str, float]:
        """Seconds of all processes together, per stage of the work."""
        totals: dict[str, float] = {}
        for outcome in self.outcomes:
            for stage, seconds in outcome.seconds.items():
                totals[stage] = totals.get(stage, 0.0) + seconds
        return totals

    @property
    def rows(self) -> dict[str, int]:
        """Rows per split."""
        totals = dict.fromkeys(self.split_names, 0)
        for shard in self.shards:
            totals[shard.split] += shard.rows
        return totals
