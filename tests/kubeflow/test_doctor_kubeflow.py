"""`sluice doctor --kubeflow`: what of a Kubeflow is ready, and what is missing."""

import base64
import json
import subprocess
import time
from collections.abc import Iterator

import kfp_server
import pytest

from kubeflow import auth, doctor, pods
from kubeflow.connection import Connection
from pipeline import cli
from pipeline import doctor as machine


@pytest.fixture
def server() -> Iterator[kfp_server.Server]:
    with kfp_server.Server() as running:
        yield running


def findings_of(server: kfp_server.Server, answers: dict, **values) -> dict[str, machine.Finding]:
    connection = Connection(host=server.url, **values)
    return {found.name: found for found in doctor.examine(connection, kubectl(answers))}


def kubectl(answers: dict[str, tuple[int, str, str]]):
    """A kubectl that answers by the beginning of its arguments."""

    def call(*arguments: str) -> subprocess.CompletedProcess:
        text = " ".join(arguments)
        code, out, err = next((value for key, value in answers.items() if text.startswith(key)), (1, "", "NotFound"))
        return subprocess.CompletedProcess(arguments, code, out, err)

    return call


def test_doctor_finds_everything_ready(server):
    claim = {"spec": {"accessModes": ["ReadWriteMany"]}, "status": {"phase": "Bound"}}
    answers = {"get pvc": (0, json.dumps(claim), ""), "auth can-i": (0, "yes\n", ""), "get crd jobsets": (0, "x", "")}
    findings = findings_of(server, answers)
    assert {found.state for found in findings.values()} == {"ok"}
    assert "version 2.5.0, one user" in findings["kubeflow api"].detail
    assert findings["training backends"].detail.startswith("jobset, indexed-job")


def test_doctor_says_what_is_missing(server):
    answers = {"get pvc": (1, "", "Error (NotFound)"), "auth can-i": (1, "no\n", "")}
    findings = findings_of(server, answers, namespace="ml")
    assert findings["shared storage"].state == "problem"
    assert findings["service account"].detail.startswith("sluice-runner may not create jobs.batch")
    server.behaviour.token = "secret"
    api = findings_of(server, answers, namespace="ml")["kubeflow api"]
    assert api.state == "problem"
    assert "give --token-file or --dex-user" in api.detail


def token_of(path, **claims: object) -> auth.Credentials:
    middle = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    path.write_text(f"e30.{middle}.signature\n")
    return auth.Credentials(token_file=str(path))


def test_doctor_says_who_one_is(server, tmp_path):
    def identity(credentials: auth.Credentials) -> machine.Finding:
        return findings_of(server, {}, credentials=credentials)["kubeflow identity"]

    token = tmp_path / "token"
    account = "system:serviceaccount:ml:default"
    assert identity(auth.Credentials()).detail.startswith("nobody")
    valid = identity(token_of(token, sub=account, exp=time.time() + 3600))
    assert (valid.state, valid.detail.startswith(f"{account}, until ")) == ("ok", True)
    expired = identity(token_of(token, sub=account, exp=time.time() - 3600))
    assert (expired.state, "has expired at" in expired.detail) == ("problem", True)
    token.write_text("opaque")
    assert identity(auth.Credentials(token_file=str(token))).detail == "a token that does not tell whose it is"
    for odd in ("a.b.c", "a.YQ.c", "..", "e30.W10.x"):
        token.write_text(odd)
        assert identity(auth.Credentials(token_file=str(token))).state == "ok"


def test_doctor_looks_into_the_profile_that_is_named(tmp_path):
    with kfp_server.Server(kfp_server.Behaviour(namespaces=("ann",))) as server:
        assert findings_of(server, {})["kubeflow access"].state == "note"
        assert findings_of(server, {}, namespace="ann")["kubeflow access"].state == "ok"
        assert findings_of(server, {}, namespace="bob")["kubeflow access"].state == "problem"


def test_doctor_signs_in_as_the_other_commands_do(monkeypatch, capsys):
    monkeypatch.setattr(machine, "examine", lambda _: [])
    monkeypatch.setattr(pods, "call", lambda *arguments: subprocess.CompletedProcess(arguments, 1, "", "no cluster"))
    monkeypatch.setenv("SLUICE_DEX_PASSWORD", "right")
    assert cli.main(["doctor", "--kubeflow", ""]) == 1
    assert "expected a URL" in capsys.readouterr().out
    users = kfp_server.Behaviour(dex_users={"ann@example.com": "right"}, namespaces=("ann",))
    with kfp_server.Server(users) as server:
        assert cli.main(["doctor", "--kubeflow", server.url]) == 1
        assert "wants a login" in capsys.readouterr().out
        login = ["--namespace", "ann", "--dex-user", "ann@example.com"]
        assert cli.main(["doctor", "--kubeflow", server.url, *login]) == 0
        assert "ann@example.com, signed in by Dex" in capsys.readouterr().out
