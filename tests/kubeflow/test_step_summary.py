"""What steps say about a run, and the page that is made of it."""

import json
import pathlib

import pytest
from tfx.types import standard_artifacts

from components.artifacts import DataVerdict, IngestionReport
from components.data_gate.finding import Finding, Verdict
from kubeflow import report_summary, step_summary


def artifact(folder: pathlib.Path, made, **files: str):
    """A TFX artifact with these files, by name without ending."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.json").write_text(text)
    made.uri = str(folder)
    return made


def finding(number: int) -> Finding:
    return Finding(feature=f"f{number}", rule="drift", split="train", observed="0.4", allowed="0.1")


def test_rows(tmp_path):
    report = artifact(tmp_path, IngestionReport(), report=json.dumps({"splits": {"train": 10_001, "eval": 7}}))
    assert step_summary.lines({"report": report, "examples": standard_artifacts.Examples()}) == (
        "- train: 10,001 rows\n- eval: 7 rows"
    )


def test_verdict_names_a_few_findings(tmp_path):
    findings = tuple(finding(number) for number in range(7))
    verdict = Verdict(mode="block", findings=findings, not_checked=(), splits={"train": 5})
    lines = step_summary.lines({"verdict": artifact(tmp_path, DataVerdict(), verdict=verdict.to_json())}).splitlines()
    assert lines[0] == "- **blocked**, 7 findings"
    assert lines[1].endswith(": f0, train: drift is 0.4, allowed 0.1")
    assert lines[-1] == "- and 2 more"
    assert len(lines) == 7


def test_metrics_are_a_table(tmp_path):
    row = {"metric": "a|uc", "slice": "all", "value": 0.75, "bound": ">= 0.5", "baseline": None, "passed": True}
    other = {**row, "slice": "x=1", "metric": "hidden"}
    content = json.dumps({"blessed": True, "reasons": ["all kept"], "rows": [row, other]})
    blessing = standard_artifacts.ModelBlessing()
    blessing.set_int_custom_property("blessed", 1)
    evaluation = artifact(tmp_path, standard_artifacts.ModelEvaluation(), verdict=content)
    text = step_summary.lines({"blessing": blessing, "evaluation": evaluation})
    assert text.startswith("- **blessed**\n- all kept\n\n| metric |")
    assert "| a\\|uc | 0.7500 | >= 0.5 |  |" in text
    assert "hidden" not in text


@pytest.mark.parametrize(("pushed", "said"), [(0, "- not pushed"), (1, "- version 7 is served")])
def test_push(pushed, said):
    model = standard_artifacts.PushedModel()
    model.set_int_custom_property("pushed", pushed)
    model.set_string_custom_property("pushed_version", "7")
    assert step_summary.lines({"pushed_model": model}) == said


def test_stock_components_without_files_of_ours(tmp_path):
    evaluation = artifact(tmp_path, standard_artifacts.ModelEvaluation())
    assert step_summary.lines({"evaluation": evaluation, "statistics": standard_artifacts.ExampleStatistics()}) == ""


def test_long_texts_are_cut(tmp_path):
    splits = {f"split-{number}": 1 for number in range(1000)}
    text = step_summary.lines({"report": artifact(tmp_path, IngestionReport(), report=json.dumps({"splits": splits}))})
    assert len(text) == 3000
    assert text.endswith(" …")


def test_page_leaves_out_who_said_nothing():
    assert report_summary.page("taxi", {"Gate": "- accepted", "Other": ""}) == "# taxi\n\n## Gate\n\n- accepted\n"
