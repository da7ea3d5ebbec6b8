"""Whether schema or baseline are those of another data set: then a hundred findings have one cause."""

from collections.abc import Collection, Iterator

from components.data_gate.context import Context


def other_data(context: Context) -> Iterator[str]:
    """A note for the schema and one for the baseline, where most of the columns of either side are not in the other."""
    data = {name for split in context.splits.values() for name in split.columns}
    before = {name for split in context.baseline.values() for name in split.columns}
    for what, columns in (("schema", set(context.features)), ("baseline", before)):
        if columns and data and _strange(columns, data):
            yield (
                f"{len(columns & data)} of the {len(columns)} columns of the {what} are in the data, which has "
                f"{len(data)}: is it the {what} of another data set?"
            )


def _strange(one: Collection[str], other: Collection[str]) -> bool:
    shared = len(set(one) & set(other))
    return 2 * shared < len(one) and 2 * shared < len(other)
