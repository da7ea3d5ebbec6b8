"""Where Kubeflow Pipelines is and how to get in, and what it means when the way there is barred."""

import dataclasses
import re
import ssl
import urllib.parse

import httpx

from kubeflow.auth import Credentials
from kubeflow.errors import ConnectionSettingError, KubeflowError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Connection:
    """Where Kubeflow is, and how to get in."""

    host: str
    """URL of Kubeflow Pipelines, such as http://localhost:8080 or https://kubeflow.example.com/pipeline."""
    namespace: str = ""
    """The profile; empty where Kubeflow has only one user."""
    credentials: Credentials = dataclasses.field(default_factory=Credentials)
    ca_file: str = ""
    """Certificate authority of a Kubeflow with a certificate of its own."""
    timeout_seconds: float = 30.0
    """For one answer."""

    @property
    def url(self) -> str:
        """The host as a URL.

        Raises:
          ConnectionSettingError: where it is none.
        """
        return _url(self.host)

    def trust(self) -> ssl.SSLContext | bool:
        """What certificates are checked against: the machine's authorities, or the one in `ca_file`.

        Raises:
          ConnectionSettingError: where that is no file with certificates.
        """
        if not self.ca_file:
            return True
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:  # SSLError is one
            raise ConnectionSettingError(f"--ca-file {self.ca_file}: {error.strerror or error}") from None


@dataclasses.dataclass(frozen=True)
class Explained:
    """Turns what the HTTP library raises into a sentence."""

    host: str
    timeout_seconds: float

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, httpx.TimeoutException):
            raise KubeflowError(f"{self.host} did not answer within {self.timeout_seconds:g} s") from None
        if isinstance(error, httpx.ConnectError):
            text = str(error)
            if "mismatch" in text:
                raise KubeflowError(f"{self.host}: its certificate is for another name ({text})") from None
            if "CERTIFICATE" in text.upper():
                raise KubeflowError(
                    f"{self.host}: its certificate is not trusted here ({text}). Give its authority with --ca-file."
                ) from None
            if "SSL" in text.upper():
                raise KubeflowError(f"{self.host} does not speak TLS ({text}): is it http:// there?") from None
            asked = _origin(error, self.host)
            if asked != self.host:
                raise KubeflowError(f"{self.host} leads to {asked}, which cannot be reached ({text})") from None
            raise KubeflowError(
                f"{self.host} cannot be reached ({text}). Is the port forwarded, "
                "as with `kubectl -n kubeflow port-forward svc/ml-pipeline-ui 8080:80`?"
            ) from None
        if isinstance(error, httpx.TooManyRedirects | httpx.HTTPError | httpx.InvalidURL):
            raise KubeflowError(f"{self.host}: {error}") from None


def _origin(error: httpx.RequestError, host: str) -> str:
    """Whom the request that failed was for: `host`, or whoever it was redirected to."""
    asked, meant = error.request.url, httpx.URL(host)
    same = (asked.scheme, asked.host, asked.port) == (meant.scheme, meant.host, meant.port)
    return host if same else f"{asked.scheme}://{asked.netloc.decode('ascii')}"


def _url(given: str) -> str:
    """The URL without what people copy along from the browser: a page of the UI, a slash."""
    host = given if "://" in given else f"http://{given}"
    try:
        url = urllib.parse.urlsplit(host)
        good = url.scheme in ("http", "https") and url.hostname and not re.search(r"\s", url.netloc)
        good = good and (url.port is None or url.port > 0)  # reading a port above 65535 raises
    except ValueError:
        good = False
    if not good:
        raise ConnectionSettingError(f"--host {given!r}: expected a URL such as http://localhost:8080")
    if url.username or url.password:
        raise ConnectionSettingError("--host: leave user and password out of the URL; give --token-file or --dex-user")
    return host.partition("#")[0].partition("?")[0].rstrip("/")
