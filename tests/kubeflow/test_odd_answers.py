"""The commands against what is not Kubeflow, or is behind something: one line that says what, and no success."""

import http.server
import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from small_pipeline import PLATFORM, SPEC

from pipeline import cli

PAGE = b"<!DOCTYPE html><html><body>Sign in</body></html>"
COMMANDS = (["status", "abc"], ["logs", "abc"], ["cancel", "abc"], ["cancel", "--recurring", "abc"])


class _Handler(http.server.BaseHTTPRequestHandler):
    server: "Odd"

    def do_GET(self) -> None:
        self.server.answer(self)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.answer(self)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class Odd(http.server.ThreadingHTTPServer):
    """Answers everything alike."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: Callable[[http.server.BaseHTTPRequestHandler], None] = says(200, b"{}")
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


def says(status: int, body: bytes = b"", kind: str = "application/json", location: str = "") -> Callable:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        if location:
            handler.send_header("Location", location)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@pytest.fixture(scope="module")
def odd() -> Iterator[Odd]:
    with Odd() as server:
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


SSO = "https://sso.example.com/realms/x/protocol/openid-connect/auth?client_id=k"
ODD_ANSWERS = {
    "page": (says(200, PAGE, "text/html"), "wants a login"),
    "page with 401": (says(401, PAGE, "text/html"), "wants a login"),
    "page with 403": (says(403, PAGE, "text/html"), "wants a login"),
    "sent to a login": (says(302, b"", "text/html", SSO), "wants a login"),
    "sent to https": (
        says(301, b"", "text/html", "https://kubeflow.example.com/"),
        "points to https://kubeflow.example",
    ),
    "moved, without saying where": (says(302), "answered 302"),
    "istio": (says(403, b"RBAC: access denied", "text/plain"), "you may not do this without --namespace (RBAC"),
    "nobody": (says(401, b'{"error": "unauthenticated"}'), "(unauthenticated); give --token-file or --dex-user"),
    "nginx": (says(404, b"<html>404</html>", "text/html"), "older than Kubeflow Pipelines 2.0, or no Kubeflow"),
    "go": (says(404, b"404 page not found\n", "text/plain"), "older than Kubeflow Pipelines 2.0, or no Kubeflow"),
    "nothing": (says(404), "older than Kubeflow Pipelines 2.0, or no Kubeflow"),
    "broken page": (says(500, b"<html>oops</html>", "text/html"), "answered 500: Internal Server Error"),
    "broken": (says(500, b'{"error": "x", "code": 13, "message": "db gone"}'), "answered 500: db gone"),
    "empty": (says(200), "not as Kubeflow Pipelines does"),
    "list": (says(200, b"[]"), "not as Kubeflow Pipelines does"),
    "binary": (says(200, b"\xff\xfe"), "not as Kubeflow Pipelines does"),
}


@pytest.mark.parametrize("name", ODD_ANSWERS)
def test_every_command_says_what_answers_there(odd, capsys, name):
    odd.answer, message = ODD_ANSWERS[name]
    for command in COMMANDS:
        assert cli.main([*command, "--host", odd.url]) == 1
        out, err = capsys.readouterr()
        assert message in err
        assert "<" not in out + err, "a page's source is no message"


VALUES: tuple[Any, ...] = (
    None,
    [],
    {},
    "x",
    3,
    [None],
    [{}],
    ["x"],
    [{"display_name": None, "child_tasks": 1}],
    {"message": []},
)


@pytest.mark.parametrize("field", ["run_details", "task_details", "state", "error", "display_name", "run_id"])
def test_fields_of_any_kind_are_no_trace(odd, capsys, field):
    for value in VALUES:
        run: dict = {"run_id": "abc", "state": "FAILED", "run_details": {"task_details": []}}
        if field == "task_details":
            run["run_details"] = {field: value}
        else:
            run[field] = value
        odd.answer = says(200, json.dumps(run).encode())
        for command in (["status", "abc"], ["logs", "abc"], ["status", "abc", "--json"]):
            cli.main([*command, "--host", odd.url])
            assert "sluice --debug shows the trace" not in capsys.readouterr().err


@pytest.mark.parametrize("value", VALUES)
def test_experiments_of_any_kind_are_no_trace(odd, tmp_path, capsys, value):
    odd.answer = says(200, json.dumps({"experiments": value}).encode())
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump_all([SPEC, PLATFORM]))
    assert cli.main(["submit", "--pipeline", str(path), "--host", odd.url, "--param", "steps=1"]) == 1
    assert "has answered without experiment_id" in capsys.readouterr().err


def test_connection_lost_after_asking_for_a_run(odd, tmp_path, capsys):
    """It may run, or not: asking again could start a second one."""
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump_all([SPEC, PLATFORM]))

    def drop(handler: http.server.BaseHTTPRequestHandler) -> None:
        if handler.command == "POST":
            handler.close_connection = True
        else:
            says(200, b'{"experiments": [{"experiment_id": "e"}]}')(handler)

    odd.answer = drop
    assert cli.main(["submit", "--pipeline", str(path), "--host", odd.url, "--param", "steps=1"]) == 1
    assert "may have been done: look into the Kubeflow UI before asking again" in capsys.readouterr().err


@pytest.mark.parametrize(
    "host", ["", "http://", "ftp://x", "http://localhost:99999", "http://local host", "http://[::1", "http://x:y"]
)
def test_hosts_that_are_none(capsys, host):
    assert cli.main(["status", "abc", f"--host={host}"]) == 2
    assert "expected a URL such as http://localhost:8080" in capsys.readouterr().err


def test_password_in_the_url_is_refused_and_not_repeated(capsys):
    assert cli.main(["status", "abc", "--host", "http://ann:secret@localhost:1"]) == 2
    err = capsys.readouterr().err
    assert "leave user and password out" in err
    assert "secret" not in err


def test_login_that_leads_to_somebody_who_is_not_there(odd, capsys, monkeypatch):
    monkeypatch.setenv("SLUICE_DEX_PASSWORD", "x")
    odd.answer = says(302, b"", "text/html", "http://127.0.0.1:1/dex/auth")
    assert cli.main(["status", "abc", "--host", odd.url, "--dex-user", "ann"]) == 1
    assert "leads to http://127.0.0.1:1, which cannot be reached" in capsys.readouterr().err


def test_files_that_hold_no_token_no_certificate_and_no_pipeline(odd, tmp_path, capsys):
    binary, words = tmp_path / "binary", tmp_path / "words"
    binary.write_bytes(b"\xff\xfe\x00")
    words.write_text("two words\n")
    for path in (binary, words):
        assert cli.main(["status", "abc", "--host", odd.url, "--token-file", str(path)]) == 2
        assert "expected one token and nothing else" in capsys.readouterr().err
    for path in (words, tmp_path, tmp_path / "no"):
        assert cli.main(["status", "abc", "--host", odd.url, "--ca-file", str(path)]) == 2
        assert f"--ca-file {path}: " in capsys.readouterr().err
    broken = tmp_path / "broken.yaml"
    broken.write_text("a: [1")
    for path in (binary, broken):
        assert cli.main(["submit", "--pipeline", str(path), "--host", odd.url]) == 2
        assert f"--pipeline {path}: not valid YAML" in capsys.readouterr().err


def test_tls_that_is_none_and_a_certificate_for_another_name(odd, tmp_path, capsys):
    assert cli.main(["status", "abc", "--host", odd.url.replace("http:", "https:")]) == 1
    assert "does not speak TLS" in capsys.readouterr().err
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subject = ["-subj", "/CN=x", "-addext", "subjectAltName=DNS:other.example"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with Odd() as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02), daemon=True)
        thread.start()
        url = server.url.replace("http:", "https:")
        assert cli.main(["status", "abc", "--host", url, "--ca-file", str(certificate)]) == 1
        server.shutdown()
        thread.join()
    assert "its certificate is for another name" in capsys.readouterr().err
