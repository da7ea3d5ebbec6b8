"""The evaluation as a page: verdict and reasons first, then metrics by slice."""

from components.evaluator.verdict import WHOLE, Row, Verdict
from components.html_page import Markup, bar, page, table, tag


def evaluation_page(verdict: Verdict) -> str:
    """Self-contained HTML."""
    state = tag("span", "blessed", css="good") if verdict.blessed else tag("span", "not blessed", css="bad")
    body: str = tag("p", Markup(f"Verdict: {state}"), css="verdict")
    body += Markup("<ul>" + "".join(tag("li", reason) for reason in verdict.reasons) + "</ul>")
    body += tag("h2", "The whole split") + _table([row for row in verdict.rows if row.slice == WHOLE])
    for metric in sorted({row.metric for row in verdict.rows if row.slice != WHOLE}):
        rows = [row for row in verdict.rows if row.metric == metric and row.slice != WHOLE]
        body += tag("h2", f"{metric} by slice") + _table(rows)
    if verdict.small_slices:
        body += tag("h2", "Slices too small to decide") + tag("p", ", ".join(verdict.small_slices))
    return page("Evaluation", body, f"{verdict.num_examples:,} examples")


def _table(rows: list[Row]) -> Markup:
    headers = ("metric", "slice", "value", "", "bound", "baseline", "")
    marks = {True: tag("span", "kept", css="good"), False: tag("span", "NOT KEPT", css="bad"), None: ""}
    return table(
        headers,
        [
            (
                row.metric,
                row.slice,
                "not computed" if row.value is None else row.value,
                bar(row.value) if row.value is not None and 0 <= row.value <= 1 else "",
                row.bound,
                "" if row.baseline is None else row.baseline,
                marks[row.passed],
            )
            for row in rows
        ],
    )
