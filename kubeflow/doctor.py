"""What of a Kubeflow is ready for Sluice: its API, who one is there, and what the namespace has. `sluice doctor`."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator

from kubeflow import auth, client
from kubeflow.errors import KubeflowError
from pipeline.doctor import Finding

TOKEN_VARIABLE = "SLUICE_KFP_TOKEN_FILE"
RUNNER = "sluice-runner"
CLAIM = "sluice"
_KUBECTL_SECONDS = 15
Kubectl = Callable[..., subprocess.CompletedProcess]


def examine(host: str, namespace: str, kubectl: Kubectl | None = None) -> list[Finding]:
    """Findings about the API at `host`, and about `namespace` as far as kubectl can see it."""
    return [*_api(host, namespace), *_namespace(namespace, kubectl or _kubectl)]


def _api(host: str, namespace: str) -> Iterator[Finding]:
    credentials = auth.Credentials(token_file=os.environ.get(TOKEN_VARIABLE, ""))
    begin = time.monotonic()
    try:
        with client.KubeflowClient(client.Connection(host=host, credentials=credentials)) as session:
            health = session.health()
        milliseconds = (time.monotonic() - begin) * 1000
        version = health["version"] or "2.x (the server does not tell)"
        users = "several users" if health["multi_user"] else "one user"
        yield Finding("kubeflow api", "ok", f"version {version}, {users}, answers in {milliseconds:.0f} ms")
    except KubeflowError as error:
        yield Finding("kubeflow api", "problem", str(error), "see docs/kubeflow.md, Troubleshooting")
        return
    # a Kubeflow with one user refuses requests that name a namespace
    connection = client.Connection(
        host=host, namespace=namespace if health["multi_user"] else "", credentials=credentials
    )
    try:
        with client.KubeflowClient(connection) as session:
            found = session.experiments()
        yield Finding("kubeflow access", "ok", f"may list experiments; there are {len(found)}")
    except KubeflowError as error:
        yield Finding("kubeflow access", "problem", str(error), f"put a token's file into ${TOKEN_VARIABLE}")


def _namespace(namespace: str, kubectl: Kubectl) -> Iterator[Finding]:
    if shutil.which("kubectl") is None and kubectl is _kubectl:
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


def _kubectl(*arguments: str) -> subprocess.CompletedProcess:
    try:
        return subprocess.run(
            ["kubectl", *arguments, f"--request-timeout={_KUBECTL_SECONDS}s"],
            capture_output=True,
            text=True,
            check=False,
            timeout=2 * _KUBECTL_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(arguments, 1, "", "it does not answer")
