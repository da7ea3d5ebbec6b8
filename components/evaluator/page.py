"""The evaluation as a page: verdict and reasons first, then metrics by slice."""

from components.evaluator.results import WHOLE, CalibrationBin, Confusion
from components.evaluator.verdict import Row, Verdict
from components.html_page import Markup, bar, page, table, tag


def evaluation_page(verdict: Verdict) -> str:
    """Self-contained HTML."""
    state = tag("span", "blessed", css="good") if verdict.blessed else tag("span", "not blessed", css="bad")
    body: str = tag("p", Markup(f"Verdict: {state}"), css="verdict")
    body += Markup("<ul>" + "".join(tag("li", reason) for reason in verdict.reasons) + "</ul>")
    whole = [row for row in verdict.rows if row.slice == WHOLE]
    body += tag("h2", "The whole split") + _table(whole, {"metric": [row.metric for row in whole]})
    if verdict.confusion:
        body += _confusion(verdict.confusion)
    if verdict.calibration:
        body += _calibration(verdict.calibration)
    for metric in sorted({row.metric for row in verdict.rows if row.slice != WHOLE}):
        rows = [row for row in verdict.rows if row.metric == metric and row.slice != WHOLE]
        counts = [verdict.slice_examples.get(row.slice, "") for row in rows]
        body += tag("h2", f"{metric} by slice") + _table(
            rows, {"slice": [row.slice for row in rows], "examples": counts}
        )
    if verdict.small_slices:
        body += tag("h2", "Slices too small to decide")
        known = [(name, verdict.slice_examples.get(name, "")) for name in verdict.small_slices]
        body += table(("slice", "examples"), known)
    return page("Evaluation", body, f"{verdict.num_examples:,} examples")


def _table(rows: list[Row], first: dict[str, list]) -> Markup:
    """What the rows are about, then their values; columns that would be empty are left out."""
    marks = {True: tag("span", "kept", css="good"), False: tag("span", "NOT KEPT", css="bad"), None: ""}
    columns: dict[str, list] = {
        **first,
        "value": ["not computed" if row.value is None else row.value for row in rows],
        "": [bar(row.value, width=90) if row.value is not None and 0 <= row.value <= 1 else "" for row in rows],
        "95 % interval": [
            "" if row.low is None or row.high is None else f"{row.low:.4f} to {row.high:.4f}" for row in rows
        ],
        "bound": [row.bound for row in rows],
        "kept?": [marks[row.passed] for row in rows],
        "baseline": ["" if row.baseline is None else row.baseline for row in rows],
    }
    kept = {name: values for name, values in columns.items() if any(value != "" for value in values)}
    return table(list(kept), list(zip(*kept.values(), strict=True)))


def _confusion(matrix: Confusion) -> Markup:
    positives, negatives = f"above {matrix.threshold:g}", f"{matrix.threshold:g} or below"
    rows = [
        ("positive", int(matrix.true_positives), int(matrix.false_negatives)),
        ("negative", int(matrix.false_positives), int(matrix.true_negatives)),
    ]
    headers = ("label", f"predicted {positives}", f"predicted {negatives}")
    return Markup(tag("h2", f"Confusion at the operating threshold {matrix.threshold:g}") + table(headers, rows))


def _calibration(bins: tuple[CalibrationBin, ...]) -> Markup:
    largest = max(part.count for part in bins)
    rows = [
        (
            f"{part.low:g} to {part.high:g}",
            int(part.count),
            bar(part.count / largest, width=60),
            part.mean_prediction,
            part.mean_label,
            Markup(f"{bar(part.mean_prediction, 90)}<br>{bar(part.mean_label, 90, 'var(--good)')}"),
        )
        for part in bins
    ]
    headers = ("prediction", "examples", "", "mean prediction", "mean label", "both")
    text = (
        "Examples by their prediction. Where the model is calibrated, the mean label is the mean prediction: "
        "in the last column the upper bar (prediction) is as long as the lower, green one (label)."
    )
    return Markup(tag("h2", "Calibration") + tag("p", text) + table(headers, rows))
