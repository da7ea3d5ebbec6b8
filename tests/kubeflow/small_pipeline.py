"""A pipeline of one step and two parameters, as its two documents."""

from typing import Any

SPEC: dict[str, Any] = {
    "pipelineInfo": {"name": "small"},
    "schemaVersion": "2.1.0",
    "sdkVersion": "test",
    "root": {
        "dag": {"tasks": {"work": {"taskInfo": {"name": "work"}, "componentRef": {"name": "comp-work"}}}},
        "inputDefinitions": {
            "parameters": {
                "data": {"parameterType": "STRING", "defaultValue": "here"},
                "steps": {"parameterType": "NUMBER_INTEGER"},
            }
        },
    },
    "components": {"comp-work": {"executorLabel": "exec-work"}},
    "deploymentSpec": {"executors": {"exec-work": {"container": {"image": "i:1", "command": ["true"]}}}},
}
PLATFORM: dict[str, Any] = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": {"exec-work": {}}}}}}
