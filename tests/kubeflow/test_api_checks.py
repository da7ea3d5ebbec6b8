"""The API server's checks: each mutation of a good pipeline is found, with the name of what is wrong."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from kubeflow import api_checks
from kubeflow.errors import CompileError

Spec = dict[str, Any]


def good() -> Spec:
    model = {"artifactType": {"schemaTitle": "tfx.Model", "schemaVersion": "0.0.1"}}
    executor = {"container": {"image": "i:1", "command": ["true"]}}
    return {
        "pipelineInfo": {"name": "small"},
        "schemaVersion": "2.1.0",
        "root": {
            "dag": {
                "tasks": {
                    "train": {
                        "taskInfo": {"name": "train"},
                        "componentRef": {"name": "comp-train"},
                        "inputs": {"parameters": {"steps": {"componentInputParameter": "steps"}}},
                    },
                    "push": {
                        "taskInfo": {"name": "push"},
                        "componentRef": {"name": "comp-push"},
                        "dependentTasks": ["train"],
                        "inputs": {
                            "artifacts": {
                                "model": {"taskOutputArtifact": {"producerTask": "train", "outputArtifactKey": "model"}}
                            }
                        },
                    },
                }
            },
            "inputDefinitions": {
                "parameters": {
                    "steps": {"parameterType": "NUMBER_INTEGER", "defaultValue": 3},
                    "data": {"parameterType": "STRING"},
                    "fast": {"parameterType": "BOOLEAN", "isOptional": True},
                }
            },
        },
        "components": {
            "comp-train": {
                "executorLabel": "exec-train",
                "inputDefinitions": {"parameters": {"steps": {"parameterType": "NUMBER_INTEGER"}}},
                "outputDefinitions": {"artifacts": {"model": model}},
            },
            "comp-push": {"executorLabel": "exec-push", "inputDefinitions": {"artifacts": {"model": model}}},
        },
        "deploymentSpec": {"executors": {"exec-train": copy.deepcopy(executor), "exec-push": executor}},
    }


def check(spec: Spec, *more: Any) -> None:
    api_checks.check_template(yaml.safe_dump_all([spec, *more]))


def test_good():
    check(good())
    check(good(), {"platforms": {"kubernetes": {"deploymentSpec": {"executors": {"exec-train": {}}}}}})


def tasks(spec: Spec) -> dict[str, Any]:
    return spec["root"]["dag"]["tasks"]


def executors(spec: Spec) -> dict[str, Any]:
    return spec["deploymentSpec"]["executors"]


MUTATIONS: list[tuple[Callable[[Spec], Any], str]] = [
    (lambda spec: spec.update(schemaVersion="2.0.0"), "schema version '2.0.0'"),
    (lambda spec: spec["pipelineInfo"].update(name="Small_Pipeline"), "pipeline name 'Small_Pipeline'"),
    (lambda spec: spec.pop("root"), "holds no pipeline"),
    (lambda spec: spec.update(runtimeConfig={}), "could not read the pipeline"),
    (lambda spec: tasks(spec)["train"].pop("taskInfo"), "root/train: taskInfo.name is ''; .* before 2.14"),
    (lambda spec: tasks(spec).update(push_model=tasks(spec).pop("push")), "root/push_model: Argo takes letters"),
    (lambda spec: tasks(spec)["train"]["componentRef"].update(name="comp-x"), "there is no component 'comp-x'"),
    (lambda spec: tasks(spec)["push"].update(dependentTasks=["tune"]), "depends on 'tune'"),
    (lambda spec: tasks(spec)["push"].pop("inputs"), "root/push: input 'model' gets no artifact"),
    (lambda spec: tasks(spec)["train"].pop("inputs"), "root/train: parameter 'steps' gets no value"),
    (lambda spec: tasks(spec)["train"].update(dependentTasks=["push"]), "wait for each other: push, train"),
    (
        lambda spec: tasks(spec)["push"]["inputs"]["artifacts"]["model"]["taskOutputArtifact"].update(
            producerTask="train_task"
        ),
        "comes from 'train_task', which is no task",
    ),
    (
        lambda spec: tasks(spec)["push"]["inputs"]["artifacts"]["model"]["taskOutputArtifact"].update(
            outputArtifactKey="weights"
        ),
        "'weights', which it does not declare",
    ),
    (
        lambda spec: tasks(spec)["train"]["inputs"]["parameters"]["steps"].update(componentInputParameter="no"),
        "comes from 'no', which is not declared",
    ),
    (lambda spec: spec["components"]["comp-push"].update(executorLabel="exec-x"), "there is no executor 'exec-x'"),
    (lambda spec: spec["components"]["comp-push"].pop("executorLabel"), "needs a dag or an executor"),
    (lambda spec: executors(spec)["exec-push"]["container"].pop("image"), "needs an image and a command"),
    (
        lambda spec: executors(spec).update({"exec-push": {"resolver": {}}}),
        "is a resolver; open-source Kubeflow runs containers and importers",
    ),
    (
        lambda spec: executors(spec)["exec-push"]["container"].update(
            lifecycle={"preCacheCheck": {"command": ["python"]}}
        ),
        "has a lifecycle hook, which Kubeflow ignores",
    ),
    (
        lambda spec: [
            task.update(triggerPolicy={"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}) for task in tasks(spec).values()
        ],
        "at least one task that is not an exit task",
    ),
]


@pytest.mark.parametrize(("mutate", "message"), MUTATIONS, ids=[message[:40] for _, message in MUTATIONS])
def test_bad(mutate, message):
    spec = good()
    mutate(spec)
    with pytest.raises(CompileError, match=message):
        check(spec)


def test_bad_documents():
    with pytest.raises(CompileError, match="holds two pipelines"):
        check(good(), good())
    platform = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": {"exec-x": {}}}}}}
    with pytest.raises(CompileError, match="there is no executor 'exec-x'"):
        check(good(), platform)
    platform = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": {"exec-push": {"colour": "red"}}}}}}
    with pytest.raises(CompileError, match=r"exec-push: .*colour"):
        check(good(), platform)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "'data' has no default: give it with --param data=VALUE"),
        ({"data": 3}, "'data' must be text, found 3"),
        ({"data": "d", "steps": "3"}, "'steps' must be a whole number"),
        ({"data": "d", "steps": True}, "'steps' must be a whole number"),
        ({"data": "d", "fast": 1}, "'fast' must be true or false"),
        ({"data": "d", "speed": 1}, "no parameter 'speed'; it has data, fast, steps"),
    ],
)
def test_bad_parameters(values, message):
    with pytest.raises(CompileError, match=message):
        api_checks.check_parameters(good(), values)


def test_good_parameters():
    api_checks.check_parameters(good(), {"data": "d"})
    api_checks.check_parameters(good(), {"data": "d", "steps": 4, "fast": False})
