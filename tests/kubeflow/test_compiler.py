"""Compiling: goldens, determinism, and each construct that is rewritten."""

import dataclasses
import json
import os
import pathlib
import re

import pytest
import yaml
from kfp.pipeline_spec import pipeline_spec_pb2
from tfx import v1 as tfx
from tfx.dsl.component.experimental import placeholders

from components.data_gate.component import DataGate
from components.trainer.cluster_config import ClusterConfig
from kubeflow import compiler, size
from kubeflow.config import (
    KubeflowConfig,
    OutcomeConfig,
    SecretConfig,
    StepConfig,
    TolerationConfig,
    VolumeConfig,
    load,
)
from kubeflow.errors import CompileError
from pipeline import cli, config_reader
from pipeline.errors import ConfigError

GOLDENS = pathlib.Path(__file__).parent / "goldens"
CONFIG = KubeflowConfig(image="registry.example/sluice:1a2b3c4")
FULL = KubeflowConfig(
    image="registry.example/sluice@sha256:" + "0" * 64,
    image_pull_secrets=("pull",),
    model_registry="s3://bucket/registry",
    default=StepConfig(
        cpu_request="500m",
        memory_limit="4Gi",
        volumes=(VolumeConfig(claim="sluice", path="/mnt/sluice"),),
        secrets=(SecretConfig(name="s3", env={"key": "AWS_ACCESS_KEY_ID"}, optional=True),),
        env={"AWS_ENDPOINT_URL": "http://minio:9000"},
    ),
    steps={
        "Trainer": {
            "gpus": 2,
            "node_selector": {"pool": "gpu"},
            "tolerations": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
            "retries": 3,
            "timeout_seconds": 7200,
            "shared_memory": "2Gi",
            "cache": False,
            "labels": {"team": "ml"},
        }
    },
    outcome=OutcomeConfig(webhook_secret="webhook", command=("mail", "-s", "run")),
)


def compiled(pipeline, config: KubeflowConfig = CONFIG) -> compiler.CompiledPipeline:
    return compiler.compile_pipeline(pipeline, config)


def task(result: compiler.CompiledPipeline, name: str) -> dict:
    return result.pipeline_spec["root"]["dag"]["tasks"][name]


def component(result: compiler.CompiledPipeline, name: str) -> dict:
    return result.pipeline_spec["components"][f"comp-{name}"]


def container(result: compiler.CompiledPipeline, name: str) -> dict:
    return result.pipeline_spec["deploymentSpec"]["executors"][f"exec-{name}"]["container"]


def plan(result: compiler.CompiledPipeline, name: str) -> dict:
    return json.loads(container(result, name)["args"][1])


@pytest.fixture(scope="module")
def stock(sample_pipelines) -> compiler.CompiledPipeline:
    return compiled(sample_pipelines.stock())


@pytest.mark.parametrize(("name", "config"), [("stock", CONFIG), ("digits", CONFIG), ("stock-full", FULL)])
def test_golden(sample_pipelines, name, config):
    """Set SLUICE_UPDATE_GOLDENS=1 to write the goldens anew; then read the diff."""
    made = compiled(getattr(sample_pipelines, name.partition("-")[0])(), config).to_yaml()
    path = GOLDENS / f"{name}.yaml"
    if os.environ.get("SLUICE_UPDATE_GOLDENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(made)
    assert made == path.read_text()


@pytest.mark.parametrize("workload", ["taxi", "images", "textgen"])
def test_golden_of_a_workload(tmp_path, monkeypatch, workload):
    """What `sluice compile` makes of the project's own pipelines; SLUICE_UPDATE_GOLDENS=1 writes them anew."""
    monkeypatch.chdir(tmp_path)  # no kubeflow.yaml of this machine
    made = tmp_path / "made.yaml"
    image = ["--image", "registry.example/sluice:1a2b3c4", "--output", str(made)]
    assert cli.main(["compile", "--workload", workload, *image]) == 0
    path = GOLDENS / f"{workload}.yaml"
    if os.environ.get("SLUICE_UPDATE_GOLDENS"):
        path.write_text(_without_hashes(made.read_text()))
    assert _without_hashes(made.read_text()) == path.read_text()


def _without_hashes(text: str) -> str:
    """The YAML without the fingerprint of the workload's code, which changes with every edit of it."""
    return re.sub(r"constant: [0-9a-f]{64}$", "constant: (code)", text, flags=re.MULTILINE)


def test_equal_pipelines_give_equal_bytes(sample_pipelines, stock):
    again = compiled(sample_pipelines.stock())
    assert again.to_yaml() == stock.to_yaml()
    assert again.digest == stock.digest


def test_every_type_is_a_title_and_every_executor_a_container(stock):
    text = stock.to_yaml()
    assert "instanceSchema" not in text
    assert "lifecycle" not in text
    assert "_task" not in yaml.safe_dump(stock.pipeline_spec["root"])
    kinds = {kind for executor in stock.pipeline_spec["deploymentSpec"]["executors"].values() for kind in executor}
    assert kinds == {"container"}


def test_data_and_registry_are_parameters_with_defaults(stock):
    assert stock.parameters == {
        "data": "/mnt/data/taxi",
        "infer_shape": 1.0,
        "model_registry": "/mnt/sluice/registry/stock",
    }


def test_probe_runs_uncached_before_ingestion(stock):
    assert task(stock, "csv-example-gen-probe")["cachingOptions"] == {}
    source = task(stock, "csv-example-gen")["inputs"]["parameters"]["resolved_exec_properties"]
    assert source["taskOutputParameter"]["producerTask"] == "csv-example-gen-probe"
    assert task(stock, "csv-example-gen")["cachingOptions"] == {"enableCache": True}
    assert set(component(stock, "csv-example-gen-probe")["outputDefinitions"]["parameters"]) >= {
        "span",
        "version",
        "input_fingerprint",
    }


def test_resolver_becomes_a_probe_and_a_copy(stock):
    assert task(stock, "latest-blessed-model-resolver-probe")["cachingOptions"] == {}
    copy = task(stock, "latest-blessed-model-resolver")
    assert copy["cachingOptions"] == {"enableCache": True}
    assert copy["inputs"]["parameters"]["version"]["taskOutputParameter"]["outputParameterKey"] == "version"
    assert plan(stock, "evaluator")["resolved"] == {"baseline_model": "baseline_model--resolved"}
    assert plan(stock, "evaluator")["publishes"] == {"model": "model", "blessing": "blessing", "name": "stock"}


def test_condition_reads_a_parameter_that_the_producer_writes(stock):
    assert task(stock, "pusher")["triggerPolicy"]["condition"] == (
        "(inputs.parameter_values['condition--evaluator--blessing-blessed'] == 1.0)"
    )
    written = component(stock, "evaluator")["outputDefinitions"]["parameters"]
    assert written["blessing-blessed"] == {"parameterType": "NUMBER_DOUBLE"}
    assert plan(stock, "evaluator")["conditions"] == {
        "blessing-blessed": {"output": "blessing", "key": "blessed", "numeric": True}
    }


def test_value_of_an_artifact_reaches_the_next_step(stock):
    source = task(stock, "announce")["inputs"]["parameters"]["rows"]
    assert source == {"taskOutputParameter": {"producerTask": "count-rows", "outputParameterKey": "rows"}}
    assert plan(stock, "count-rows")["values"] == ["rows"]


def test_classes_of_ports_are_fixed(stock):
    assert plan(stock, "evaluator")["inputs"] == {
        "examples": "tfx.types.standard_artifacts.Examples",
        "model": "tfx.types.standard_artifacts.Model",
        "baseline_model": "tfx.types.standard_artifacts.Model",
    }


def gated(samples, gate_id: str = "DataGate", after_id: str = "Trainer") -> tfx.dsl.Pipeline:
    """Ingestion, a gate, and a step after it."""
    examples = samples.gen()
    statistics = tfx.components.StatisticsGen(examples=examples.outputs["examples"])
    schema = tfx.components.SchemaGen(statistics=statistics.outputs["statistics"])
    channels = {"statistics": statistics.outputs["statistics"], "schema": schema.outputs["schema"]}
    gate = DataGate(**channels).with_id(gate_id)
    trainer = tfx.components.Trainer(
        run_fn="a.b",
        examples=examples.outputs["examples"],
        train_args=tfx.proto.TrainArgs(num_steps=1),
        eval_args=tfx.proto.EvalArgs(num_steps=1),
    ).with_id(after_id)
    trainer.add_upstream_node(gate)
    return samples.pipeline([examples, statistics, schema, gate, trainer])


def test_gate_succeeds_and_the_step_after_it_ends_the_run(sample_pipelines):
    made = compiled(gated(sample_pipelines))
    assert plan(made, "data-gate")["judges"]
    stop = task(made, "data-gate-stop")
    source = {"producerTask": "data-gate", "outputParameterKey": "rejection"}
    assert stop["inputs"]["parameters"] == {"rejection": {"taskOutputParameter": source}}
    assert stop["cachingOptions"] == {}
    assert "retryPolicy" not in stop
    assert set(task(made, "trainer")["dependentTasks"]) == {"csv-example-gen", "data-gate", "data-gate-stop"}
    assert "data-gate-stop" not in task(made, "schema-gen").get("dependentTasks", [])


def test_names_of_added_steps_are_taken(sample_pipelines):
    with pytest.raises(CompileError, match=r"'DataGateStop' becomes 'data-gate-stop', .* the compiler adds"):
        compiled(gated(sample_pipelines, after_id="DataGateStop"))
    nodes = [sample_pipelines.gen(), sample_pipelines.gen().with_id("csv_example_gen_probe")]
    with pytest.raises(CompileError, match="becomes 'csv-example-gen-probe'"):
        compiled(sample_pipelines.pipeline(nodes))


def test_summary_reads_only_steps_that_always_run(sample_pipelines, stock):
    assert set(task(stock, "run-summary")["inputs"]["parameters"]) == {"evaluator"}  # the pusher has a condition
    assert component(stock, "run-summary")["outputDefinitions"]["artifacts"]["summary"]["artifactType"] == {
        "schemaTitle": "system.Markdown",
        "schemaVersion": "0.0.1",
    }
    without = compiled(sample_pipelines.stock(), dataclasses.replace(CONFIG, summary=False))
    assert "run-summary" not in without.to_yaml()
    assert "says" not in plan(without, "evaluator")


def test_resources_claims_secrets_and_the_rest(sample_pipelines):
    made = compiled(sample_pipelines.stock(), FULL)
    assert container(made, "trainer")["resources"] == {
        "resourceCpuRequest": "500m",
        "cpuRequest": 0.5,
        "resourceMemoryLimit": "4Gi",
        "memoryLimit": pytest.approx(4.294967296),
        "accelerator": {
            "type": "nvidia.com/gpu",
            "count": "2",
            "resourceType": "nvidia.com/gpu",
            "resourceCount": "2",
        },
    }
    executors = made.platform_spec["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    trainer = executors["exec-trainer"]
    assert trainer["nodeSelector"] == {"labels": {"pool": "gpu"}}
    assert trainer["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert trainer["activeDeadlineSeconds"] == "7200"
    assert trainer["enabledSharedMemory"] == {"volumeName": "shared-memory", "size": "2Gi"}
    assert trainer["podMetadata"] == {"labels": {"team": "ml"}}
    assert trainer["pvcMount"][0]["constant"] == "sluice"
    assert trainer["secretAsEnv"][0]["keyToEnv"] == [{"secretKey": "key", "envVar": "AWS_ACCESS_KEY_ID"}]
    assert trainer["imagePullSecret"][0]["secretName"] == "pull"
    assert executors["exec-report-outcome"]["secretAsEnv"][1]["secretName"] == "webhook"
    inner = made.pipeline_spec["components"]["comp-pipeline"]["dag"]["tasks"]
    assert inner["trainer"]["retryPolicy"]["maxRetryCount"] == 3
    assert inner["trainer"]["cachingOptions"] == {}


def test_outcome_runs_after_everything_however_it_ended(sample_pipelines):
    made = compiled(sample_pipelines.stock(), FULL)
    outcome = task(made, "report-outcome")
    assert outcome["triggerPolicy"] == {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}
    assert outcome["inputs"]["parameters"]["status"] == {"taskFinalStatus": {"producerTask": "pipeline"}}
    sources = task(made, "pipeline")["inputs"]["parameters"]
    assert sources == {name: {"componentInputParameter": name} for name in made.parameters}


def test_platform_config_of_a_node_is_kept_also_for_ingestion(sample_pipelines):
    resources = pipeline_spec_pb2.PipelineDeploymentConfig.PipelineContainerSpec.ResourceSpec(cpu_limit=2.0)
    gen = sample_pipelines.gen().with_platform_config(resources)
    assert container(compiled(sample_pipelines.pipeline([gen])), "csv-example-gen")["resources"] == {"cpuLimit": 2.0}


def test_container_component_gets_paths(sample_pipelines):
    examples = sample_pipelines.gen()
    count = tfx.dsl.experimental.create_container_component(
        name="Count",
        image="busybox:1.36",
        inputs={"examples": tfx.types.standard_artifacts.Examples},
        command=["wc", "-c", placeholders.InputUriPlaceholder("examples")],
    )(examples=examples.outputs["examples"])
    made = compiled(sample_pipelines.pipeline([examples, count]))
    assert container(made, "count") == {
        "image": "busybox:1.36",
        "command": ["wc"],
        "args": ["-c", "{{$.inputs.artifacts['examples'].path}}"],
        "env": [{"name": "SLUICE_PIPELINE", "value": "sample"}],
    }


def test_files_of_packages_and_of_this_machine(sample_pipelines, tmp_path):
    packaged = str(pathlib.Path(tfx.__file__).parents[1] / "examples" / "chicago_taxi_pipeline" / "data" / "simple")
    made = compiled(sample_pipelines.pipeline([sample_pipelines.gen(packaged)]))
    assert made.parameters["data"] == "package:tfx/examples/chicago_taxi_pipeline/data/simple"
    with pytest.raises(CompileError, match=r"step 'CsvExampleGen': input_base is .* that no pod sees"):
        compiled(sample_pipelines.pipeline([sample_pipelines.gen(str(tmp_path))]))


def test_too_large_a_pipeline_is_told_with_the_figure(sample_pipelines):
    examples = sample_pipelines.gen()
    trainer = tfx.components.Trainer(
        run_fn="a.b",
        examples=examples.outputs["examples"],
        train_args=tfx.proto.TrainArgs(num_steps=1),
        eval_args=tfx.proto.EvalArgs(num_steps=1),
        custom_config={"vocabulary": "x" * size.WORKFLOW_LIMIT},
    )
    with pytest.raises(CompileError, match=r"workflow would have [\d,]+ bytes, .* takes 262,144.* 'trainer' with"):
        compiled(sample_pipelines.pipeline([examples, trainer]))


def test_two_names_that_become_one(sample_pipelines):
    nodes = [sample_pipelines.gen().with_id("a_gen"), sample_pipelines.gen().with_id("AGen")]
    with pytest.raises(CompileError, match="'AGen' and 'a_gen' both become 'a-gen'"):
        compiled(sample_pipelines.pipeline(nodes))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"image": "registry.example/sluice"}, "no fixed version"),
        ({"image": "registry.example:5000/sluice:latest"}, "no fixed version"),
        ({"image": "i:1", "image_pull_policy": "Sometimes"}, "not one of Always, IfNotPresent, Never"),
        ({"image": "i:1", "storage": "mnt"}, "storage: the path in the pods must be absolute"),
        ({"image": "i:1", "storage": "/"}, "storage: the path in the pods must be a folder of its own"),
        ({"image": "i:1", "storage": "/mnt/a b"}, "without .., colons and blanks"),
        ({"image": "i:1", "model_registry": "registry"}, "expected an absolute path in the pods or a URL"),
        ({"image": "i:1", "model_registry": ""}, "expected an absolute path in the pods or a URL"),
        ({"image": "i:1", "model_registry": "foo://x"}, "no file system that fsspec knows"),
        (
            {"image": "i:1", "outcome": OutcomeConfig(command=("mail", "{{x}}"))},
            r"config: outcome: command: '\{\{' would be a template for Argo",
        ),
        ({"image": "i:1", "default": StepConfig(env={"A": "{{workflow.name}}"})}, "config: default: env: A: "),
        ({"image": "i:1", "steps": {"Trainer": {"memory": "4Gi"}}}, "unknown key `memory`.*memory_limit"),
        ({"image": "i:1", "steps": {"Trainer": {"memory_limit": "4 GB"}}}, "Kubernetes quantity"),
    ],
)
def test_bad_configuration(values, message):
    with pytest.raises(ConfigError, match=message):
        KubeflowConfig(**values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"memory_request": "16Gi", "memory_limit": "8Gi"}, "memory_request 16Gi is more than memory_limit 8Gi"),
        ({"cpu_request": "1500m", "cpu_limit": "1"}, "cpu_request 1500m is more than cpu_limit 1"),
        ({"labels": {"team": "machine learning"}}, "labels: `team` must have at most 63 .* can be an annotation"),
        ({"labels": {"a/b/c": "x"}}, "labels: 'a/b/c' is no key"),
        ({"node_selector": {"pool": "x" * 64}}, "node_selector: `pool` must have at most 63"),
        ({"annotations": {"bad key": "any text"}}, "annotations: 'bad key' is no key"),
        ({"env": {"A=B": "x"}}, "env: 'A=B' is no name of an environment variable"),
        ({"volumes": ({"claim": "a", "path": "/d"}, {"claim": "b", "path": "/d/"})}, "volumes: two are mounted at /d"),
        ({"volumes": ({"claim": "My_Claim", "path": "/d"},)}, "claim: Kubernetes takes lower-case .* 'My_Claim'"),
        ({"secrets": ({"name": "s", "env": {"key": "1A"}},)}, "secret s: env: '1A' is no name of an environment"),
        ({"tolerations": ({"key": "gpu", "effect": "NoScheduling"},)}, "effect must be one of .* 'NoScheduling'"),
        ({"tolerations": ({"key": "gpu", "value": "x"},)}, "with operator Exists there is no value"),
        ({"tolerations": ({"key": "a b"},)}, "toleration: 'a b' is no key"),
        ({"tolerations": ({"operator": "Equal", "value": "x"},)}, "without a key only the operator Exists"),
        ({"gpus": 1, "gpu_resource": "x y"}, "gpu_resource: 'x y' is no key"),
        ({"retries": 2**31}, "retries: must be 0 or more, and at most 2147483647"),
        ({"volumes": ({"claim": "a", "path": "/d/../e"},)}, "volume a: path must be absolute, without .."),
        ({"volumes": ({"claim": "a", "path": "/d:e"},)}, "volume a: path must be absolute, without .."),
        ({"volumes": ({"claim": "a", "path": "/"},)}, "volume a: path must be a folder of its own"),
        ({"volumes": ({"claim": "a", "path": "/opt/sluice/modules"},)}, "/opt/sluice belongs to the image"),
        ({"volumes": ({"claim": "a", "path": "/opt"},)}, "/opt would hide /opt/sluice"),
        ({"volumes": ({"claim": "a", "path": "/d", "sub_path": "../e"},)}, "sub_path must be a folder inside"),
    ],
)
def test_what_a_pod_would_be_refused_for(values, message):
    with pytest.raises(ConfigError, match=message):
        config_reader.read(StepConfig, values, "step")


@pytest.mark.parametrize(
    ("image", "good"),
    [
        ("localhost:5000/sluice:1a2b", True),
        ("registry.example/Team/sluice:1a2b", False),
        ("registry.example/sluice:1a 2b", False),
        ("registry.example/sluice@sha256:" + "a" * 63, False),
        ("registry.example/team/sluice:1a2b@sha256:" + "a" * 64, True),
        ("https://registry.example/sluice:1a2b", False),
    ],
)
def test_image_references(image, good):
    if good:
        assert KubeflowConfig(image=image).image == image
    else:
        with pytest.raises(ConfigError, match="not written as"):
            KubeflowConfig(image=image)


def test_steps_own_volume_hides_the_default_one():
    default = StepConfig(volumes=(VolumeConfig(claim="slow", path="/data"), VolumeConfig(claim="s", path="/mnt")))
    merged = StepConfig(volumes=(VolumeConfig(claim="fast", path="/data"),)).over(default)
    assert [(volume.claim, volume.path) for volume in merged.volumes] == [("s", "/mnt"), ("fast", "/data")]


def test_claims_may_not_hide_the_launchers_folders():
    with pytest.raises(ConfigError, match="/minio belongs to the Kubeflow launcher"):
        VolumeConfig(claim="c", path="/minio/data")


def test_unknown_step_and_parameter(sample_pipelines):
    pipeline = sample_pipelines.pipeline([sample_pipelines.gen()])
    with pytest.raises(ConfigError, match="no step 'Trainer'; it has CsvExampleGen"):
        compiled(pipeline, dataclasses.replace(CONFIG, steps={"Trainer": StepConfig()}))
    with pytest.raises(ConfigError, match="no parameter 'dta'; it has data"):
        compiled(pipeline, dataclasses.replace(CONFIG, parameters={"dta": "x"}))
    with pytest.raises(ConfigError, match="parameters: parameter 'data' must be text, found 3"):
        compiled(pipeline, dataclasses.replace(CONFIG, parameters={"data": 3}))


def test_step_settings_are_laid_over_the_default():
    step = StepConfig(env={"A": "1"}, tolerations=(TolerationConfig(key="gpu"),), retries=0)
    merged = step.over(StepConfig(env={"A": "0", "B": "2"}, retries=4, cpu_limit="2"))
    assert (merged.env, merged.retries, merged.cpu_limit) == ({"A": "1", "B": "2"}, 0, "2")


def test_trainer_on_pods_of_its_own_shares_image_and_claims():
    config = KubeflowConfig(
        image="registry.example/sluice:1a2b3c4",
        image_pull_secrets=("pull",),
        default=StepConfig(volumes=(VolumeConfig(claim="sluice", path="/mnt/sluice"),)),
        trainer={"backends": ["trainjob", "jobset"], "max_restarts": 5, "kubernetes": {"num_gpus": 1}},
    )
    cluster = ClusterConfig.from_dict(config.trainer_cluster(), "trainer")
    assert cluster.backends == ("trainjob", "jobset")
    assert cluster.max_restarts == 5
    pods = cluster.kubernetes
    assert (pods.image, pods.image_pull_secrets, pods.num_gpus) == (config.image, ("pull",), 1)
    assert pods.volumes[0].mount_path == "/mnt/sluice"
    assert pods.shared_dir == "/mnt/sluice/training"
    assert CONFIG.trainer_cluster() == {}


def test_example_configuration(sample_pipelines):
    """What docs/kubeflow.md tells people to copy is right, and compiles."""
    example = load(str(pathlib.Path(compiler.__file__).parent / "kubeflow.example.yaml"), image=CONFIG.image)
    assert example.step("Trainer").retries == 2
    assert example.step("Trainer").volumes[0].path == example.storage
    assert ClusterConfig.from_dict(example.trainer_cluster(), "trainer").kubernetes.num_gpus == 1
    steps = {name: step for name, step in example.steps.items() if name != "Transform"}
    assert compiled(sample_pipelines.stock(), dataclasses.replace(example, steps=steps)).name == "stock"


def test_configuration_file_with_a_misspelt_key(tmp_path):
    path = tmp_path / "kubeflow.yaml"
    path.write_text("image: i:1\nstorrage: /mnt\n")
    with pytest.raises(ConfigError, match=r"kubeflow.yaml: unknown key `storrage`. Did you mean `storage`\?"):
        load(str(path))
    with pytest.raises(ConfigError, match="No such file"):
        load(str(tmp_path / "no.yaml"))
