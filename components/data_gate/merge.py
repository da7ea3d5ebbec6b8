"""One finding for one cause: what is wrong with a column in several splits is said once, with the splits named."""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Sequence

from components.data_gate.context import SERVING
from components.data_gate.finding import Finding

_SENTENCE_END = re.compile(r"(?<=[.?]) +(?=[A-Z])")


def merged(findings: Iterable[Finding], max_samples: int) -> list[Finding]:
    """`findings` with those of one column, rule and severity joined; what was served stays apart from the splits."""
    groups: dict[tuple, list[Finding]] = {}
    for finding in findings:
        key = (finding.feature, finding.rule, finding.severity, finding.split == SERVING)
        groups.setdefault(key, []).append(finding)
    return [_joined(group, max_samples) for group in groups.values()]


def _joined(group: Sequence[Finding], max_samples: int) -> Finding:
    first = group[0]
    if len(group) == 1:
        return first
    counted = [finding.rows for finding in group if finding.rows is not None]
    # In turns, so that every split shows some.
    turns = itertools.chain.from_iterable(itertools.zip_longest(*(finding.samples for finding in group)))
    return dataclasses.replace(
        first,
        split=_listed([finding.split for finding in group]),
        observed=_by_split(group, "observed"),
        allowed=_by_split(group, "allowed"),
        why=" ".join(
            dict.fromkeys(sentence for finding in group for sentence in _SENTENCE_END.split(finding.why))
        ).strip(),
        rows=sum(counted) if counted else None,
        samples=tuple(sample for sample in turns if sample is not None)[:max_samples],
    )


def _by_split(group: Sequence[Finding], field: str) -> str:
    texts = {finding.split: getattr(finding, field) for finding in group}
    if len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return "; ".join(f"{split}: {text}" for split, text in texts.items())


def _listed(splits: Sequence[str]) -> str:
    """Names for a sentence; the training split first, as a person thinks of them."""
    ordered = sorted(splits, key=lambda split: (split != "train", split))
    return f"{', '.join(ordered[:-1])} and {ordered[-1]}"
