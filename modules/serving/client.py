"""Asks a running server (this one or TensorFlow Serving) over REST: rows in, one answer a row out."""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx

from modules.serving import example_rows
from modules.serving.status import BadRowError, Code, ServingError, ServingUsageError

_DEFAULT_SIGNATURE = "serving_default"


class PredictionClient:
    """A client of one model. Safe to use from many threads; keeps its connections.

    Args:
      url: where the server's REST API is, such as http://127.0.0.1:8501; http:// may be left out.
      name: the model.
      version, label: which version; at most one of them. Neither: the highest that is available.
      timeout: seconds for one request.
    """

    def __init__(self, url: str, name: str, *, version: int | None = None, label: str = "", timeout: float = 30.0):
        if version is not None and label:
            raise ServingUsageError("give a version or a label, not both")
        where = f"/versions/{version}" if version is not None else f"/labels/{quote(label, safe='')}" if label else ""
        self._path = f"/v1/models/{quote(name, safe='')}{where}"
        try:
            url = url if "://" in url else f"http://{url}"
            self._http = httpx.Client(base_url=url, timeout=timeout)
        except (httpx.InvalidURL, ValueError) as error:
            raise ServingUsageError(f"{url} is not a URL: {error}") from None

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> "PredictionClient":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def predict_rows(
        self, rows: Sequence[Mapping[str, Any]], signature: str = "", kinds: example_rows.FeatureKinds | None = None
    ) -> list[dict[str, Any]]:
        """One answer for each row: output name to value.

        Rows go as tf.Examples where the signature takes them, else as they are. `kinds` tells the types of features;
        without it they are those of the values, so 1 is a whole number and 1.0 is not.

        Raises:
          BadRowError: the server says that the request is wrong.
          ServingError: it cannot be reached, does not serve the model, or failed.
        """
        example_rows.check_rows(rows)
        described = self.signature(signature)
        if _takes_examples(described, rows):
            return self._predict(_as_base64(example_rows.encode_rows(rows, kinds or {})), signature, described)
        return self._predict(_instances(described, rows), signature, described)

    def predict_examples(self, examples: Iterable[bytes], signature: str = "") -> list[dict[str, Any]]:
        """One answer for each serialized tf.Example."""
        return self._predict(_as_base64(examples), signature, self.signature(signature))

    def signature(self, name: str = "") -> dict[str, Any]:
        """A signature as /metadata describes it: inputs and outputs by alias."""
        document = self._call("GET", f"{self._path}/metadata")
        signatures = document["metadata"]["signature_def"]["signature_def"]
        if (wanted := name or _DEFAULT_SIGNATURE) not in signatures:
            known = ", ".join(sorted(key for key in signatures if not key.startswith("__")))
            raise ServingUsageError(f"the model has no signature {wanted!r}; it has: {known}")
        return signatures[wanted]

    def _predict(self, instances: list[Any], signature: str, described: Mapping[str, Any]) -> list[dict[str, Any]]:
        if not instances:
            return []
        body: dict[str, Any] = {"instances": instances}
        if signature:
            body["signature_name"] = signature
        answers = self._call("POST", f"{self._path}:predict", body)["predictions"]
        if len(described["outputs"]) > 1:
            return answers
        (output,) = described["outputs"]
        return [{output: answer} for answer in answers]  # a single output comes without its name

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        try:
            content = None if body is None else json.dumps(body)
            response = self._http.request(method, path, content=content)
            document = response.json()
        except httpx.TransportError as error:
            raise ServingError(Code.UNAVAILABLE, f"cannot reach {self._http.base_url}: {error}") from None
        except ValueError:
            problem = f"{self._http.base_url}{path.lstrip('/')} answered {response.status_code} without JSON"
            raise ServingError(Code.INTERNAL, f"{problem}: is it a model server?") from None
        if response.status_code == 200:
            return document
        message = document.get("error", response.text) if isinstance(document, dict) else response.text
        if method == "POST" and response.status_code == 400:
            raise BadRowError(f"the server cannot read these rows: {message}")
        raise ServingError(Code.of_http(response.status_code), f"{self._http.base_url}: {message}")


def _takes_examples(described: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether rows have to go as tf.Examples: a string vector may also be what the rows name, encoded pictures, say."""
    if len(described["inputs"]) != 1:
        return False
    ((alias, tensor),) = described["inputs"].items()
    is_vector = tensor["dtype"] == "DT_STRING" and len(tensor["tensor_shape"]["dim"]) == 1
    return is_vector and not all(alias in row for row in rows)


def _instances(described: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows with the signature's inputs only, as JSON carries them. Raises BadRowError."""
    instances: list[dict[str, Any]] = []
    for number, row in enumerate(rows, start=1):
        instances.append({})
        for alias, tensor in described["inputs"].items():
            if alias not in row:
                raise BadRowError(f"row {number}: input {alias!r} is missing; expected {sorted(described['inputs'])}")
            instances[-1][alias] = _as_json(row[alias], tensor["dtype"], f"row {number}, input {alias!r}")
    return instances


def _as_json(value: Any, dtype: str, where: str) -> Any:
    """A value as the server reads it: bytes as {"b64": ...}, and the text of a CSV's cell as the number it says."""
    if isinstance(value, list | tuple):
        return [_as_json(item, dtype, where) for item in value]
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode("ascii")}
    if not isinstance(value, str) or dtype == "DT_STRING":
        return value
    try:
        return int(value) if "INT" in dtype else float(value)
    except ValueError:
        raise BadRowError(f"{where}: expected {dtype}, got {value!r}") from None


def _as_base64(examples: Iterable[bytes]) -> list[dict[str, str]]:
    return [{"b64": base64.b64encode(example).decode("ascii")} for example in examples]
