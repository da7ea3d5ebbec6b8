"""What a step says about its run, in a few lines of Markdown: rows, verdict, metrics, version."""

import json
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

_MAX_CHARACTERS = 3000
"""The text travels as a parameter."""
_MAX_FINDINGS = 5


def lines(outputs: Mapping[str, Any]) -> str:
    """The lines for a step's outputs (TFX artifacts by port); empty where there is nothing to say."""
    said: list[str] = []
    for made in outputs.values():
        maker = _MAKERS.get(made.type_name)
        said += maker(made) if maker else []
    text = "\n".join(said)
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 2] + " …"


def says(type_names: list[str]) -> bool:
    """Whether a step with outputs of these types has something to say."""
    return any(name in _MAKERS for name in type_names)


def _ingestion(made: Any) -> list[str]:
    splits = _json_of(made, "report.json").get("splits", {})
    return [f"- {split}: {rows:,} rows" for split, rows in splits.items()]


def _verdict(made: Any) -> list[str]:
    verdict = _json_of(made, "verdict.json")
    findings = verdict.get("findings", [])
    said = [f"- **{verdict.get('verdict', 'no verdict')}**, {len(findings)} findings"]
    said += [f"- {_sentence(finding)}" for finding in findings[:_MAX_FINDINGS]]
    return said + ([f"- and {len(findings) - _MAX_FINDINGS} more"] if len(findings) > _MAX_FINDINGS else [])


def _sentence(finding: dict[str, Any]) -> str:
    where = f"{finding['feature'] or 'all features'}, {finding['split'] or 'all splits'}"
    return f"{finding['severity']}: {where}: {finding['rule']} is {finding['observed']}, allowed {finding['allowed']}"


def _evaluation(made: Any) -> list[str]:
    verdict = _json_of(made, "verdict.json")
    if not verdict:
        return []
    from pipeline.report import overall_metrics

    said = [*(f"- {_escaped(reason)}" for reason in verdict["reasons"]), "", "| metric | value | bound | baseline |"]
    said.append("|---|---|---|---|")
    for name, row in overall_metrics(verdict).items():
        baseline = "" if row["baseline"] is None else f"{row['baseline']:.4f}"
        said.append(f"| {_escaped(name)} | {row['value']:.4f} | {_escaped(row['bound'])} | {baseline} |")
    return [*said, ""]


def _blessing(made: Any) -> list[str]:
    return ["- **blessed**" if made.get_int_custom_property("blessed") else "- **not blessed**"]


def _registration(made: Any) -> list[str]:
    if not made.registered:
        return ["- not registered"]
    return [f"- version {made.model_version} of the registry"]


def _pushed(made: Any) -> list[str]:
    if not made.get_int_custom_property("pushed"):
        return ["- not pushed"]
    return [f"- version {made.get_string_custom_property('pushed_version')} is served"]


def _json_of(made: Any, name: str) -> dict[str, Any]:
    path = pathlib.Path(os.path.join(made.uri, name))
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def _escaped(text: object) -> str:
    """Text inside a Markdown table."""
    return str(text).replace("|", "\\|")


_MAKERS: dict[str, Callable[[Any], list[str]]] = {
    "IngestionReport": _ingestion,
    "DataVerdict": _verdict,
    "ModelEvaluation": _evaluation,
    "ModelBlessing": _blessing,
    "ModelRegistration": _registration,
    "PushedModel": _pushed,
}
