"""What of a Kubeflow is ready for Sluice: its API, who one is there, and what the namespace has. `sluice doctor`."""

import base64
import dataclasses
import datetime
import json
import shutil
import subprocess
import time
from collections.abc import Iterator

from kubeflow import auth, client, pods
from kubeflow.connection import Connection
from kubeflow.errors import KubeflowError
from kubeflow.pods import Kubectl
from pipeline.doctor import Finding

RUNNER = "sluice-runner"
CLAIM = "sluice"


def examine(connection: Connection, kubectl: Kubectl | None = None) -> list[Finding]:
    """Findings about the API, who one is there, and the namespace as far as kubectl can see it."""
    namespace = connection.namespace or pods.DEFAULT_NAMESPACE
    return [*_api(connection), *_namespace(namespace, kubectl or pods.call)]


def _api(connection: Connection) -> Iterator[Finding]:
    begin = time.monotonic()
    try:
        with client.KubeflowClient(dataclasses.replace(connection, namespace="")) as session:
            health = session.health()
        milliseconds = (time.monotonic() - begin) * 1000
        version = health["version"] or "2.x (the server does not tell)"
        users = "several users" if health["multi_user"] else "one user"
        yield Finding("kubeflow api", "ok", f"version {version}, {users}, answers in {milliseconds:.0f} ms")
    except KubeflowError as error:
        yield Finding("kubeflow api", "problem", str(error), "see docs/kubeflow.md, Troubleshooting")
        return
    yield _identity(connection.credentials)
    if health["multi_user"] and not connection.namespace:
        yield Finding("kubeflow access", "note", "experiments were not looked at", "give --namespace, your profile's")
        return
    # a Kubeflow with one user refuses requests that name a namespace
    named = dataclasses.replace(connection, namespace=connection.namespace if health["multi_user"] else "")
    try:
        with client.KubeflowClient(named) as session:
            found = session.experiments()
        yield Finding("kubeflow access", "ok", f"may list experiments; there are {len(found)}")
    except KubeflowError as error:
        yield Finding("kubeflow access", "problem", str(error), "see docs/kubeflow.md, Several users, Dex, tokens")


def _identity(credentials: auth.Credentials) -> Finding:
    """Who one is, as far as this side knows: Kubeflow's API has no question for it."""
    name = "kubeflow identity"
    if credentials.dex_user and not credentials.token_file:
        return Finding(name, "ok", f"{credentials.dex_user}, signed in by Dex")
    token = credentials.token()
    if not token:
        return Finding(name, "ok", "nobody: no token and no user were sent")
    claims = _claims(token)
    if not claims:
        return Finding(name, "ok", "a token that does not tell whose it is")
    who, ends = claims.get("email") or claims.get("sub") or "somebody", claims.get("exp")
    if not isinstance(ends, int | float):
        return Finding(name, "ok", str(who))
    end = datetime.datetime.fromtimestamp(ends).astimezone()
    if ends < time.time():
        return Finding(name, "problem", f"{who}, by a token that has expired at {end:%Y-%m-%d %H:%M}", "get a new one")
    return Finding(name, "ok", f"{who}, until {end:%Y-%m-%d %H:%M}")


def _claims(token: str) -> dict:
    """What a JSON web token says; nothing is verified, the server does that."""
    try:
        middle = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _namespace(namespace: str, kubectl: Kubectl) -> Iterator[Finding]:
    if shutil.which("kubectl") is None and kubectl is pods.call:
        yield Finding("kubeflow namespace", "note", "kubectl is not installed: claims and rights were not looked at")
        return
    claim = kubectl("get", "pvc", CLAIM, "-n", namespace, "-o", "json")
    if claim.returncode and "NotFound" not in claim.stderr:
        reason = " ".join(claim.stderr.split())[:200]
        yield Finding("kubeflow namespace", "note", f"kubectl cannot look at {namespace}: {reason}")
        return
    yield _storage(claim, namespace)
    yield _service_account(kubectl, namespace)
    yield _backends(kubectl)


def _storage(claim: subprocess.CompletedProcess, namespace: str) -> Finding:
    apply = "kubectl apply -k kubeflow/manifests/overlays/dev"
    if claim.returncode:
        return Finding("shared storage", "problem", f"no claim {CLAIM!r} in {namespace}", apply)
    spec = json.loads(claim.stdout)
    phase, modes = spec["status"].get("phase", "Pending"), spec["spec"]["accessModes"]
    if phase != "Bound" and "WaitForFirstConsumer" not in claim.stdout:
        return Finding("shared storage", "note", f"claim {CLAIM!r} is {phase}", "normal until the first pod mounts it")
    if "ReadWriteMany" not in modes:
        advice = "pods on other nodes cannot mount it: use a class that is ReadWriteMany to train on several"
        return Finding("shared storage", "note", f"claim {CLAIM!r} is {'/'.join(modes)}", advice)
    return Finding("shared storage", "ok", f"claim {CLAIM!r} is {phase}, {'/'.join(modes)}")


def _service_account(kubectl: Kubectl, namespace: str) -> Finding:
    name = "service account"
    account = f"system:serviceaccount:{namespace}:{RUNNER}"
    asked = ("create", "jobs.batch"), ("get", "pods/log"), ("create", "workflowtaskresults.argoproj.io")
    missing = []
    for verb, resource in asked:
        answer = kubectl("auth", "can-i", verb, resource, "-n", namespace, "--as", account)
        if answer.stdout.strip() not in ("yes", "no"):
            return Finding(
                name, "note", f"you may not ask what {RUNNER} may do ({' '.join(answer.stderr.split())[:120]})"
            )
        if answer.stdout.strip() == "no":
            missing.append(f"{verb} {resource}")
    if missing:
        return Finding(name, "problem", f"{RUNNER} may not {', '.join(missing)}", "apply kubeflow/manifests")
    return Finding(name, "ok", f"{RUNNER} may start and follow training jobs")


def _backends(kubectl: Kubectl) -> Finding:
    found = []
    for backend, crd in (
        ("trainjob", "trainjobs.trainer.kubeflow.org"),
        ("jobset", "jobsets.jobset.x-k8s.io"),
        ("tfjob", "tfjobs.kubeflow.org"),
    ):
        if kubectl("get", "crd", crd, "-o", "name").returncode == 0:
            found.append(backend)
    return Finding("training backends", "ok", f"{', '.join([*found, 'indexed-job'])}; processes in the step's pod")
