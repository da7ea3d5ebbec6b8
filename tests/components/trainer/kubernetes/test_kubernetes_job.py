"""A job's life on a cluster, against a real HTTP server that behaves like the Kubernetes API."""

import dataclasses
import json
import re
import threading

import pytest

from components.trainer.cluster_config import ClusterConfig
from components.trainer.errors import TrainingError
from components.trainer.kubernetes.config import KubernetesConfig
from components.trainer.kubernetes.job_spec import KubernetesJobSpec, Owner
from components.trainer.kubernetes.kubernetes_job import KubernetesJob
from components.trainer.kubernetes.manifests import KINDS

NAME = "taxi-0123456789"
PODS = KubernetesConfig(image="registry.example/sluice:1")
SPEC = KubernetesJobSpec(
    name=NAME,
    spec_path="/shared/spec.json",
    cluster=ClusterConfig(
        backends=("jobset",), num_workers=2, kubernetes=PODS, max_restarts=2, restart_backoff_seconds=0.01
    ),
    pods=PODS,
)


@pytest.fixture
def make_job(api, tmp_path):
    def make(kind="jobset", **changes):
        spec = dataclasses.replace(SPEC, **changes)
        return KubernetesJob(spec, KINDS[kind], api, tmp_path / "job.log", poll_seconds=0.02, watch_seconds=20)

    return make


def watches(server):
    return sum(request.endswith("(watch)") for request in server.requests)


def test_a_job_that_ends_well(make_job, server):
    job = make_job()
    job.submit()
    pods = [server.add_pod(NAME, i) for i in range(2)]
    for i, pod in enumerate(pods):
        server.say(pod, "2026-01-01T00:00:00.5Z", f"hello from worker-{i}")
        server.end_pod(pod, 0)
    lines = job.logs()
    assert sorted([next(lines), next(lines)]) == ["[worker 0] hello from worker-0", "[worker 1] hello from worker-1"]
    server.set_condition("jobsets", NAME, "Completed")
    assert job.wait().is_done
    assert list(lines) == []


def test_other_conditions_are_not_the_end(make_job, server):
    job = make_job()
    job.submit()
    server.wait_until(lambda: watches(server) == 1)
    server.set_condition("jobsets", NAME, "Suspended", status="True")
    server.set_condition("jobsets", NAME, "Completed", status="False")
    server.set_condition("jobsets", NAME, "Completed")
    assert job.wait().is_done
    assert watches(server) == 1


@pytest.mark.parametrize(
    ("kind", "condition"),
    [("trainjob", "Complete"), ("jobset", "Completed"), ("indexed-job", "Complete"), ("tfjob", "Succeeded")],
)
def test_every_kind_has_its_own_word_for_success(make_job, server, kind, condition):
    job = make_job(kind)
    job.submit()
    server.set_condition(KINDS[kind].plural, NAME, "Running")
    server.set_condition(KINDS[kind].plural, NAME, condition)
    assert job.wait().is_done


def test_the_worker_that_failed_first_is_the_cause(make_job, server):
    job = make_job()
    job.submit()
    first, second = (server.add_pod(NAME, i) for i in range(2))
    server.end_pod(first, 138, json.dumps({"time": 2.0, "type": "PeerLostError", "message": "worker 1 is gone"}))
    record = {"time": 1.0, "type": "ValueError", "message": "bad label", "traceback": "Traceback ... bad label"}
    server.end_pod(second, 1, json.dumps(record))
    server.set_condition("jobsets", NAME, "Failed", "FailedJobs", "jobset failed due to one or more job failures")
    result = job.wait()
    assert (result.exit_code, result.message) == (1, "worker 1: ValueError: bad label")
    assert result.traceback == ""  # it is among the lines of the pod's log


@pytest.mark.parametrize(
    ("exit_code", "message", "reason", "expected"),
    [
        (1, "some log\nImportError: no module named x\n", "Error", "worker 0: Error: ImportError: no module named x"),
        (137, "", "OOMKilled", "worker 0: OOMKilled: the worker used more memory than its limit"),
        (139, "", "Error", "worker 0 crashed in native code (signal 11)"),
    ],
)
def test_what_a_pod_says_about_its_end(make_job, server, exit_code, message, reason, expected):
    job = make_job()
    job.submit()
    server.end_pod(server.add_pod(NAME, 0), exit_code, message, reason)
    server.set_condition("jobsets", NAME, "Failed")
    assert (job.wait().exit_code, job.wait().message) == (exit_code, expected)


def test_without_pods_the_jobs_own_words_count(make_job, server):
    job = make_job()
    job.submit()
    server.set_condition("jobsets", NAME, "Failed", "ReachedMaxRestarts", "jobset failed due to reaching max restarts")
    result = job.wait()
    assert result.exit_code == 138
    assert result.message == "ReachedMaxRestarts: jobset failed due to reaching max restarts"


def test_a_watch_that_breaks_is_taken_up_again(make_job, server):
    server.broken_watches = 2
    job = make_job()
    job.submit()
    for number in range(1, 3):
        server.wait_until(lambda number=number: watches(server) == number)
        server.set_condition("jobsets", NAME, "StartupPolicyInProgress")
    server.wait_until(lambda: watches(server) == 3)
    server.set_condition("jobsets", NAME, "Completed")
    assert job.wait().is_done


def test_a_watch_from_a_version_that_is_gone(make_job, server):
    job = make_job()
    job.submit()
    server.wait_until(lambda: watches(server) == 1)
    server.forget_versions()  # this watch ends with an ERROR event of code 410
    server.fail(r"\(watch\)", 410, "too old resource version")  # and the next request with a status 410
    server.wait_until(lambda: watches(server) >= 3)
    server.set_condition("jobsets", NAME, "Completed")
    assert job.wait().is_done


def test_what_happens_while_nobody_watches_is_not_lost(make_job, server):
    server.fail(r"\(watch\)", 503, "apiserver is restarting", times=3)
    job = make_job()
    job.submit()
    server.wait_until(lambda: watches(server) == 1)
    server.set_condition("jobsets", NAME, "Completed")
    assert job.wait().is_done


def test_a_busy_server_is_asked_again(make_job, server):
    server.fail("POST", 429, "too many requests")
    server.fail("POST", 500, "etcd leader changed")
    server.fail(f"GET .*/{NAME}$", 503, "unavailable", times=3)
    job = make_job()
    job.submit()
    server.set_condition("jobsets", NAME, "Completed")
    assert job.wait().is_done


def test_a_server_that_is_gone(make_job, server):
    server.close()
    with pytest.raises(TrainingError, match=f"cannot create JobSet {NAME}: the Kubernetes API does not answer"):
        make_job().submit()


def test_what_the_server_refuses_is_said_in_one_line(make_job, server):
    server.fail("POST", 403, 'jobsets.jobset.x-k8s.io is forbidden: User "default" cannot create resource "jobsets"')
    with pytest.raises(TrainingError) as caught:
        make_job().submit()
    assert str(caught.value) == (
        f"cannot create JobSet {NAME} in namespace research: jobsets.jobset.x-k8s.io is forbidden: "
        'User "default" cannot create resource "jobsets"; give the step\'s service account a Role for it'
    )


def test_a_repeated_step_adopts_its_job(make_job, server):
    make_job(owner=Owner(name="trainer-1", uid="1")).submit()
    job = make_job(owner=Owner(name="trainer-2", uid="2"))
    job.submit()
    assert [owner["name"] for owner in server.get("jobsets", NAME)["metadata"]["ownerReferences"]] == ["trainer-2"]
    server.set_condition("jobsets", NAME, "Completed")
    assert job.wait().is_done
    assert next(job.logs()) == f"going on with JobSet {NAME}, which an earlier try has started"
    assert not any(request.startswith("DELETE") for request in server.requests)


def test_a_job_may_be_adopted_without_the_right_to_change_it(make_job, server):
    make_job(owner=Owner(name="trainer-1", uid="1")).submit()
    server.fail("PATCH", 403, "jobsets is forbidden")
    job = make_job(owner=Owner(name="trainer-2", uid="2"))
    job.submit()
    server.set_condition("jobsets", NAME, "Completed")
    assert job.wait().is_done
    assert "may go with the pod that has created it: cannot change JobSet" in list(job.logs())[1]


def test_a_job_that_has_failed_before_is_replaced(make_job, server):
    first = make_job()
    first.submit()
    server.add_pod(NAME, 0)
    server.set_condition("jobsets", NAME, "Failed")
    first.wait()
    old_uid = server.get("jobsets", NAME)["metadata"]["uid"]
    second = make_job()
    second.submit()
    assert server.get("jobsets", NAME)["metadata"]["uid"] != old_uid
    assert server.pods_of(NAME) == []
    server.set_condition("jobsets", NAME, "Completed")
    assert second.wait().is_done


def test_a_job_of_other_settings_is_left_alone(make_job):
    make_job().submit()
    other = make_job(cluster=dataclasses.replace(SPEC.cluster, num_workers=3))
    with pytest.raises(TrainingError, match="is there already, for other settings; delete it first: kubectl"):
        other.submit()


def test_a_job_deleted_by_somebody_else(make_job, server):
    job = make_job()
    job.submit()
    server.wait_until(lambda: watches(server) == 1)
    server.put("jobsets", server.get("jobsets", NAME), "DELETED")
    with pytest.raises(TrainingError, match=f"JobSet {NAME} was deleted by somebody else"):
        job.wait()


@pytest.mark.parametrize("kind", list(KINDS))
def test_cancel_deletes_everything(make_job, server, kind):
    job = make_job(kind)
    job.submit()
    server.add_pod(NAME, 0)
    job.cancel()
    assert job.wait().exit_code == 143
    assert server.objects == {}


def test_the_deadline_counts_restarts_in(make_job, server):
    job = make_job(cluster=dataclasses.replace(SPEC.cluster, deadline_seconds=0.3))
    job.submit()
    result = job.wait()
    assert (result.exit_code, "deadline_seconds" in result.message) == (1, True)
    assert server.get("jobsets", NAME) is None


def test_an_indexed_job_is_restarted_by_the_step(make_job, server):
    job = make_job("indexed-job")
    job.submit()
    uids = set()
    for attempt in range(2):
        server.wait_until(
            lambda: ("jobs", NAME) in server.objects and server.objects["jobs", NAME]["metadata"]["uid"] not in uids
        )
        uids.add(server.get("jobs", NAME)["metadata"]["uid"])
        server.end_pod(server.add_pod(NAME, attempt), 137)
        server.set_condition("jobs", NAME, "Failed", "BackoffLimitExceeded")
    server.wait_until(
        lambda: ("jobs", NAME) in server.objects and server.objects["jobs", NAME]["metadata"]["uid"] not in uids
    )
    server.set_condition("jobs", NAME, "Complete")
    result = job.wait()
    assert (result.is_done, result.num_restarts) == (True, 2)
    assert server.get("services", NAME) is not None


def test_an_indexed_job_with_an_error_of_its_own_is_not_restarted(make_job, server):
    job = make_job("indexed-job")
    job.submit()
    server.end_pod(server.add_pod(NAME, 0), 2, "error")
    server.set_condition("jobs", NAME, "Failed", "PodFailurePolicy")
    assert job.wait().exit_code == 2
    assert sum(request.startswith("POST") and request.endswith("jobs") for request in server.requests) == 1


def test_a_log_that_breaks_goes_on_where_it_was(make_job, server):
    server.broken_logs = 2
    job = make_job()
    job.submit()
    pod = server.add_pod(NAME, 1)
    # The fraction of a second has as many digits as it needs; two lines may share one time.
    stamps = ["00.49Z", "00.5Z", "00.500000001Z", "00.500000001Z", "01Z"]
    for i, stamp in enumerate(stamps):
        server.say(pod, f"2026-01-01T00:00:{stamp}", f"line {i}")
    server.end_pod(pod, 0)
    lines = job.logs()
    assert [next(lines) for _ in range(5)] == [f"[worker 1] line {i}" for i in range(5)]
    server.set_condition("jobsets", NAME, "Completed")
    assert job.wait().is_done
    assert list(lines) == []


def test_pods_of_every_attempt_are_heard(make_job, server):
    job = make_job()
    job.submit()
    lines = job.logs()
    for attempt in range(2):  # JobSet recreates all pods by itself
        pod = server.add_pod(NAME, 0)
        server.say(pod, "2026-01-01T00:00:00Z", f"attempt {attempt}")
        assert next(lines) == f"[worker 0] attempt {attempt}"
        server.put("pods", server.get("pods", pod), "DELETED")
    server.set_condition("jobsets", NAME, "Completed")
    assert job.wait().is_done


def test_a_pod_that_does_not_start_says_why_once(make_job, server):
    job = make_job()
    job.submit()
    name = server.add_pod(NAME, 0, phase="Pending")
    pod = server.get("pods", name)
    waiting = {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "registry.example/sluice:1"'}
    pod["status"]["containerStatuses"] = [{"name": "node", "state": {"waiting": waiting}}]
    server.put("pods", pod)
    lines = job.logs()
    assert next(lines) == (
        '[worker 0] has not started: ImagePullBackOff: Back-off pulling image "registry.example/sluice:1"'
    )
    seen = len(server.requests)
    server.wait_until(lambda: sum(bool(re.search("GET .*pods", r)) for r in server.requests[seen:]) >= 3)
    server.set_condition("jobsets", NAME, "Completed")
    assert job.wait().is_done
    assert list(lines) == []


def test_discovery(api):
    assert api.serves("batch", "v1", "jobs")
    assert not api.serves("batch", "v1", "crontabs")
    assert not api.serves("trainer.kubeflow.org", "v1alpha1", "trainjobs")


def test_discovery_may_be_refused(api, server):
    server.fail("GET /apis/batch/v1", 401, "Unauthorized")
    with pytest.raises(TrainingError, match=r"cannot look for jobs\.batch in namespace research: Unauthorized"):
        api.serves("batch", "v1", "jobs")


def test_nothing_keeps_running_after_the_end(make_job, server):
    before = set(threading.enumerate())
    job = make_job()
    job.submit()
    server.set_condition("jobsets", NAME, "Completed")
    job.wait()
    left = [thread for thread in set(threading.enumerate()) - before if not thread.name.startswith("Thread-")]
    assert [thread.name for thread in left if thread.name != "job-watch"] == []  # it ends with its last request
