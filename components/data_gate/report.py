"""The verdict as a page: reason on top, anomalies first, then every column in all data sets side by side."""

from collections.abc import Iterable, Mapping, Sequence

from components.data_gate import catalog
from components.data_gate.charts import Series, chart, legend
from components.data_gate.context import SERVING, GateInputs
from components.data_gate.finding import ACCEPTED, BLOCKED, Finding, Verdict, row_count
from components.data_gate.summary import ColumnSummary, DataSummary, summarize
from components.html_page import Markup, page, table, tag, text

PREVIOUS = "previous"
_COLORS = ("#3d7eaa", "#e08a2e", "#8e5ea8", "#b8a13a")
_PREVIOUS_COLOR, _SERVING_COLOR = "#6b7681", "#2e9e6b"
_CSS = {catalog.BLOCK: "bad", catalog.WARN: "warn", "allowed": "good"}
_STYLE = Markup(
    "<style>"
    "h3,p,td,code,summary{overflow-wrap:anywhere}"
    ".columns{display:grid;grid-template-columns:repeat(auto-fill,minmax(440px,1fr));gap:1rem}"
    ".column{border:1px solid var(--line);border-radius:6px;padding:.6rem .8rem;overflow:hidden}"
    ".column h3{margin:.1rem 0 .4rem;font-size:1rem}.column svg{max-width:100%;height:auto;display:block}"
    ".column table{font-size:.8rem}.column td,.column th{padding:.1rem .4rem}"
    ".column.block{border-color:var(--bad);border-width:2px}.column.warn{border-color:var(--warn)}"
    "svg text{font:10px system-ui,sans-serif;fill:var(--soft)}svg text.small{font-size:7px}"
    ".legend{position:sticky;top:0;background:#fff;padding:.3rem 0;margin:0}"
    ".key{margin-right:1.2rem}.key svg{margin-right:.3rem}"
    ".finding{border-left:4px solid var(--line);padding:.1rem .9rem;margin:.8rem 0}"
    ".finding.block{border-color:var(--bad)}.finding.warn{border-color:var(--warn)}"
    ".finding.allowed{border-color:var(--good)}.finding p{margin:.25rem 0}"
    ".rows{overflow-x:auto}.rows table{font-size:.8rem;white-space:nowrap}.rows td{overflow-wrap:normal}"
    "</style>"
)


def render(verdict: Verdict, inputs: GateInputs, title: str = "Data validation") -> str:
    """A self-contained HTML page."""
    data_sets = _data_sets(inputs)
    series = _series(data_sets)
    rows = ", ".join(f"{name}: {count:,} rows" for name, count in verdict.splits.items())
    body = [
        _STYLE,
        _headline(verdict),
        *(_finding(finding) for finding in verdict.findings),
        _notes(verdict),
        _not_checked(verdict),
        tag("h2", "Columns"),
        legend(series),
        _columns(verdict.findings, data_sets, series),
    ]
    return page(title, "".join(body), rows)


def _data_sets(inputs: GateInputs) -> dict[str, DataSummary]:
    result = {split: summarize(statistics) for split, statistics in inputs.statistics.items()}
    if inputs.baseline:
        result[PREVIOUS] = summarize(inputs.baseline.get("train") or next(iter(inputs.baseline.values())))
    if inputs.serving is not None:
        result[SERVING] = summarize(inputs.serving)
    return result


def _series(data_sets: Mapping[str, DataSummary]) -> list[Series]:
    colors = iter(_COLORS * len(data_sets))
    special = {PREVIOUS: _PREVIOUS_COLOR, SERVING: _SERVING_COLOR}
    return [Series(name, special.get(name) or next(colors), dashed=name == PREVIOUS) for name in data_sets]


def _headline(verdict: Verdict) -> Markup:
    css = {BLOCKED: "bad", ACCEPTED: "good"}.get(verdict.word, "warn")
    return Markup(tag("p", verdict.word.capitalize(), css=f"verdict {css}") + tag("p", _reason(verdict)))


def _reason(verdict: Verdict) -> str:
    if verdict.blocking:
        subjects = sorted({finding.feature or "the data set" for finding in verdict.blocking})
        count = len(verdict.blocking)
        reason = f"{count} {'finding blocks' if count == 1 else 'findings block'}: {', '.join(subjects)}."
        return reason if verdict.mode == catalog.BLOCK else f"{reason} The policy's mode is warn, so the run goes on."
    if verdict.findings:
        return "Nothing blocks; see what is below."
    return "No rule found anything."


def _finding(finding: Finding) -> Markup:
    subject = finding.feature or "the data set"
    lines = [
        f"<p><strong>{text(subject)}</strong> · <code>{text(finding.rule)}</code> in {text(finding.split)} · "
        f"{tag('span', finding.severity, css=_CSS[finding.severity])}</p>",
        f"<p>{text(catalog.RULES[finding.rule].summary.capitalize())}. "
        f"Observed: <strong>{text(finding.observed)}</strong>. Allowed: {text(finding.allowed)}.</p>",
    ]
    if finding.why:
        lines.append(tag("p", finding.why))
    if finding.blocks:
        lines.append(f"<p>To accept: <code>{text(finding.accept)}</code></p>")
    if finding.rows is not None:
        shown = len(finding.samples)
        lines.append(
            f"<details><summary>{row_count(finding.rows)} offending, {shown} shown</summary>"
            f'<div class="rows">{_samples(finding)}</div></details>'
        )
    return Markup(f'<div class="finding {finding.severity}">{"".join(lines)}</div>')


def _samples(finding: Finding) -> Markup:
    """Each row's place, what is written there in the column at fault, and then the row as it was read."""
    names: list[str] = []
    for sample in finding.samples:
        names += [name for name in sample["row"] if name not in names]
    names.sort(key=lambda name: name != finding.feature)
    written = any("text" in sample for sample in finding.samples)
    rows = [
        [
            sample["split"],
            sample["file"],
            sample.get("line", sample.get("record", "")),
            *([sample.get("text", "")] if written else []),
            *(sample["row"].get(name) for name in names),
        ]
        for sample in finding.samples
    ]
    place = "line" if any("line" in sample for sample in finding.samples) else "row"
    headers = ["split", "file", place, *(["as written"] if written else []), *names]
    return table(headers, [["" if value is None else value for value in row] for row in rows])


def _notes(verdict: Verdict) -> Markup:
    if not verdict.notes:
        return Markup("")
    items = "".join(tag("li", note) for note in verdict.notes)
    return Markup(f"{tag('h2', 'Notes')}<ul>{items}</ul>")


def _not_checked(verdict: Verdict) -> Markup:
    if not verdict.not_checked:
        return Markup("")
    rows = [[item.rule, item.feature, item.why] for item in verdict.not_checked]
    return Markup(tag("h2", "Not checked") + table(["rule", "column", "why"], rows))


def _columns(findings: Iterable[Finding], data_sets: Mapping[str, DataSummary], series: Sequence[Series]) -> Markup:
    """Columns with findings first, the most severe of them in front."""
    worst: dict[str, str] = {}
    for finding in findings:  # sorted by severity already
        worst.setdefault(finding.feature, finding.severity)
    names = list(dict.fromkeys(name for data in data_sets.values() for name in data.columns))
    order = list(_CSS)
    names.sort(key=lambda name: order.index(worst[name]) if name in worst else len(order))
    cards = (_card(name, worst.get(name, ""), data_sets, series) for name in names)
    return Markup(f'<div class="columns">{"".join(cards)}</div>')


def _card(name: str, severity: str, data_sets: Mapping[str, DataSummary], series: Sequence[Series]) -> Markup:
    columns = {key: data.columns[name] for key, data in data_sets.items() if name in data.columns}
    numeric = any(column.number for column in columns.values())
    rows = [[s.name, *_facts(columns[s.name], numeric)] for s in series if s.name in columns]
    headers = ["", "missing", "mean", "least", "most"] if numeric else ["", "missing", "values", "most frequent", ""]
    heading = text(name) + (f" {tag('span', severity, css=_CSS[severity])}" if severity else "")
    picture = chart(columns, series) or tag("p", "no values to draw", css="subtitle")
    return Markup(f'<div class="column {severity}"><h3>{heading}</h3>{picture}{table(headers, rows)}</div>')


def _facts(column: ColumnSummary, numeric: bool) -> list[object]:
    """What stands under the headers of `_card`; in a column of numbers elsewhere, text says that it is text."""
    missing = f"{1 - column.present_share:.2%}"
    if column.number:
        return [missing, column.number.mean, column.number.low, column.number.high]
    if numeric and column.category:
        return [missing, f"{column.category.unique} texts" if column.type == "BYTES" else "", "", ""]
    if column.category:
        return [missing, column.category.unique, next(iter(column.category.counts), ""), ""]
    return [missing, "", "", ""]
