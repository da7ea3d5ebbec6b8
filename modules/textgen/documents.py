"""The default data: the English prose in CPython's own pydoc_data, which is there wherever Python is."""

import itertools
import json
import pathlib
import re

from modules.textgen.near_duplicates import shingles

_RULE = re.compile(r'([*=\-~^"])\1{2,}')
_PAGE = 2_000
"""Characters from which a section is cut, between paragraphs."""
_REPEATED = 0.3
"""A section of which this share of shingles was there before is left out: topics contain one another."""

_SOURCES = {
    "statements": "assert assignment augassign async break class compound continue del else exceptions for function "
    "global if import nonlocal pass raise return try while with",
    "expressions": "atom-identifiers atom-literals attribute-references await binary bitwise booleans calls "
    "comparisons conversions exprlists in lambda power shifting slicings subscriptions unary yield operator-summary "
    "lists dict",
    "lexical": "floating identifiers id-classes imaginary integers numbers strings",
    "data-model": "attribute-access bltin-code-objects bltin-ellipsis-object bltin-null-object bltin-type-objects "
    "callable-types context-managers customization dynamic-features execmodel naming numeric-types objects "
    "sequence-types specialattrs specialnames truth types",
}
_OTHER = "library"


def write(folder: str) -> None:
    """Writes documents.jsonl: on each line an object with `text` and the `source` that it is a part of."""
    from pydoc_data.topics import topics

    source_of = {topic: source for source, names in _SOURCES.items() for topic in names.split()}
    seen: set[int] = set()
    with pathlib.Path(folder, "documents.jsonl").open("w", encoding="utf-8") as file:
        # From short to long: a section goes to the narrowest topic that it is in.
        for topic, text in sorted(topics.items(), key=lambda item: (len(item[1]), item[0])):
            for page in (page for section in sections(text) for page in pages(section)):
                mine = shingles(page.encode())
                if len(mine & seen) <= _REPEATED * len(mine):
                    file.write(json.dumps({"source": source_of.get(topic, _OTHER), "text": page}) + "\n")
                seen |= mine


def sections(text: str) -> list[str]:
    """A text cut before each of its underlined headings."""
    lines = text.split("\n")
    cuts = [0, len(lines)]
    for number in range(1, len(lines)):
        heading, rule = lines[number - 1], lines[number]
        if _RULE.fullmatch(rule) and heading.strip() and not heading.startswith(" ") and len(rule) >= len(heading):
            cuts.append(number - 1)
    cuts = sorted(set(cuts))
    parts = ["\n".join(lines[begin:end]).strip("\n") for begin, end in itertools.pairwise(cuts)]
    return [part for part in parts if part.strip()]


def pages(section: str) -> list[str]:
    """A section in pieces of about _PAGE characters, cut between paragraphs."""
    found, page = [], ""
    for paragraph in section.split("\n\n"):
        if page and len(page) + len(paragraph) > _PAGE:
            found.append(page)
            page = ""
        page = f"{page}\n\n{paragraph}" if page else paragraph
    return [*found, page]
