"""Reading what a server has answered: fields may be missing, null, or, from some other program, of any kind."""

from typing import Any


def text(answer: dict[str, Any], field: str) -> str:
    """The text in `field`; empty where there is none."""
    found = answer.get(field)
    return found if isinstance(found, str) else ""


def mapping(answer: dict[str, Any], field: str) -> dict[str, Any]:
    """The mapping in `field`; empty where there is none."""
    found = answer.get(field)
    return found if isinstance(found, dict) else {}


def listed(answer: dict[str, Any], field: str) -> list[dict[str, Any]]:
    """The mappings in the list in `field`; none where there is no list."""
    found = answer.get(field)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
