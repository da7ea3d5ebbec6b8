"""One column of several data sets as an SVG: outlines for numbers, bars for names. No script, no network."""

import dataclasses
from collections.abc import Mapping, Sequence

from components.data_gate.summary import CategorySummary, ColumnSummary, NumberSummary
from components.html_page import Markup, text

_WIDTH, _HEIGHT, _FLOOR = 420, 130, 112
_BINS = 24
_MOST_CATEGORIES = 10
_MOST_INTEGERS = 120
_BAR, _LABEL_WIDTH = 7, 130


@dataclasses.dataclass(frozen=True)
class Series:
    """How one data set is drawn."""

    name: str
    color: str
    dashed: bool = False


def chart(columns: Mapping[str, ColumnSummary], series: Sequence[Series]) -> Markup:
    """The distribution of one column in every data set that has it; empty where nothing can be drawn."""
    numbers = {name: column.number for name, column in columns.items() if column.number}
    categories = {name: column.category for name, column in columns.items() if column.category and column.num_present}
    shown_numbers = [(s, numbers[s.name]) for s in series if s.name in numbers]
    shown_categories = [(s, categories[s.name]) for s in series if s.name in categories]
    if shown_numbers:
        return _outlines(shown_numbers)
    if shown_categories and _are_integers(shown_categories):
        return _integers(shown_categories)
    if shown_categories:
        return _bars(shown_categories)
    return Markup("")


def legend(series: Sequence[Series]) -> Markup:
    """The names of the data sets beside their colours."""
    items = "".join(
        f'<span class="key"><svg width="22" height="10" role="img" aria-hidden="true">{_line(s, 0, 5, 22, 5)}</svg>'
        f"{text(s.name)}</span>"
        for s in series
    )
    return Markup(f'<p class="legend">{items}</p>')


def _line(s: Series, x1: float, y1: float, x2: float, y2: float) -> str:
    dash = ' stroke-dasharray="4 3"' if s.dashed else ""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{s.color}" stroke-width="2"{dash}/>'


def _outlines(shown: Sequence[tuple[Series, NumberSummary]]) -> Markup:
    """Shares in bins of equal width between the outer deciles of all data sets; the ends collect what lies beyond."""
    edges = [edge for _, number in shown for edge in number.distribution.inner_edges()]
    low, high = min(edges, default=0.0), max(edges, default=0.0)
    if any(number.num_zeros for _, number in shown):
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    step = (high - low) / _BINS
    bounds = [low + i * step for i in range(_BINS + 1)]
    heights = [(s, _bin_shares(number, bounds)) for s, number in shown]
    tallest = max(max(shares) for _, shares in heights) or 1.0
    return _steps(heights, tallest, (f"below {low:.4g}", f"{(low + high) / 2:.4g}", f"above {high:.4g}"))


def _integers(shown: Sequence[tuple[Series, CategorySummary]]) -> Markup:
    """Categories that are integers (hours, months, areas), in their order."""
    values = sorted({int(value) for _, category in shown for value in category.counts})
    places = list(range(values[0], values[-1] + 1))
    shares = [(s, category.shares()) for s, category in shown]
    heights = [(s, [by_value.get(str(place), 0.0) for place in places]) for s, by_value in shares]
    tallest = max(max(steps) for _, steps in heights) or 1.0
    return _steps(heights, tallest, (str(places[0]), str(places[len(places) // 2]), str(places[-1])))


def _are_integers(shown: Sequence[tuple[Series, CategorySummary]]) -> bool:
    """Whether all values are integers, few enough and near enough to each other to be drawn in order."""
    values = {value for _, category in shown for value in category.counts}
    if not values or not all(value.removeprefix("-").isdigit() for value in values):
        return False
    return max(map(int, values)) - min(map(int, values)) < _MOST_INTEGERS


def _steps(heights: Sequence[tuple[Series, Sequence[float]]], tallest: float, ends: tuple[str, str, str]) -> Markup:
    paths = "".join(_path(s, shares, tallest, filled=i == 0) for i, (s, shares) in enumerate(heights))
    axis = (
        f'<line x1="0" y1="{_FLOOR}" x2="{_WIDTH}" y2="{_FLOOR}" stroke="#9aa7b2"/>'
        f'<text x="2" y="{_HEIGHT - 4}">{ends[0]}</text>'
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 4}" text-anchor="middle">{ends[1]}</text>'
        f'<text x="{_WIDTH - 2}" y="{_HEIGHT - 4}" text-anchor="end">{ends[2]}</text>'
        f'<text x="2" y="10">{tallest:.0%}</text>'
    )
    return _svg(paths + axis, _HEIGHT, "distribution of " + ", ".join(s.name for s, _ in heights))


def _bin_shares(number: NumberSummary, bounds: Sequence[float]) -> list[float]:
    """Share below, in each bin, and above; the zeros go into the bin that holds 0."""
    zeros, *shares = number.distribution.shares(bounds)
    place = next((i for i, bound in enumerate(bounds) if bound > 0), len(bounds))
    shares[place] += zeros
    return shares


def _path(s: Series, shares: Sequence[float], tallest: float, filled: bool) -> str:
    width = _WIDTH / len(shares)
    points = [f"M0 {_FLOOR}"]
    for i, share in enumerate(shares):
        y = _FLOOR - share / tallest * (_FLOOR - 14)
        points.append(f"L{i * width:.1f} {y:.1f}L{(i + 1) * width:.1f} {y:.1f}")
    points.append(f"L{_WIDTH} {_FLOOR}")
    fill = f'fill="{s.color}" fill-opacity="0.22"' if filled else 'fill="none"'
    dash = ' stroke-dasharray="4 3"' if s.dashed else ""
    return f'<path d="{"".join(points)}" {fill} stroke="{s.color}" stroke-width="1.5"{dash}/>'


def _bars(shown: Sequence[tuple[Series, CategorySummary]]) -> Markup:
    """The most frequent values, with one bar for each data set."""
    shares = [(s, category.shares()) for s, category in shown]
    order = sorted({v for _, by_value in shares for v in by_value}, key=lambda v: -max(b.get(v, 0) for _, b in shares))
    values = order[:_MOST_CATEGORIES]
    longest = max((by_value.get(v, 0.0) for _, by_value in shares for v in values), default=1.0) or 1.0
    row = _BAR * len(shares) + 6
    parts = []
    for i, value in enumerate(values):
        top = i * row + 2
        parts.append(
            f'<text x="{_LABEL_WIDTH - 6}" y="{top + row / 2 + 1}" text-anchor="end">{text(_short(value))}</text>'
        )
        for j, (s, by_value) in enumerate(shares):
            share = by_value.get(value, 0.0)
            width = share / longest * (_WIDTH - _LABEL_WIDTH - 50)
            y = top + j * _BAR
            parts.append(
                f'<rect x="{_LABEL_WIDTH}" y="{y}" width="{width:.1f}" height="{_BAR - 1}" fill="{s.color}"/>'
                f'<text class="small" x="{_LABEL_WIDTH + width + 4:.1f}" y="{y + _BAR - 1}">{share:.1%}</text>'
            )
    rest = len(order) - len(values)
    height = len(values) * row + (16 if rest else 4)
    if rest:
        parts.append(f'<text x="{_LABEL_WIDTH}" y="{height - 4}">and {rest} more values</text>')
    return _svg("".join(parts), height, "shares in " + ", ".join(s.name for s, _ in shown))


def _short(value: str) -> str:
    return value if len(value) <= 20 else value[:19] + "…"


def _svg(content: str, height: float, label: str) -> Markup:
    return Markup(
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" '
        f'aria-label="{text(label)}">{content}</svg>'
    )
