"""The simulation of Kubeflow is strict: what fails there fails here. Small containers without TFX."""

import json
import textwrap
from typing import Any

import kfp_conditions
import kfp_simulation
import pytest
import yaml

HEAD = """
import json, os, pathlib, sys
request = json.loads(sys.argv[1])
outputs = request["outputs"]
def local(port, where="outputs"):
    uri = request[where]["artifacts"][port]["artifacts"][0]["uri"]
    return pathlib.Path(os.environ["SLUICE_LAUNCHER_ROOT"], "minio", uri.removeprefix("minio://"))
def say(artifacts=None, parameters=None):
    said = {port: {"artifacts": [value]} for port, value in (artifacts or {}).items()}
    file = pathlib.Path(outputs["outputFile"])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"artifacts": said, "parameterValues": parameters or {}}))
"""
MAKE = "local('made').write_text('x'); say()"


def container(code: str) -> dict[str, Any]:
    program = HEAD + textwrap.dedent(code)
    return {"container": {"image": "i:1", "command": ["python", "-c"], "args": [program, "{{$}}"]}}


def spec(tasks: dict[str, dict[str, Any]], parameters: dict[str, Any] | None = None) -> str:
    """A pipeline of tasks: their code, inputs, parameters, outputs, output_parameters, and fields of the task."""
    dag, components, executors = {}, {}, {}
    for name, values in tasks.items():
        task = dict(values)
        executors[f"exec-{name}"] = container(task.pop("code"))
        inputs, given, written = (task.pop(key, {}) for key in ("inputs", "parameters", "output_parameters"))
        made = {"artifactType": {"schemaTitle": "tfx.Model", "schemaVersion": "0.0.1"}}
        components[f"comp-{name}"] = {
            "executorLabel": f"exec-{name}",
            "inputDefinitions": {
                "artifacts": dict.fromkeys(inputs, made),
                "parameters": {key: {"parameterType": kind} for key, (kind, _) in given.items()},
            },
            "outputDefinitions": {
                "artifacts": dict.fromkeys(task.pop("outputs", []), made),
                "parameters": {name: {"parameterType": kind} for name, kind in written.items()},
            },
        }
        dag[name] = {
            "taskInfo": {"name": name},
            "componentRef": {"name": f"comp-{name}"},
            "inputs": {
                "artifacts": {
                    port: {"taskOutputArtifact": {"producerTask": producer, "outputArtifactKey": "made"}}
                    for port, producer in inputs.items()
                },
                "parameters": {key: source for key, (_, source) in given.items()},
            },
            **task,
        }
    pipeline = {
        "pipelineInfo": {"name": "small"},
        "schemaVersion": "2.1.0",
        "root": {"dag": {"tasks": dag}, "inputDefinitions": {"parameters": parameters or {}}},
        "components": components,
        "deploymentSpec": {"executors": executors},
    }
    platform = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": {}}}}}
    return yaml.safe_dump_all([pipeline, platform])


@pytest.fixture
def cluster(tmp_path) -> kfp_simulation.Cluster:
    return kfp_simulation.Cluster(tmp_path)


def output(producer: str, key: str, kind: str = "STRING") -> tuple[str, dict]:
    return kind, {"taskOutputParameter": {"producerTask": producer, "outputParameterKey": key}}


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("say()", "declared this output and wrote no file"),
        ("local('made').mkdir(); say()", "declared this output and wrote no file"),
        (f"{MAKE[:-5]}", "wrote no executor output"),
        ("local('made').write_text('x'); say({'made': {'metadata': {'a': None}}})", "is null"),
        (
            "local('made').write_text('x'); say({'made': {'metadata': {'a': str(local('made'))}}})",
            "path of the container",
        ),
        (
            "local('made').write_text('x'); say({'made': {'uri': 'minio://other/place'}})",
            "not the one that was given out",
        ),
        ("local('made').write_text('x'); say({'made': {}, 'more': {}})", "not declared: ['more']"),
        ("local('made').write_text('x'); say({'made': {'colour': 'red'}})", "no field named"),
        ("print('the reason'); sys.exit(7)", "exit code 7\nthe reason"),
    ],
)
def test_what_the_launcher_does_not_take(cluster, code, message):
    result = cluster.run(spec({"work": {"code": code, "outputs": ["made"]}}))
    assert result.states == {"work": "FAILED"}
    assert message in result.failures


def test_output_parameter_that_was_not_written(cluster):
    result = cluster.run(spec({"work": {"code": "say()", "output_parameters": {"p": "STRING"}}}))
    assert "output parameter 'p' was not written" in result.failures


def test_inputs_come_without_types_and_with_numbers_as_doubles(cluster):
    make = "local('made').write_text('x'); say({'made': {'metadata': {'n': 3, 'l': [1], 't': 'x'}}})"
    look = """
    [artifact] = request["inputs"]["artifacts"]["it"]["artifacts"]
    assert artifact["type"] == {"instanceSchema": ""}, artifact
    assert artifact["metadata"]["n"] == 3.0 and artifact["metadata"]["l"] == {"list": [1]}, artifact
    assert artifact["metadata"]["display_name"] == "made" and artifact["name"].isdigit()
    assert local("it", "inputs").read_text() == "x"
    say()
    """
    tasks = {"make": {"code": make, "outputs": ["made"]}, "look": {"code": look, "inputs": {"it": "make"}}}
    result = cluster.run(spec(tasks))
    assert result.failures == "none", result.failures


def test_inputs_with_titles(tmp_path):
    look = (
        """assert request["inputs"]["artifacts"]["it"]["artifacts"][0]["type"]["schemaTitle"] == "tfx.Model"; say()"""
    )
    tasks = {"make": {"code": MAKE, "outputs": ["made"]}, "look": {"code": look, "inputs": {"it": "make"}}}
    result = kfp_simulation.Cluster(tmp_path, with_titles=True).run(spec(tasks))
    assert result.failures == "none", result.failures


def test_skipped_is_not_succeeded_for_those_after(cluster):
    tasks = {
        "judge": {"code": "say(parameters={'good': 0.0})", "output_parameters": {"good": "NUMBER_DOUBLE"}},
        "push": {
            "code": MAKE,
            "outputs": ["made"],
            "parameters": {"good": output("judge", "good", "NUMBER_DOUBLE")},
            "triggerPolicy": {"condition": "(inputs.parameter_values['good'] == 1.0)"},
        },
        "tell": {"code": "say()", "inputs": {"it": "push"}},
    }
    assert cluster.run(spec(tasks)).states == {"judge": "SUCCEEDED", "push": "SKIPPED", "tell": "OMITTED"}


def test_retries(cluster, tmp_path):
    code = f"""
    marker = pathlib.Path({str(tmp_path / "marker")!r})
    if not marker.exists():
        marker.write_text("")
        sys.exit(1)
    say()
    """
    result = cluster.run(spec({"work": {"code": code, "retryPolicy": {"maxRetryCount": 2}}}))
    assert (result.states["work"], result.tasks["work"].attempts) == ("SUCCEEDED", 2)


def test_cache_follows_inputs_parameters_and_command(cluster):
    def text(value: str, code: str = MAKE) -> str:
        tasks = {
            "work": {
                "code": code,
                "outputs": ["made"],
                "parameters": {"p": ("STRING", {"componentInputParameter": "p"})},
                "cachingOptions": {"enableCache": True},
            },
            "after": {"code": "say()", "inputs": {"it": "work"}, "cachingOptions": {"enableCache": True}},
        }
        return spec(tasks, {"p": {"parameterType": "STRING", "defaultValue": value}})

    assert set(cluster.run(text("a")).states.values()) == {"SUCCEEDED"}
    assert set(cluster.run(text("a")).states.values()) == {"CACHED"}
    assert set(cluster.run(text("b")).states.values()) == {"SUCCEEDED"}
    assert set(cluster.run(text("a", MAKE + " ")).states.values()) == {"SUCCEEDED"}


def test_parameter_types_are_checked(cluster):
    tasks = {
        "one": {"code": "say(parameters={'p': 'text'})", "output_parameters": {"p": "STRING"}},
        "two": {"code": "say()", "parameters": {"n": output("one", "p", "NUMBER_INTEGER")}},
    }
    assert "type mismatch: expect NUMBER_INTEGER" in cluster.run(spec(tasks)).failures


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("(inputs.parameter_values['n'] == 1.0)", True),
        ("!((inputs.parameter_values['n'] > 1.0))", True),
        ("(inputs.parameter_values['n'] < 1.0) || (inputs.parameter_values['t'] == 'x')", True),
        ("((inputs.parameter_values['n'] == 1.0) && (inputs.parameter_values['t'] == 'y'))", False),
    ],
)
def test_conditions(expression, expected):
    assert kfp_conditions.evaluate(expression, {"n": 1.0, "t": "x"}) is expected


@pytest.mark.parametrize(
    "expression", ["(inputs.parameter_values['no'] == 1.0)", "(inputs.parameter_values['t'] == 1.0)"]
)
def test_conditions_that_cel_refuses(expression):
    with pytest.raises(kfp_conditions.ConditionError):
        kfp_conditions.evaluate(expression, {"t": "x"})


def test_executor_input_is_json_that_the_programs_can_read(cluster):
    value = json.dumps({"quotes": '"', "braces": "}}"})
    tasks = {
        "work": {
            "code": f"assert request['inputs']['parameterValues']['p'] == {value!r}; say()",
            "parameters": {"p": ("STRING", {"runtimeValue": {"constant": value}})},
        }
    }
    assert cluster.run(spec(tasks)).failures == "none"
