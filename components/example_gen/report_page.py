"""report.json as a page."""

from typing import Any

from components.html_page import Markup, bar, page, table, tag


def render(content: dict[str, Any]) -> str:
    """The page for the content of report.json."""
    sections = [_summary, _findings, _columns, _bad_rows, _files, _time]
    return page("Ingestion", "".join(part for section in sections for part in section(content)))


def _summary(content: dict[str, Any]) -> list[Markup]:
    rows = content["rows"]
    line = (
        f"{rows} rows from {content['num_files']} files in {content['seconds']} s, "
        f"{content['rows_per_second']} rows/s. {content['bad_rows']} bad rows."
    )
    shares = [[name, count, f"{count / rows:.1%}", bar(count / rows)] for name, count in content["splits"].items()]
    return [tag("p", line), tag("h2", "Splits"), table(["split", "rows", "share", ""], shares)]


def _findings(content: dict[str, Any]) -> list[Markup]:
    parts = []
    for title, key, css in (("Warnings", "warnings", "warn"), ("Notes", "notes", "")):
        if content[key]:
            parts += [tag("h2", title), *(tag("p", line, css) for line in content[key])]
    return parts


def _columns(content: dict[str, Any]) -> list[Markup]:
    lines = []
    for name, detail in content["column_details"].items():
        share = detail["missing"] / max(1, content["rows"])
        types = ", ".join(detail["file_types"])
        lines.append([name, detail["kind"], detail["declared"], types, detail["missing"], bar(share)])
    return [tag("h2", "Columns"), table(["column", "kind", "declared", "type in the files", "missing", ""], lines)]


def _bad_rows(content: dict[str, Any]) -> list[Markup]:
    examples = content["bad_row_examples"]
    if not examples:
        return []
    lines = [[row["file"], row["line"], row["reason"], row["text"]] for row in examples]
    return [tag("h2", "Bad rows"), table(["file", "line", "why", "text"], lines)]


def _files(content: dict[str, Any]) -> list[Markup]:
    parts = [tag("h2", "Files"), table(["file"], [[path] for path in content["files"]])]
    if content["skipped_files"]:
        skipped = [[entry["file"], entry["why"]] for entry in content["skipped_files"]]
        parts += [tag("h2", "Left out"), table(["file", "why"], skipped)]
    return parts


def _time(content: dict[str, Any]) -> list[Markup]:
    stages = content["stage_seconds"]
    total = sum(stages.values()) or 1.0
    lines = [[name, seconds, bar(seconds / total)] for name, seconds in stages.items()]
    return [tag("h2", "Where the time went"), table(["stage", "seconds (all processes)", ""], lines)]
