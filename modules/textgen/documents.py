"""Documents as JSON Lines: the default data, and one's own text files.

The default is the English prose in CPython's own pydoc_data, which is there wherever Python is.

    python -m modules.textgen.documents FOLDER OUTPUT    # every text file below FOLDER, into OUTPUT/documents.jsonl
"""

import argparse
import itertools
import json
import pathlib
import re
import sys

from modules.textgen.errors import TextDataError
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


def from_files(folder: pathlib.Path, output: pathlib.Path, suffixes: tuple[str, ...] = (".txt", ".md", ".rst")) -> int:
    """Writes OUTPUT/documents.jsonl, one line for each text file below `folder` that has any text; returns how many.

    A document's source is the first folder on the way to it, or `.` for files that lie in `folder` itself.

    Raises:
      TextDataError: there is no such file, or one is not UTF-8, or all are empty.
    """
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in suffixes and path.is_file())
    if not paths:
        raise TextDataError(f"no file below {folder} ends in {', '.join(suffixes)}")
    count = 0
    output.mkdir(parents=True, exist_ok=True)
    with (output / "documents.jsonl").open("w", encoding="utf-8") as file:
        for path in paths:
            inside = path.relative_to(folder).parts
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise TextDataError(
                    f"{path} is not UTF-8: byte {error.start} is {error.object[error.start]:#04x}"
                ) from None
            source = inside[0] if len(inside) > 1 else "."
            if text.strip():
                file.write(json.dumps({"source": source, "text": text}) + "\n")
                count += 1
    if not count:
        raise TextDataError(f"no text: all {len(paths)} files below {folder} are empty")
    return count


def main(arguments: list[str] | None = None) -> int:
    """The command above."""
    parser = argparse.ArgumentParser(prog="python -m modules.textgen.documents", description=from_files.__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    args = parser.parse_args(arguments)
    try:
        count = from_files(args.folder, args.output)
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    except TextDataError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    print(f"{count} documents: {args.output / 'documents.jsonl'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
