"""Runs a compiled pipeline as Kubeflow would, step by step, each step in a process of its own.

What is simulated: the API server's template and parameter checks, the order that Argo gives tasks (a task starts when
all that it depends on have succeeded; skipped is not succeeded), retries, exit tasks, Kubeflow's driver (kfp_driver.py)
and launcher (kfp_launcher.py), its cache. What is not: Kubernetes (resources, claims, secrets, images), MLMD's service,
the UI.
"""

import concurrent.futures
import dataclasses
import pathlib
import threading
import time
import uuid
from typing import Any

import kfp_driver
import kfp_launcher
import yaml

from kubeflow import api_checks

_EXIT = "ALL_UPSTREAM_TASKS_COMPLETED"
_DONE = ("SUCCEEDED", "CACHED")


@dataclasses.dataclass
class TaskResult:
    """What became of one task."""

    state: str
    """SUCCEEDED, CACHED, SKIPPED (condition), OMITTED (something before it did not succeed) or FAILED."""
    attempts: int = 0
    seconds: float = 0.0
    error: str = ""
    log: str = ""
    execution: kfp_driver.Execution | None = None


@dataclasses.dataclass
class RunResult:
    """What became of a run."""

    run_id: str
    tasks: dict[str, TaskResult]
    seconds: float

    @property
    def states(self) -> dict[str, str]:
        return {name: task.state for name, task in self.tasks.items()}

    @property
    def failures(self) -> str:
        """Everything that a person wants to know when a test fails."""
        failed = [f"{name}: {task.error}" for name, task in self.tasks.items() if task.state == "FAILED"]
        return "\n\n".join(failed) or "none"


class Cluster:
    """Keeps what a cluster keeps between runs: the object store, the metadata store and its cache."""

    def __init__(
        self,
        folder: pathlib.Path,
        *,
        root: str = "minio://mlpipeline/v2/artifacts",
        with_titles: bool = False,
        parallelism: int = 2,
        environment: dict[str, str] | None = None,
        pods: type[kfp_launcher.Pod] = kfp_launcher.Pod,
    ) -> None:
        self.folder, self._root, self._with_titles = folder, root, with_titles
        self._parallelism, self._environment, self._pods = parallelism, environment or {}, pods
        self.objects = kfp_launcher.ObjectStore(folder / "objects")
        self.metadata = kfp_driver.Store()
        self._project = pathlib.Path(__file__).parents[2]

    def run(self, text: str, parameters: dict[str, Any] | None = None) -> RunResult:
        """Submits the YAML and runs it to its end. It may name nothing that only the machine that compiles has."""
        assert str(self._project) not in text, "the YAML names a path of this machine"
        api_checks.check_template(text)
        documents = list(yaml.safe_load_all(text))
        api_checks.check_parameters(documents[0], parameters or {})
        return _Run(self, documents[0], documents[1], parameters or {}).execute()


class _Run:
    def __init__(self, cluster: Cluster, spec: dict[str, Any], platform: dict[str, Any], parameters: dict[str, Any]):
        self._cluster, self._spec, self._given = cluster, spec, parameters
        self._executors = spec["deploymentSpec"]["executors"]
        self._platform = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
        self.run_id = str(uuid.uuid4())
        self._names = {"name": f"{spec['pipelineInfo']['name']} run", "id": self.run_id}
        self._root = f"{cluster._root}/{spec['pipelineInfo']['name']}/{self.run_id}"
        self.results: dict[str, TaskResult] = {}
        self._lock = threading.Lock()

    def execute(self) -> RunResult:
        begin = time.monotonic()
        declared = self._spec["root"].get("inputDefinitions", {}).get("parameters", {})
        values = {name: value["defaultValue"] for name, value in declared.items() if "defaultValue" in value}
        self._dag(self._spec["root"]["dag"], {**values, **self._given})
        return RunResult(self.run_id, self.results, time.monotonic() - begin)

    def _dag(self, dag: dict[str, Any], parameters: dict[str, Any]) -> kfp_driver.Execution:
        """Runs the tasks of one DAG as soon as they may start, then its exit tasks."""
        tasks = dict(dag["tasks"])
        exits = {name: task for name, task in tasks.items() if task.get("triggerPolicy", {}).get("strategy") == _EXIT}
        waiting = {name: task for name, task in tasks.items() if name not in exits}
        done: dict[str, kfp_driver.Execution] = {}
        with concurrent.futures.ThreadPoolExecutor(self._cluster._parallelism) as pool:
            running: dict[concurrent.futures.Future, str] = {}
            while waiting or running:
                for name in [name for name, task in waiting.items() if _dependencies(task) <= done.keys()]:
                    running[pool.submit(self._task, name, waiting.pop(name), parameters, done)] = name
                finished, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
                for future in finished:
                    done[running.pop(future)] = future.result()
        for name, task in exits.items():
            done[name] = self._task(name, task, parameters, done, is_exit=True)
        succeeded = all(execution.state not in ("FAILED",) for execution in done.values())
        return kfp_driver.Execution("SUCCEEDED" if succeeded else "FAILED")

    def _task(
        self,
        name: str,
        task: dict[str, Any],
        dag_parameters: dict[str, Any],
        done: dict[str, kfp_driver.Execution],
        is_exit: bool = False,
    ) -> kfp_driver.Execution:
        component = self._spec["components"][task["componentRef"]["name"]]
        if not is_exit and any(done[dependency].state not in _DONE for dependency in _dependencies(task)):
            return self._ended(name, TaskResult("OMITTED"))
        try:
            parameters = kfp_driver.resolve_parameters(task, component, dag_parameters, done, self._names)
            if "dag" in component:
                execution = self._dag(component["dag"], parameters)
                return self._ended(name, TaskResult(execution.state, execution=execution))
            artifacts = kfp_driver.resolve_artifacts(task, done, self._cluster._with_titles)
            if not kfp_driver.will_trigger(task, parameters):
                return self._ended(name, TaskResult("SKIPPED"))
            executor = self._executors[component["executorLabel"]]
            if "importer" in executor:
                return self._ended(name, self._import(executor["importer"], parameters, component))
            return self._ended(name, self._container(name, task, component, parameters, artifacts))
        except Exception as error:  # a driver pod's failure is the task's
            return self._ended(name, TaskResult("FAILED", error=f"{type(error).__name__}: {error}"))

    def _container(
        self, name: str, task: dict[str, Any], component: dict[str, Any], parameters: dict, artifacts: dict
    ) -> TaskResult:
        container = self._executors[component["executorLabel"]]["container"]
        platform = self._platform.get(component["executorLabel"], {})
        claims = [mount["constant"] for mount in platform.get("pvcMount", [])]
        inputs = {"parameterValues": parameters, "artifacts": artifacts}
        key = kfp_driver.cache_key(container, {"inputs": inputs}, component, claims)
        enabled = task.get("cachingOptions", {}).get("enableCache", False)
        if enabled and key in self._cluster.metadata.cache:
            cached = self._cluster.metadata.cache[key]
            return TaskResult("CACHED", execution=kfp_driver.Execution("CACHED", cached.parameters, cached.artifacts))
        result = self._attempts(name, task, component, container, inputs)
        if enabled and result.state == "SUCCEEDED":
            assert result.execution is not None
            self._cluster.metadata.cache[key] = result.execution
        return result

    def _attempts(
        self, name: str, task: dict[str, Any], component: dict[str, Any], container: dict[str, Any], inputs: dict
    ) -> TaskResult:
        allowed = 1 + int(task.get("retryPolicy", {}).get("maxRetryCount", 0))
        result = TaskResult("FAILED")
        for attempt in range(allowed):
            folder = self._cluster.folder / "pods" / self.run_id / f"{name}-{attempt}"
            pod = self._cluster._pods(folder, self._cluster.objects, self._cluster._project, self._cluster._environment)
            outputs = kfp_driver.provision_outputs(self._root, name, component, pod.local, str(folder))
            result.attempts = attempt + 1
            try:
                found = pod.run(container, {"inputs": inputs, "outputs": outputs}, component)
                result.execution = self._published(component, found)
                result.state = "SUCCEEDED"
            except (kfp_launcher.LauncherError, kfp_driver.DriverError) as error:
                result.error = str(error)
            result.seconds += pod.seconds
            result.log = pod.log.read_text(encoding="utf-8") if pod.log.is_file() else ""
            if result.state == "SUCCEEDED":
                break
        return result

    def _published(self, component: dict[str, Any], found: dict[str, Any]) -> kfp_driver.Execution:
        artifacts = {
            port: self._cluster.metadata.record(port, value["uri"], value["type"], value["metadata"])
            for port, value in found["artifacts"].items()
        }
        declared = component.get("outputDefinitions", {}).get("parameters", {})
        for name in declared:
            if name not in found["parameters"] or found["parameters"][name] is None:
                raise kfp_driver.DriverError(f"output parameter {name!r} has no value")
        return kfp_driver.Execution("SUCCEEDED", found["parameters"], artifacts)

    def _import(self, importer: dict[str, Any], parameters: dict[str, Any], component: dict[str, Any]) -> TaskResult:
        uri = parameters[importer["artifactUri"]["runtimeParameter"]]
        [port] = component["outputDefinitions"]["artifacts"]
        artifact = self._cluster.metadata.record(port, uri, importer["typeSchema"], importer.get("metadata", {}))
        return TaskResult("SUCCEEDED", execution=kfp_driver.Execution("SUCCEEDED", {}, {port: artifact}))

    def _ended(self, name: str, result: TaskResult) -> kfp_driver.Execution:
        with self._lock:
            self.results[name] = result
        return result.execution or kfp_driver.Execution(result.state)


def _dependencies(task: dict[str, Any]) -> set[str]:
    """Tasks that must have succeeded: named ones, and producers of inputs, as Kubeflow's compiler adds them."""
    found = set(task.get("dependentTasks", []))
    inputs = task.get("inputs", {})
    for source in inputs.get("parameters", {}).values():
        found |= {source["taskOutputParameter"]["producerTask"]} if "taskOutputParameter" in source else set()
    for source in inputs.get("artifacts", {}).values():
        found |= {source["taskOutputArtifact"]["producerTask"]} if "taskOutputArtifact" in source else set()
    return found
