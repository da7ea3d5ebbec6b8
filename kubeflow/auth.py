"""Ways to say who one is to a Kubeflow that wants to know: a token, a Dex login, or the pod's own identity."""

import dataclasses
import html
import os
import pathlib
import re
import urllib.parse

import httpx

from kubeflow.errors import ConnectionSettingError, KubeflowError

POD_TOKEN = "/var/run/secrets/kubeflow/pipelines/token"
"""Where Kubeflow projects a token for its API into pods of a profile."""
_LOGIN = re.compile(r"/dex/auth|/oauth2/|/authservice/|/login|openid-connect|/authorize\b", re.IGNORECASE)
_FORM = re.compile(r"<form[^>]*>", re.IGNORECASE)
_ACTION = re.compile(r'action="([^"]*)"', re.IGNORECASE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Credentials:
    """What the person gave; nothing of it is ever printed."""

    token_file: str = ""
    """A bearer token."""
    dex_user: str = ""
    """E-mail address of a static user of Dex or of its LDAP connector."""
    dex_password: str = dataclasses.field(default="", repr=False)
    dex_connector: str = "local"
    """The connector of Dex to log in with: local, ldap."""

    @property
    def are_given(self) -> bool:
        """Whether there is anything to send."""
        return bool(self.token_file or self.dex_user or os.path.exists(POD_TOKEN))

    def apply(self, client: httpx.Client) -> None:
        """Makes `client` send the credentials from now on.

        Raises:
          KubeflowError: where a token cannot be read or a login was refused.
        """
        if token := self.token():
            client.headers["Authorization"] = f"Bearer {token}"
        elif self.dex_user:
            _dex_login(client, self)

    def token(self) -> str:
        """The bearer token that is sent: the one given, or, without a Dex user, the pod's; empty where there is none.

        Raises:
          ConnectionSettingError: where its file cannot be read or holds something else.
        """
        if self.token_file:
            return _read_token(self.token_file)
        return _read_token(POD_TOKEN) if not self.dex_user and os.path.exists(POD_TOKEN) else ""


def wants_login(response: httpx.Response) -> bool:
    """Whether the answer is the way to a login page and not the API's."""
    location = response.headers.get("location", "")
    if response.is_redirect and _LOGIN.search(location):
        return True
    # gateways answer with a page, oauth2-proxy's with 403; Kubeflow itself never does
    return response.status_code in (200, 401, 403) and is_page(response)


def is_page(response: httpx.Response) -> bool:
    """Whether the answer is a page for people, whose text says nothing in a terminal."""
    return "text/html" in response.headers.get("content-type", "")


def _read_token(path: str) -> str:
    try:
        token = pathlib.Path(path).read_text(encoding="ascii").strip()
    except OSError as error:
        raise ConnectionSettingError(f"token file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        token = ""
    if not token or not token.isprintable() or " " in token:
        raise ConnectionSettingError(f"token file {path}: expected one token and nothing else")
    return token


def _dex_login(client: httpx.Client, credentials: Credentials) -> None:
    """Walks from the API to Dex's login form, fills it in, and keeps the session cookie that comes back."""
    page = client.get("/", follow_redirects=True)
    if "/dex/auth" not in page.url.path:
        raise KubeflowError(f"{client.base_url}: no Dex answers there (it led to {page.url}); leave out --dex-user")
    if page.url.path.rstrip("/").endswith("/auth"):  # Dex asks which connector
        target = page.url.copy_with(path=re.sub(r"/auth/?$", f"/auth/{credentials.dex_connector}", page.url.path))
        page = client.get(target, follow_redirects=True)
    form = client.post(
        _form_target(page),
        data={"login": credentials.dex_user, "password": credentials.dex_password},
        follow_redirects=True,
    )
    if "/approval" in form.url.path:
        query = urllib.parse.parse_qs(form.url.query.decode())
        data = {"req": query.get("req", [""])[0], "approval": "approve"}
        form = client.post(form.url, data=data, follow_redirects=True)
    if "/dex/" in form.url.path:
        raise KubeflowError(f"Dex did not let {credentials.dex_user} in: wrong password, or no such user")
    if not client.cookies:
        raise KubeflowError("Dex let the user in, but no session cookie came back; is the address the gateway's own?")


def _form_target(page: httpx.Response) -> httpx.URL:
    form = _FORM.search(page.text)
    action = _ACTION.search(form[0]) if form else None
    if form is None:
        raise KubeflowError(f"{page.url}: expected Dex's login form, found none")
    return page.url.join(html.unescape(action[1])) if action and action[1] else page.url
