"""What Kubernetes takes as names and amounts: a pod with others is refused when a run has already begun."""

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from pipeline.errors import ConfigError

_PART = r"[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?"
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_KEY = re.compile(rf"([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_PART}")
_VALUE = re.compile(rf"({_PART})?")
_VARIABLE = re.compile(r"[-._A-Za-z][-._A-Za-z0-9]*")
_DOMAIN = r"[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?(:[0-9]+)?"
_COMPONENT = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"({_DOMAIN}/)?{_COMPONENT}(/{_COMPONENT})*(:[A-Za-z0-9_][-._A-Za-z0-9]{{0,127}})?(@sha256:[0-9a-f]{{64}})?"
)
_UNITS = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNITS |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)(m|k|M|G|T|Ki|Mi|Gi|Ti)?")


def check_name(what: str, name: str) -> None:
    """Raises ConfigError unless `name` can be that of a claim, a Secret or the like."""
    if not _SUBDOMAIN.fullmatch(name) or len(name) > 253:
        raise ConfigError(f"{what}: Kubernetes takes lower-case letters, digits, - and . here, found {name!r}")


def check_labels(what: str, labels: Mapping[str, str], *, values: bool = True) -> None:
    """Raises ConfigError unless these can be labels, or annotations where `values` is False."""
    for key, value in labels.items():
        if not _KEY.fullmatch(key):
            raise ConfigError(f"{what}: {key!r} is no key that Kubernetes takes, such as team or example.com/team")
        if values and not _VALUE.fullmatch(value):
            raise ConfigError(
                f"{what}: `{key}` must have at most 63 letters, digits, - _ and ., found {value!r}; "
                "other text can be an annotation"
            )


def check_key(what: str, key: str) -> None:
    """Raises ConfigError unless `key` can name a taint or a resource such as nvidia.com/gpu."""
    check_labels(what, {key: ""})


def check_path(what: str, path: str) -> None:
    """Raises ConfigError unless something can be mounted at `path`: a plain, absolute path, and not all there is."""
    if not path.startswith("/") or posixpath.normpath(path) != (path.rstrip("/") or "/") or re.search(r"[:\s]", path):
        raise ConfigError(f"{what} must be absolute, without .., colons and blanks, found {path!r}")
    if path.strip("/") == "":
        raise ConfigError(f"{what} must be a folder of its own, found '/'")


def check_no_template(what: str, value: Any) -> None:
    """Raises ConfigError for text anywhere in `value` that Argo would take for a template, and replace."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            check_no_template(f"{what}: {key}", item)
    elif isinstance(value, list | tuple):
        for item in value:
            check_no_template(what, item)
    elif isinstance(value, str) and "{{" in value:
        raise ConfigError(f"{what}: '{{{{' would be a template for Argo, found {value!r}")


def check_variables(what: str, names: Mapping[str, str]) -> None:
    """Raises ConfigError unless each key can be an environment variable."""
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise ConfigError(f"{what}: {name!r} is no name of an environment variable")


def check_image_reference(image: str) -> None:
    """Raises ConfigError unless `image` is written as container runtimes read it."""
    if not _IMAGE.fullmatch(image):
        raise ConfigError(
            f"image {image!r} is not written as registry.example/team/name:tag or ...@sha256: and 64 hexadecimal digits"
        )


def is_quantity(text: str) -> bool:
    """Whether `text` is an amount such as 500m or 4Gi."""
    return _QUANTITY.fullmatch(text) is not None


def amount(text: str) -> float:
    """The number that a quantity stands for: cores or bytes."""
    match = _QUANTITY.fullmatch(text)
    assert match is not None, text  # StepConfig has checked it
    return float(match[1]) * _UNITS[match[2] or ""]
