"""The page, as a browser shows it."""

import dataclasses
import shutil
import subprocess

import pytest

from components.data_gate import report
from components.data_gate.config import GatePolicy
from components.data_gate.gate import judge

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


@pytest.fixture(scope="module")
def blocked(taxi, data, tmp_path_factory):
    """A page with blocking findings, rows, all four data sets, and a value that wants to be HTML."""
    train, evaluation = taxi.splits["train"], taxi.splits["eval"]
    case = dataclasses.replace(
        taxi,
        serving={name: values for name, values in evaluation.items() if name != "tips"},
        with_rows=True,
    ).change(
        "train",
        trip_miles=[miles * 1.609344 for miles in train["trip_miles"]],
        payment_type=["<script>alert(1)</script>" if i == 7 else kind for i, kind in enumerate(train["payment_type"])],
    )
    inputs = data.inputs_of(case, tmp_path_factory.mktemp("examples"))
    verdict = judge(inputs, GatePolicy.from_dict(case.policy))
    return verdict, report.render(verdict, inputs)


def test_page_needs_nothing_but_itself(blocked):
    _, html = blocked
    for word in ("<script", "<link", "http://", "https://", "src=", "@import"):
        assert word not in html


def test_page_begins_with_verdict_and_reason(blocked):
    verdict, html = blocked
    assert verdict.word == "blocked"
    places = [html.index(word) for word in (">Blocked<", "3 findings block: payment_type, trip_miles.", ">Columns<")]
    assert places == sorted(places)
    first, second = (html.index(f"<h3>{name} ") for name in ("trip_miles", "payment_type"))
    assert max(first, second) < html.index("<h3>fare")


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; apt-get install chromium")
def test_page_renders_in_chromium(blocked, tmp_path):
    """Laid out by a real browser: every column has a drawing of some size, nothing is wider than the window."""
    _, html = blocked
    measure = (
        "<script>document.title=JSON.stringify({"
        "columns:document.querySelectorAll('.column').length,"
        "drawn:[...document.querySelectorAll('.column svg')].filter(s=>s.getBoundingClientRect().height>40).length,"
        "series:document.querySelectorAll('.key').length,"
        "wide:document.documentElement.scrollWidth>innerWidth})</script>"
    )
    page = tmp_path / "report.html"
    page.write_text(html.replace("</body>", measure + "</body>"), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    done = subprocess.run(
        [CHROMIUM, *flags, "--window-size=1200,900", "--dump-dom", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert '<title>{"columns":18,"drawn":18,"series":4,"wide":false}</title>' in done.stdout.replace("&quot;", '"')
