"""The evaluation as a page: verdict and reasons first, then metrics by slice."""

from components.evaluator.results import WHOLE, CalibrationBin, Confusion
from components.evaluator.verdict import Row, Verdict
from components.html_page import Markup, bar, page, table, tag


def evaluation_page(verdict: Verdict) -> str:
    """Self-contained HTML."""
    state = tag("span", "blessed", css="good") if verdict.blessed else tag("span", "not blessed", css="bad")
    body: str = tag("p", Markup(f"Verdict: {state}"), css="verdict")
    body += Markup("<ul>" + "".join(tag("li", reason) for reason in verdict.reasons) + "</ul>")
    body += tag("h2", "The whole split") + _table([row for row in verdict.rows if row.slice == WHOLE])
    if verdict.confusion:
        body += _confusion(verdict.confusion)
    if verdict.calibration:
        body += _calibration(verdict.calibration)
    for metric in sorted({row.metric for row in verdict.rows if row.slice != WHOLE}):
        rows = [row for row in verdict.rows if row.metric == metric and row.slice != WHOLE]
        body += tag("h2", f"{metric} by slice") + _table(rows)
    if verdict.small_slices:
        body += tag("h2", "Slices too small to decide") + tag("p", ", ".join(verdict.small_slices))
    return page("Evaluation", body, f"{verdict.num_examples:,} examples")


def _table(rows: list[Row]) -> Markup:
    headers = ("metric", "slice", "value", "95 % interval", "", "bound", "baseline", "")
    marks = {True: tag("span", "kept", css="good"), False: tag("span", "NOT KEPT", css="bad"), None: ""}
    return table(
        headers,
        [
            (
                row.metric,
                row.slice,
                "not computed" if row.value is None else row.value,
                "" if row.low is None or row.high is None else f"{row.low:.4f} to {row.high:.4f}",
                bar(row.value) if row.value is not None and 0 <= row.value <= 1 else "",
                row.bound,
                "" if row.baseline is None else row.baseline,
                marks[row.passed],
            )
            for row in rows
        ],
    )


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
            bar(part.count / largest, width=80),
            part.mean_prediction,
            part.mean_label,
            Markup(f"{bar(part.mean_prediction)}<br>{bar(part.mean_label, color='var(--good)')}"),
        )
        for part in bins
    ]
    headers = ("prediction", "examples", "", "mean prediction", "mean label", "prediction above, label below")
    return Markup(tag("h2", "Calibration: of the two bars, neither should be longer") + table(headers, rows))
