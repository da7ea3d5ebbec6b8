"""Applies the rules and the policy, and says whether the data may be trained on. Knows nothing of TFX artifacts."""

import contextlib
import dataclasses
import datetime
import os
import tempfile
from collections.abc import Callable, Iterator

import apache_beam as beam
from apache_beam.runners.portability import fn_api_runner

from components.data_gate import catalog, row_pass
from components.data_gate.accept import how_to_accept, how_to_accept_all
from components.data_gate.config import Allowance, GatePolicy
from components.data_gate.context import Context, GateInputs
from components.data_gate.finding import ALLOWED, Finding, NotChecked, Verdict, row_count
from components.data_gate.merge import merged
from components.data_gate.other_data import other_data
from components.data_gate.policy_names import policy_notes, refuse_unknown_names
from components.data_gate.row_question import RowQuestion
from components.data_gate.rules import CHECKS, time
from components.data_gate.rules.distance import refuse_wrong_comparators


def judge(
    inputs: GateInputs,
    policy: GatePolicy,
    make_beam_pipeline: Callable[[], beam.Pipeline] | None = None,
    scratch: str | None = None,
) -> Verdict:
    """The verdict over `inputs` under `policy`.

    Args:
      inputs: statistics, schema, and what else is at hand.
      policy: what is let through.
      make_beam_pipeline: makes the pipeline for the pass over rows; called only when rows are needed. None means in
        this process.
      scratch: a folder that Beam workers can write to; None means a temporary one on this machine.

    Raises:
      GateConfigError: the schema has a comparator that cannot work.
    """
    refuse_wrong_comparators(inputs.schema)
    context = Context(inputs, policy)
    refuse_unknown_names(context)
    make_beam_pipeline = make_beam_pipeline or _local_pipeline
    if policy.time and time.only_rows_tell(context, policy.time):
        task = row_pass.RowPass(files=_training_first(context), time_text=policy.time.feature)
        context.text_times = _run(task, make_beam_pipeline, scratch).times
    results = [result for check in CHECKS for result in check(context)]
    findings = [result for result in results if isinstance(result, Finding)]
    not_checked = [result for result in results if isinstance(result, NotChecked)]
    findings = [rated for finding in _once(findings) if (rated := _rate(finding, policy, inputs.now))]
    findings += list(_look_at_rows(context, findings, make_beam_pipeline, scratch))
    findings = merged(sorted(findings, key=lambda finding: finding.split != "train"), policy.max_samples)
    order = {catalog.BLOCK: 0, catalog.WARN: 1, ALLOWED: 2}
    findings.sort(key=lambda finding: (order[finding.severity], finding.feature, finding.rule, finding.split))
    findings = [how_to_accept(finding, context) for finding in findings]
    return Verdict(
        mode=policy.mode,
        findings=tuple(findings),
        not_checked=tuple(
            item for item in dict.fromkeys(not_checked) if policy.severity_of(item.rule) != catalog.IGNORE
        ),
        splits={name: int(data.num_rows) for name, data in context.data_sets.items()},
        notes=(*inputs.notes, *other_data(context), *policy_notes(context)),
        accept=how_to_accept_all([finding for finding in findings if finding.blocks], policy, inputs),
    )


def _local_pipeline() -> beam.Pipeline:
    """Named, because since Beam 2.68 "DirectRunner" may pick another runner by itself."""
    return beam.Pipeline(runner=fn_api_runner.FnApiRunner(), argv=[])


def _once(findings: list[Finding]) -> Iterator[Finding]:
    """Each (feature, rule, split) once: two rules may see the same fault."""
    seen = set()
    for finding in findings:
        key = (finding.feature, finding.rule, finding.split)
        if key not in seen:
            seen.add(key)
            yield finding


def _rate(finding: Finding, policy: GatePolicy, now: datetime.datetime) -> Finding | None:
    """`finding` with the severity that policy and allow list give it; None where it is ignored."""
    severity = policy.severity_of(finding.rule)
    if severity == catalog.IGNORE:
        return None
    entries = [entry for entry in policy.allow if entry.covers(finding.feature, finding.rule)]
    valid = [entry for entry in entries if not entry.expired(now.date())]
    if valid:
        entry = max(valid, key=lambda entry: entry.until)
        return dataclasses.replace(finding, severity=ALLOWED, why=_allowed_why(finding, entry))
    if entries:
        last = max(entry.until for entry in entries)
        return dataclasses.replace(finding, severity=severity, why=f"{finding.why} Was allowed until {last}.".strip())
    return dataclasses.replace(finding, severity=severity)


def _allowed_why(finding: Finding, entry: Allowance) -> str:
    reason = f": {entry.reason}" if entry.reason else ""
    return f"{finding.why} Allowed until {entry.until}{reason}.".strip()


def _look_at_rows(
    context: Context,
    findings: list[Finding],
    make_beam_pipeline: Callable[[], beam.Pipeline],
    scratch: str | None,
) -> Iterator[Finding]:
    """Adds counts and sample rows to `findings` in place; yields the findings that only rows could tell."""
    policy, files = context.policy, context.inputs.examples
    blocking = {(f.feature, f.rule, f.split): i for i, f in enumerate(findings) if f.blocks}
    questions = tuple(
        q for q in context.questions if q.split in files and (q.decides or (q.feature, q.rule, q.split) in blocking)
    )
    task = row_pass.RowPass(
        files=_training_first(context),
        questions=questions,
        one_in=_one_in(context),
        key=policy.key,
        max_samples=policy.max_samples,
        columns=policy.duplicates.columns,
    )
    if not task.elements:
        return
    result = _run(task, make_beam_pipeline, scratch)
    known = {(finding.feature, finding.rule, finding.split) for finding in findings}
    for question, answer in zip(questions, result.answers, strict=True):
        where = blocking.get((question.feature, question.rule, question.split))
        if where is not None:
            findings[where] = _illustrated(findings[where], question, answer)
        elif question.decides and answer.rows and (question.feature, question.rule, question.split) not in known:
            yield from _rated(_from_rows(question, answer), context)
    for split, shared in result.shared.items():
        yield from _rated(_from_shared(context, split, shared), context)


def _run(
    task: row_pass.RowPass, make_beam_pipeline: Callable[[], beam.Pipeline], scratch: str | None
) -> row_pass.RowResult:
    with contextlib.ExitStack() as stack:
        folder = scratch or stack.enter_context(tempfile.TemporaryDirectory())
        return row_pass.run(task, make_beam_pipeline(), os.path.join(folder, "rows.json"))


def _rated(finding: Finding | None, context: Context) -> Iterator[Finding]:
    rated = _rate(finding, context.policy, context.inputs.now) if finding else None
    if rated:
        yield rated


def _training_first(context: Context) -> dict[str, tuple[str, ...]]:
    files = {split: files for split, files in context.inputs.examples.items() if split in context.splits}
    return {split: files[split] for split in sorted(files, key=lambda split: split != "train")}


def _one_in(context: Context) -> int:
    """Which fraction of row contents to compare between splits; 0 where that is off or impossible."""
    most = context.policy.duplicates.max_rows
    off = context.policy.severity_of("duplicates") == catalog.IGNORE
    if off or not most or len(_training_first(context)) < 2:
        return 0
    rows = sum(data.num_rows for data in context.splits.values())
    return max(1, -(-int(rows) // most))


def _illustrated(finding: Finding, question: RowQuestion, answer: row_pass.RowAnswer) -> Finding:
    """`finding` with its rows; where the question has words for them, with those too."""
    observed = finding.observed
    if question.observed:
        observed += f", {row_count(answer.rows)} with {question.observed}" if answer.rows else f", {question.otherwise}"
    return dataclasses.replace(finding, observed=observed, rows=answer.rows, samples=answer.samples)


def _from_rows(question: RowQuestion, answer: row_pass.RowAnswer) -> Finding:
    return Finding(
        feature=question.feature,
        rule=question.rule,
        split=question.split,
        observed=f"{row_count(answer.rows)} with {question.observed}",
        allowed=question.allowed,
        why=question.why,
        rows=answer.rows,
        samples=answer.samples,
    )


def _from_shared(context: Context, split: str, result: row_pass.SharedRows) -> Finding | None:
    most = context.policy.duplicates.max_share
    share = result.shared / result.compared if result.compared else 0.0
    if share <= most:
        return None
    reference = next(iter(_training_first(context)))
    everything = result.compared >= context.splits[split].num_rows
    return Finding(
        feature="",
        rule="duplicates",
        split=split,
        observed=f"{share:.2%} of the rows of {split} are in {reference} too"
        + ("" if everything else f" (from a sample of {result.compared} rows)"),
        allowed=f"at most {most:.2%}",
        why="The model would be evaluated on rows that it was trained on.",
        rows=result.shared if everything else round(share * context.splits[split].num_rows),
        samples=result.samples,
    )
