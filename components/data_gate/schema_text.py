"""Schemas as text that people edit: what a change does not touch keeps its comments, order and layout."""

import re
from collections.abc import Iterator

from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from components.data_gate.errors import GateConfigError

_BLOCK = re.compile(r"^(feature|string_domain)\s*(?::\s*)?\{", re.MULTILINE)
_NAME = re.compile(r"""^\s*(name\s*:\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))""", re.MULTILINE)
_MESSAGES = {"feature": schema_pb2.Feature, "string_domain": schema_pb2.StringDomain}


def format_schema(schema: schema_pb2.Schema) -> str:
    """The whole schema, one block for each feature, without comments."""
    rest = schema_pb2.Schema()
    rest.CopyFrom(schema)
    del rest.feature[:]
    del rest.string_domain[:]
    head = text_format.MessageToString(rest)
    blocks = [_format("feature", item) for item in schema.feature]
    blocks += [_format("string_domain", item) for item in schema.string_domain]
    return "\n".join(filter(None, [head, *blocks]))


def rewrite(text: str, schema: schema_pb2.Schema) -> str:
    """`text` with the features and domains that differ in `schema` written anew, and new ones at the end of their kind.

    Fields and comments of a rewritten block stay in their order.

    Raises:
      GateConfigError: the text is laid out in a way that cannot be changed piece by piece.
    """
    present = text_format.Parse(text, schema_pb2.Schema())
    spans = {(kind, name): (start, end) for kind, name, start, end in _blocks(text)}
    edits: list[tuple[int, int, str]] = []
    for kind in _MESSAGES:
        old = {item.name: item for item in getattr(present, kind)}
        end_of_kind = max((end for (k, _), (_, end) in spans.items() if k == kind), default=len(text))
        for item in getattr(schema, kind):
            if item.name not in old:
                edits.append((end_of_kind, end_of_kind, "\n" + _format(kind, item).rstrip("\n")))
            elif item != old[item.name] and (kind, item.name) in spans:
                start, end = spans[kind, item.name]
                edits.append((start, end, _in_old_order(_format(kind, item), text[start:end]).rstrip("\n")))
    for start, end, replacement in sorted(edits, key=lambda edit: edit[0], reverse=True):
        text = text[:start] + replacement + text[end:]
    _check(text, schema)
    return text


def _check(text: str, schema: schema_pb2.Schema) -> None:
    result = text_format.Parse(text, schema_pb2.Schema())
    for kind in _MESSAGES:
        items = [{item.name: item for item in getattr(message, kind)} for message in (result, schema)]
        if items[0] != items[1]:
            raise GateConfigError(
                f"the schema's layout cannot be changed piece by piece ({kind}): write every {kind} as a block that "
                f"begins at the start of a line, or start from `sluice schema infer`"
            )


def _blocks(text: str) -> Iterator[tuple[str, str, int, int]]:
    """(kind, name, start, end) of every block that begins at the start of a line."""
    for match in _BLOCK.finditer(text):
        end = _closing(text, match.end())
        name = _NAME.search(text, match.end(), end)
        # The name as it is meant: text may spell letters and quotes as \\303 and \\".
        meant = text_format.Parse(name[1], schema_pb2.StringDomain()).name if name else ""
        yield match[1], meant, match.start(), end


def _closing(text: str, position: int) -> int:
    """Just after the brace that closes the block opened before `position`, braces in comments and strings aside."""
    depth = 1
    for token in re.compile(r'#[^\n]*|"(?:\\.|[^"\\])*"|[{}]').finditer(text, position):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    return len(text)


def _format(kind: str, item) -> str:
    body = text_format.MessageToString(item, indent=2)
    # A comparator or a domain of one or two values reads better on one line.
    compact = re.compile(r"^(  \w+ \{)\n((?:    [^{}]*\n|    \w+ \{\n(?:      [^{}]*\n)*    \}\n)*)  \}$", re.MULTILINE)
    body = compact.sub(lambda match: " ".join([match[1], *match[2].split(), "}"]), body)
    return f"{kind} {{\n{body}}}\n"


def _in_old_order(block: str, old: str) -> str:
    """`block` with the order of fields, and the comments, of the block that it replaces."""
    first, *new = _statements(block)
    lines = [first]
    for statement in _statements(old)[1:]:
        if statement.lstrip().startswith("#"):
            lines.append(statement)
        else:
            same = [other for other in new if _key(other) == _key(statement)]
            lines += same
            new = [other for other in new if other not in same]
    closing = [statement for statement in lines if _key(statement) == "}"]
    return "\n".join([*(line for line in lines if line not in closing), *new, *closing])


def _statements(block: str) -> list[str]:
    """The lines of a block, those of a nested block together."""
    result: list[str] = []
    depth = 0
    for line in block.rstrip("\n").split("\n"):
        if depth > 1:
            result[-1] += "\n" + line
        else:
            result.append(line)
        if not line.lstrip().startswith("#"):
            depth += line.count("{") - line.count("}")
    return result


def _key(statement: str) -> str:
    return re.split(r"[\s:]", statement.strip(), maxsplit=1)[0]
