"""An HTTP server that speaks Kubeflow Pipelines' v2beta1 API, for the client's tests.

Requests are read into kfp-server-api's own models, and answers written from them, so that a field that the API does not
have is an error here as it is there. It can want a token or a Dex login, be slow, be overloaded, or be too old.
"""

import dataclasses
import http.server
import json
import threading
import time
import urllib.parse
import uuid
from typing import Any

import kfp_server_api

from kubeflow import api_checks

SESSION = "oauth2_proxy_kubeflow=signed-in"
_MODELS = kfp_server_api.ApiClient()


@dataclasses.dataclass
class Behaviour:
    """What is wrong with the server."""

    token: str = ""
    """The only bearer token that it takes."""
    dex_users: dict[str, str] = dataclasses.field(default_factory=dict)
    """User to password; with any, a session cookie is wanted."""
    namespaces: tuple[str, ...] = ()
    """Profiles; with any, the server has several users."""
    statuses: list[int] = dataclasses.field(default_factory=list)
    """Status codes of the next answers, before it behaves again."""
    refuses_runs: str = ""
    """What it says of every pipeline, as servers do that cannot compile it."""
    drops: int = 0
    """How many of the next requests find their connection closed."""
    delay_seconds: float = 0.0
    is_old: bool = False
    """Whether it has only the API of Kubeflow Pipelines 1.x."""
    not_kubeflow: bool = False
    """Whether it is some other program's web page."""


class Server(http.server.ThreadingHTTPServer):
    """Keeps experiments and runs. Use it as a context manager."""

    def __init__(self, behaviour: Behaviour | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behaviour = behaviour or Behaviour()
        self.experiments: dict[str, dict[str, Any]] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.recurring_runs: dict[str, dict[str, Any]] = {}
        self.states: list[dict[str, Any]] = []
        """What the next looks at a run show, one after the other."""
        self.logs: dict[str, str] = {}
        """Log by pod."""
        self.requests: list[str] = []
        self._thread = threading.Thread(target=lambda: self.serve_forever(poll_interval=0.02), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._handle("GET")

    def do_POST(self) -> None:
        self._handle("POST")

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def _handle(self, method: str) -> None:
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        behaviour = self.server.behaviour
        self.server.requests.append(f"{method} {url.path}")
        if behaviour.drops:
            behaviour.drops -= 1
            self.close_connection = True
            return
        if behaviour.delay_seconds:
            time.sleep(behaviour.delay_seconds)  # the slow answer itself is what is tested
        if behaviour.statuses:
            self._error(behaviour.statuses.pop(0), "upstream connect error")
        elif behaviour.not_kubeflow:
            self._answer(200, b"pong", "text/plain")
        elif url.path.startswith(("/dex", "/oauth2")):
            self._dex(method, url, query, body)
        elif behaviour.dex_users and SESSION not in self.headers.get("Cookie", ""):
            self._redirect("/dex/auth?client_id=kubeflow&response_type=code")
        elif behaviour.token and self.headers.get("Authorization") != f"Bearer {behaviour.token}":
            self._error(401, "Request header error: there is no user identity header.")
        elif behaviour.is_old and url.path.startswith("/apis/v2beta1"):
            self._error(404, "")
        else:
            self._api(method, url.path, query, json.loads(body) if body else {})

    # -- Dex -------------------------------------------------------------------------------------------------------

    def _dex(self, method: str, url: urllib.parse.SplitResult, query: dict[str, str], body: bytes) -> None:
        if url.path == "/oauth2/callback":
            self._redirect("/", cookie=SESSION)
        elif url.path == "/dex/auth":
            self._answer(200, b"<a href='/dex/auth/local'>e-mail</a><a href='/dex/auth/ldap'>LDAP</a>", "text/html")
        elif url.path == "/dex/auth/local":
            self._redirect("/dex/auth/local/login?back=&state=abc")
        elif method == "GET":
            form = '<form method="post" action="/dex/auth/local/login?back=&amp;state=abc"><input name="login"></form>'
            self._answer(200, form.encode(), "text/html")
        else:
            sent = dict(urllib.parse.parse_qsl(body.decode()))
            if query.get("state") == "abc" and self.server.behaviour.dex_users.get(sent["login"]) == sent["password"]:
                self._redirect("/oauth2/callback?code=xyz", status=303)
            else:
                self._answer(401, b"<form>Invalid Email Address and password.</form>", "text/html")

    # -- the API ---------------------------------------------------------------------------------------------------

    def _api(self, method: str, path: str, query: dict[str, str], body: dict[str, Any]) -> None:
        server = self.server
        parts = path.removeprefix("/apis/").split("/")
        match method, parts:
            case "GET", ["v1beta1", "healthz"]:
                self._json({"tag_name": "2.5.0", "multi_user": bool(server.behaviour.namespaces)})
            case "GET", ["v2beta1", "healthz"]:
                self._model(kfp_server_api.V2beta1GetHealthzResponse(multi_user=bool(server.behaviour.namespaces)))
            case "GET", ["v2beta1", "experiments"]:
                self._list_experiments(query)
            case "POST", ["v2beta1", "experiments"]:
                self._create("experiment_id", server.experiments, kfp_server_api.V2beta1Experiment, body)
            case "POST", ["v2beta1", "runs"] if server.behaviour.refuses_runs:
                self._error(500, server.behaviour.refuses_runs)
            case "POST", ["v2beta1", "runs"]:
                self._create_run(server.runs, "run_id", kfp_server_api.V2beta1Run, body)
            case "POST", ["v2beta1", "recurringruns"]:
                model = kfp_server_api.V2beta1RecurringRun
                self._create_run(server.recurring_runs, "recurring_run_id", model, body)
            case "POST", ["v2beta1", "recurringruns", action] if action.endswith(":disable"):
                self._disable(action.removesuffix(":disable"))
            case "GET", ["v2beta1", "runs", run_id]:
                self._get_run(run_id)
            case "POST", ["v2beta1", "runs", action] if action.endswith(":terminate"):
                self._terminate(action.removesuffix(":terminate"))
            case "GET", ["v1alpha1", "runs", _, "nodes", pod, "log"]:
                if pod in server.logs:
                    self._answer(200, server.logs[pod].encode(), "text/plain")
                else:  # as Kubeflow does: the status line was sent before the log was looked for
                    self._json({"error_message": f'pods "{pod}" not found', "error_details": ""})
            case _:
                self._error(404, "Not Found")

    def _terminate(self, run_id: str) -> None:
        if run_id not in self.server.runs:
            self._error(404, f"Run {run_id} not found")
            return
        self.server.runs[run_id]["state"] = "CANCELING"
        self._json({})

    def _disable(self, recurring_run_id: str) -> None:
        if recurring_run_id not in self.server.recurring_runs:
            self._error(404, f"Recurring run {recurring_run_id} not found")
            return
        self.server.recurring_runs[recurring_run_id]["status"] = "DISABLED"
        self._json({})

    def _list_experiments(self, query: dict[str, str]) -> None:
        if not self._namespace_allowed(query.get("namespace", "")):
            return
        if "filter" not in query:
            self._json({"experiments": list(self.server.experiments.values())})
            return
        [predicate] = json.loads(query["filter"])["predicates"]
        found = [item for item in self.server.experiments.values() if item["display_name"] == predicate["string_value"]]
        self._json({"experiments": found} if found else {})

    def _create(self, key: str, kept: dict[str, dict], model: type, body: dict[str, Any]) -> None:
        if not self._namespace_allowed(body.get("namespace", "")):
            return
        self._keep(key, kept, model, body)

    def _keep(self, key: str, kept: dict[str, dict], model: type, body: dict[str, Any]) -> None:
        read = self._read(model, body)
        setattr(read, key, str(uuid.uuid4()))
        kept[getattr(read, key)] = _MODELS.sanitize_for_serialization(read)
        self._model(read)

    def _create_run(self, kept: dict[str, dict], key: str, model: type, body: dict[str, Any]) -> None:
        if body["experiment_id"] not in self.server.experiments:
            self._error(404, "Experiment not found")
            return
        api_checks.check_parameters(body["pipeline_spec"]["pipeline_spec"], body["runtime_config"]["parameters"])
        body.setdefault("state", "PENDING") if key == "run_id" else None
        self._keep(key, kept, model, body)

    def _get_run(self, run_id: str) -> None:
        if run_id not in self.server.runs:
            self._error(404, f"Run {run_id} not found")
            return
        if self.server.states:
            self.server.runs[run_id] |= self.server.states.pop(0)
        self._model(self._read(kfp_server_api.V2beta1Run, self.server.runs[run_id]))

    def _namespace_allowed(self, namespace: str) -> bool:
        allowed = self.server.behaviour.namespaces
        if allowed and not namespace:
            self._error(400, "Invalid input error: Invalid resource references. Namespace is empty.")
        elif allowed and namespace not in allowed:
            self._error(403, f"User 'ann' is not authorized with reason: no access to namespace {namespace}")
        elif not allowed and namespace:
            self._error(400, "Invalid input error: In single-user mode, the request shouldn't contain namespace.")
        else:
            return True
        return False

    @staticmethod
    def _read(model: type, body: dict[str, Any]) -> Any:
        unknown = body.keys() - set(model.attribute_map.values())  # type: ignore[attr-defined]
        assert not unknown, f"the API has no {unknown}"
        return _MODELS._ApiClient__deserialize(body, model)  # type: ignore[attr-defined]

    # -- answers ---------------------------------------------------------------------------------------------------

    def _model(self, value: Any) -> None:
        self._json(_MODELS.sanitize_for_serialization(value))

    def _json(self, value: Any, status: int = 200) -> None:
        self._answer(status, json.dumps(value).encode(), "application/json")

    def _error(self, status: int, message: str) -> None:
        self._json({"code": 7, "message": message} if message else {}, status)

    def _redirect(self, location: str, status: int = 302, cookie: str = "") -> None:
        self.send_response(status)
        self.send_header("Location", location)
        if cookie:
            self.send_header("Set-Cookie", f"{cookie}; Path=/; HttpOnly")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
