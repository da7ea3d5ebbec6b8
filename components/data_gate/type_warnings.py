"""Which rows alone keep a column from the type that the schema has: a person would rather correct them."""

import os
from collections.abc import Iterable

import apache_beam as beam
from apache_beam.runners.portability import fn_api_runner

from components.data_gate import row_pass
from components.data_gate.accept import FEW
from components.data_gate.context import Context
from components.data_gate.data_folder import DataFolder
from components.data_gate.schema_change import SchemaChange
from components.data_gate.source_lines import locate

_NAMED = 3
_MOST = 20


def type_warnings(
    context: Context, changes: Iterable[SchemaChange], folder: DataFolder, scratch: str
) -> dict[str, str]:
    """Column to a warning, for the changes of type that come of some rows only; reads the rows if there are such.

    Args:
      context: that was held against its schema, so that it has the questions.
      changes: what would make the schema fit.
      folder: the data.
      scratch: a folder for what Beam writes.
    """
    retyped = {change.feature for change in changes if change.what == "type"}
    questions = tuple(q for q in dict.fromkeys(context.questions) if q.rule == "type-changed" and q.feature in retyped)
    if not questions or not folder.examples:
        return {}
    task = row_pass.RowPass(files=folder.examples, questions=questions, max_samples=_MOST)
    pipeline = beam.Pipeline(runner=fn_api_runner.FnApiRunner(), argv=[])
    result = row_pass.run(task, pipeline, os.path.join(scratch, "types.json"))
    place = locate([answer.samples for answer in result.answers], retyped, folder.ingestions)
    warnings = {}
    total = sum(data.num_rows for data in context.splits.values())
    for feature in sorted(retyped):
        asked = [(q, a) for q, a in zip(questions, result.answers, strict=True) if q.feature == feature]
        rows = sum(answer.rows for _, answer in asked)
        if not 0 < rows <= FEW * total:
            continue
        samples = [sample for _, answer in asked for sample in answer.samples]
        named = "; ".join(_named(sample, place(sample, feature), feature) for sample in samples[:_NAMED])
        more = f" and {rows - _NAMED} more" if rows > _NAMED else ""
        what = asked[0][0].observed
        warnings[feature] = f"{rows} of {total:.0f} rows with {what} ({named}{more}): rather correct those"
    return warnings


def _named(sample, place: dict, feature: str) -> str:
    value = place.get("text", sample["row"].get(feature))
    where = f"{place['file']}:{place['line']}" if "line" in place else ""
    if not where:
        where = f"{place.get('file', sample['file'])} row {place.get('record', sample['record'])}"
    return f"{value!r} at {where}"
