"""The column that the label is, or is made from: there, and not all of one class."""

from collections.abc import Iterator

from components.data_gate.config import LabelPolicy
from components.data_gate.context import Context
from components.data_gate.finding import Finding, NotChecked
from components.data_gate.row_question import RowQuestion
from components.data_gate.summary import ColumnSummary


def check(context: Context) -> Iterator[Finding | NotChecked]:
    """Both label rules on every split."""
    label = context.policy.label
    if label is None:
        yield NotChecked(rule="label-missing", why="the policy names no label")
        yield NotChecked(rule="label-one-sided", why="the policy names no label")
        return
    for split, data in context.splits.items():
        if data.num_rows:
            yield from _check(context, label, split, data.columns.get(label.feature), data.num_rows)


def _check(
    context: Context, label: LabelPolicy, split: str, column: ColumnSummary | None, num_rows: float
) -> Iterator[Finding]:
    missing = num_rows - _labelled(column) if column else num_rows
    if missing > label.max_missing * num_rows:
        yield Finding(
            feature=label.feature,
            rule="label-missing",
            split=split,
            observed=f"{missing:.0f} of {num_rows:.0f} rows have no label ({missing / num_rows:.2%})",
            allowed=f"at most {label.max_missing:.2%}",
        )
        test = "blank" if column and column.category and column.type == "BYTES" else "unlabelled"
        context.ask(RowQuestion(feature=label.feature, rule="label-missing", split=split, test=test))
    shares = _class_shares(label, column) if column and _labelled(column) else {}
    if not shares:
        return
    rarest = min(shares, key=lambda name: shares[name])
    if shares[rarest] < label.min_share or len(shares) == 1:
        yield Finding(
            feature=label.feature,
            rule="label-one-sided",
            split=split,
            observed=", ".join(f"{share:.2%} {name}" for name, share in shares.items()),
            allowed=f"every class at least {label.min_share:.2%} of the labelled rows",
            why=f"A model trained on this learns to answer the same always; rarest: {rarest}.",
        )


def _labelled(column: ColumnSummary) -> float:
    """Rows with a label: NaN and the empty text are none."""
    if column.number is not None:
        return column.num_present - column.number.num_nan
    return column.num_present - (column.category.counts.get("", 0.0) if column.category else 0.0)


def _class_shares(label: LabelPolicy, column: ColumnSummary) -> dict[str, float]:
    if column.number is not None:
        above = column.number.distribution.share_above(label.threshold)
        return {f"at most {label.threshold:g}": 1 - above, f"above {label.threshold:g}": above}
    if column.category is None:
        return {}
    labelled = _labelled(column) or 1.0
    return {value: count / labelled for value, count in column.category.counts.items() if value}
