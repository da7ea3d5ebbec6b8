"""Self-contained HTML pages that look alike: one style sheet, no script, no network."""

import html
from collections.abc import Iterable, Sequence

_STYLE = """
:root{--ink:#1b2733;--soft:#5b6b7a;--line:#dfe5ea;--good:#1f7a4d;--bad:#b3261e;--warn:#9a6700;--bar:#3d7eaa}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);max-width:1100px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line)}
.subtitle{color:var(--soft);margin:.2rem 0 1.5rem}
table{border-collapse:collapse;width:100%;margin:.5rem 0}
th,td{text-align:left;padding:.35rem .7rem;border-bottom:1px solid var(--line);
vertical-align:top}
th{font-weight:600;color:var(--soft);font-size:.85rem}td.number{text-align:right;font-variant-numeric:tabular-nums}
.good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}.verdict{font-size:1.2rem;font-weight:600}
.bar{display:inline-block;height:.7rem;background:var(--bar);vertical-align:middle}
code,pre{font:13px/1.4 ui-monospace,monospace;background:#f4f6f8;border-radius:3px;padding:.1rem .3rem}
pre{padding:.7rem;overflow:auto}.wide{overflow-x:auto}
@media(max-width:600px){body{margin:1rem auto;padding:0 .5rem}th,td{padding:.3rem .35rem;font-size:.85rem}
.bar{display:none}}
"""


class Markup(str):
    """Text that is HTML already and must not be escaped again."""

    __slots__ = ()


def text(value: object) -> Markup:
    """`value` as HTML: escaped unless it is `Markup`; floats with six significant digits."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, float):
        return Markup(f"{value:.6g}")
    return Markup(html.escape(str(value)))


def tag(name: str, content: object, css: str = "") -> Markup:
    """One element, such as `tag("p", "blocked", css="bad")`."""
    attribute = f' class="{css}"' if css else ""
    return Markup(f"<{name}{attribute}>{text(content)}</{name}>")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """A table; numbers are aligned right."""
    head = "".join(f"<th>{text(header)}</th>" for header in headers)
    body = []
    for row in rows:
        body.append(f"<tr>{''.join(_cell(value) for value in row)}</tr>")
    inner = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return Markup(f'<div class="wide">{inner}</div>')


def _cell(value: object) -> str:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return f'<td class="number">{text(value)}</td>' if numeric else f"<td>{text(value)}</td>"


def bar(share: float, width: int = 160, color: str = "") -> Markup:
    """A horizontal bar for a share between 0 and 1, `width` pixels long when the share is 1."""
    pixels = round(max(0.0, min(1.0, share)) * width)
    style = f"width:{pixels}px" + (f";background:{color}" if color else "")
    return Markup(f'<span class="bar" style="{style}"></span>')


def page(title: str, body: str, subtitle: str = "") -> str:
    """A whole page. `body` is HTML; `title` and `subtitle` are text."""
    under = f'<p class="subtitle">{text(subtitle)}</p>' if subtitle else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{text(title)}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><h1>{text(title)}</h1>{under}{body}</body></html>\n"
    )
