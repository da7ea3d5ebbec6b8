"""What must not pass, with messages that say where it is and what to do."""

from components.example_gen import readers
from components.example_gen.config import IngestConfig
from components.example_gen.errors import IngestConfigError, IngestDataError
from components.example_gen.result import Result
from components.example_gen.sources import Source


def check(result: Result, config: IngestConfig) -> None:
    """Raises for what must not pass: a chunk that failed, a bad row, no rows, an empty split."""
    for outcome in result.outcomes:
        if outcome.error:
            raise IngestDataError(outcome.error)
    if readers.column_names(result.layouts[0]) is None and any(result.rows.values()):
        known = (*result.kinds, *config.drop)
        check_names(known, config, ", ".join(source.name for source in result.sources[:5]))
    if config.bad_rows == "fail":
        _refuse_bad_rows(result)
    if config.float_loss == "fail":
        _refuse_float_losses(result)
    names = ", ".join(source.name for source in result.sources[:5])
    if not sum(result.rows.values()):
        _refuse_nothing_but_bad_rows(result)
        raise IngestDataError(f"0 rows in {names}: only a header, or no records at all")
    for name in config.split.names:
        if not result.rows.get(name):
            others = ", ".join(f"{count} to {other}" for other, count in result.rows.items() if count)
            raise IngestDataError(
                f"split {name!r} is empty: the rows went {others}; are rows or groups all alike? "
                "Change split.by, weights, cuts or seed"
            )
    if result.straddling and config.split.duplicates == "fail":
        (one, other), count = next(iter(result.straddling.items()))
        raise IngestDataError(f"{count} distinct rows are in both splits {one!r} and {other!r}")


def _refuse_float_losses(result: Result) -> None:
    for finding in result.findings:
        seen = result.evidence[finding.column]
        if result.kinds[finding.column] == "float" and seen.losses + seen.overflows and "float32" in finding.text:
            raise IngestDataError(f"column {finding.column!r}: {finding.text}")


def _refuse_nothing_but_bad_rows(result: Result) -> None:
    for outcome in result.outcomes:
        if outcome.bad_rows:
            row = outcome.bad_rows[0]
            raise IngestDataError(f"not one good row; the first: {outcome.chunk.source.place(row.line)}: {row.reason}")


def _refuse_bad_rows(result: Result) -> None:
    count = sum(outcome.num_bad_rows for outcome in result.outcomes)
    for outcome in result.outcomes:
        if outcome.num_bad_rows:
            row = outcome.bad_rows[0]
            more = f" ({count - 1} more bad rows)" if count > 1 else ""
            raise IngestDataError(
                f"{outcome.chunk.source.place(row.line)}: {row.reason}: {row.text[:200]!r}{more}; "
                "correct it, or set bad_rows to skip or quarantine"
            )


def columns_of(sources: list[Source], layouts: list[readers.Layout], config: IngestConfig) -> tuple[str, ...]:
    """The columns to write, or () where only reading tells; raises where files differ or options name others."""
    if readers.column_names(layouts[0]) is None:
        return ()
    first = _wanted(layouts[0], config)
    for source, layout in zip(sources, layouts, strict=True):
        names = _wanted(layout, config)
        extra, lacking = set(names) - set(first), set(first) - set(names)
        if extra or lacking:
            has = f" has {', '.join(sorted(extra))}" if extra else ""
            lacks = f" lacks {', '.join(sorted(lacking))}" if lacking else ""
            raise IngestDataError(f"{source.name}: columns differ from those of {sources[0].name}:{has}{lacks}")
    everywhere = tuple(dict.fromkeys(name for layout in layouts for name in readers.column_names(layout) or ()))
    check_names(everywhere, config, sources[0].name)
    if not first:
        raise IngestConfigError(f"keep and drop leave no column of {sources[0].name}")
    return first


def _wanted(layout: readers.Layout, config: IngestConfig) -> tuple[str, ...]:
    return tuple(filter(config.wants, readers.column_names(layout) or ()))


def check_names(columns: tuple[str, ...], config: IngestConfig, where: str) -> None:
    """Raises where options name a column that is not there."""
    for option, names in (("types", config.types), ("keep", config.keep), ("drop", config.drop)):
        unknown = [name for name in names if name not in columns]
        if unknown:
            raise IngestConfigError(f"{option}: no column {unknown[0]!r} in {where}; it has {', '.join(columns)}")
