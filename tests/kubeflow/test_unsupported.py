"""Every construct that Kubeflow cannot do is refused by name, with what to do."""

import re

import pytest
from tensorflow_model_analysis.proto import config_pb2
from tfx import v1 as tfx
from tfx.dsl.component.experimental import placeholders
from tfx.dsl.components.base import base_component, base_driver, base_executor, executor_spec
from tfx.dsl.components.common import manual_node
from tfx.dsl.control_flow import for_each
from tfx.dsl.experimental.conditionals import conditional
from tfx.dsl.experimental.node_execution_options import utils as node_options
from tfx.types import channel_utils, component_spec

from kubeflow import compiler
from kubeflow.config import KubeflowConfig
from kubeflow.errors import CompileError

CONFIG = KubeflowConfig(image="registry.example/sluice:1a2b3c4")
Examples = tfx.types.standard_artifacts.Examples


def refused(pipeline) -> str:
    with pytest.raises(CompileError) as caught:
        compiler.compile_pipeline(pipeline, CONFIG)
    return str(caught.value)


class OwnDriver(base_driver.BaseDriver):
    """A driver that Kubeflow would not run."""


class Driven(base_component.BaseComponent):
    """A component with that driver."""

    class SPEC_CLASS(component_spec.ComponentSpec):
        PARAMETERS = {}
        INPUTS = {}
        OUTPUTS = {"examples": component_spec.ChannelParameter(type=Examples)}

    EXECUTOR_SPEC = executor_spec.ExecutorClassSpec(base_executor.EmptyExecutor)
    DRIVER_CLASS = OwnDriver

    def __init__(self) -> None:
        super().__init__(self.SPEC_CLASS(examples=tfx.dsl.Channel(type=Examples)))


def manual(samples):
    return [samples.gen(), manual_node.ManualNode(description="look at it")]


def own_driver(samples):
    return [Driven()]


def module_file(samples):
    gen = samples.gen()
    args = {"train_args": tfx.proto.TrainArgs(num_steps=1), "eval_args": tfx.proto.EvalArgs(num_steps=1)}
    return [gen, tfx.components.Trainer(module_file="model.py", examples=gen.outputs["examples"], **args)]


def evaluator(samples, module_path):
    gen = samples.gen()
    given = {"examples": gen.outputs["examples"], "eval_config": config_pb2.EvalConfig()}
    return [gen, tfx.components.Evaluator(module_path=module_path, **given)]


def wheel_made_here(samples):
    return evaluator(samples, "mine@/home/ann/mine.whl")


def infra_validator(samples):
    gen = samples.gen()
    trainer = trainer_of(gen)
    serving = tfx.proto.ServingSpec(
        tensorflow_serving=tfx.proto.TensorFlowServing(tags=["latest"]), local_docker=tfx.proto.LocalDockerConfig()
    )
    return [gen, trainer, tfx.components.InfraValidator(model=trainer.outputs["model"], serving_spec=serving)]


def trainer_of(gen, **values):
    args = {"train_args": tfx.proto.TrainArgs(num_steps=1), "eval_args": tfx.proto.EvalArgs(num_steps=1)}
    return tfx.components.Trainer(run_fn="a.b", examples=gen.outputs["examples"], **args, **values)


def cloud_trainer(samples):
    gen = samples.gen()
    args = {"train_args": tfx.proto.TrainArgs(num_steps=1), "eval_args": tfx.proto.EvalArgs(num_steps=1)}
    cloud = tfx.extensions.google_cloud_ai_platform
    return [gen, cloud.Trainer(run_fn="a.b", examples=gen.outputs["examples"], **args)]


def latest_artifact(samples):
    strategy = tfx.dsl.experimental.LatestArtifactStrategy
    return [samples.gen(), tfx.dsl.Resolver(strategy_class=strategy, examples=tfx.dsl.Channel(type=Examples))]


def no_producer(samples):
    return [tfx.components.StatisticsGen(examples=tfx.dsl.Channel(type=Examples))]


def union(samples):
    one, two = samples.gen().with_id("One"), samples.gen().with_id("Two")
    both = channel_utils.union([one.outputs["examples"], two.outputs["examples"]])
    return [one, two, tfx.components.StatisticsGen(examples=both)]


def loop(samples):
    gen = samples.gen()
    with for_each.ForEach(gen.outputs["examples"]) as examples:
        statistics = tfx.components.StatisticsGen(examples=examples)
    return [gen, statistics]


def condition_on_uri(samples):
    gen = samples.gen()
    with conditional.Cond(gen.outputs["examples"].future()[0].uri == "here"):
        statistics = tfx.components.StatisticsGen(examples=gen.outputs["examples"])
    return [gen, statistics]


def condition_on_resolver(samples):
    gen = samples.gen()
    with conditional.Cond(gen.outputs["examples"].future()[0].custom_property("x") == 1):
        latest = samples.resolver()
    return [gen, latest]


def condition_on_import(samples):
    imported = tfx.dsl.Importer(source_uri="s3://b/x", artifact_type=Examples).with_id("Imported")
    with conditional.Cond(imported.outputs["result"].future()[0].property("span") == 3):
        statistics = tfx.components.StatisticsGen(examples=imported.outputs["result"])
    return [imported, statistics]


def condition_on_resolved(samples):
    gen, latest = samples.gen(), samples.resolver()
    with conditional.Cond(latest.outputs["model_blessing"].future()[0].custom_property("blessed") == 1):
        statistics = tfx.components.StatisticsGen(examples=gen.outputs["examples"])
    return [gen, latest, statistics]


def condition_on_text(samples):
    gen = samples.gen()
    with conditional.Cond(gen.outputs["examples"].future()[0].property("split_names") == "it's"):
        statistics = tfx.components.StatisticsGen(examples=gen.outputs["examples"])
    return [gen, statistics]


def condition_on_two(samples):
    gen = samples.gen()
    examples = gen.outputs["examples"].future()[0]
    with conditional.Cond(examples.property("span") < examples.property("version")):
        statistics = tfx.components.StatisticsGen(examples=gen.outputs["examples"])
    return [gen, statistics]


def condition_on_value(samples):
    gen = samples.gen()
    rows = samples.count_rows(examples=gen.outputs["examples"])
    with conditional.Cond(rows.outputs["rows"].future()[0].value > 10):
        statistics = tfx.components.StatisticsGen(examples=gen.outputs["examples"])
    return [gen, rows, statistics]


def span_range(samples):
    values = {"config": {"range_config": tfx.proto.RangeConfig()}, "examples": tfx.dsl.Channel(type=Examples)}
    strategy = tfx.dsl.experimental.SpanRangeStrategy
    return [samples.gen(), tfx.dsl.Resolver(strategy_class=strategy, **values).with_id("range")]


def sum_of_a_value(samples):
    gen = samples.gen()
    rows = samples.count_rows(examples=gen.outputs["examples"])
    return [gen, rows, samples.announce(rows=rows.outputs["rows"].future()[0].value + 1)]


def web_import(samples):
    return [tfx.dsl.Importer(source_uri="http://host/digits", artifact_type=Examples).with_id("Digits")]


def web_import_by_default(samples):
    uri = tfx.dsl.experimental.RuntimeParameter(name="uri", ptype=str, default="hdfs://host/digits")
    return [tfx.dsl.Importer(source_uri=uri, artifact_type=Examples).with_id("Digits")]


def reserved_name(samples):
    return [samples.gen().with_id("Executor")]


def drivers_name(samples):
    return [samples.gen().with_id("test_driver")]


def template_braces(samples):
    gen = samples.gen()
    return [gen, trainer_of(gen, custom_config={"template": "{{workflow.name}}"})]


def expression(samples):
    gen = samples.gen()
    rows = samples.count_rows(examples=gen.outputs["examples"])
    greeting = gen.outputs["examples"].future()[0].uri + "/x"
    return [gen, rows, samples.announce(rows=rows.outputs["rows"].future()[0].value, greeting=greeting)]


def trigger(samples):
    gen = samples.gen()
    options = node_options.NodeExecutionOptions(
        trigger_strategy=node_options.TriggerStrategy.ALL_UPSTREAM_NODES_COMPLETED
    )
    gen.node_execution_options = options
    return [gen]


def optional_success(samples):
    gen = samples.gen()
    gen.node_execution_options = node_options.NodeExecutionOptions(success_optional=True)
    return [gen]


def container_value(samples):
    gen = samples.gen()
    show = tfx.dsl.experimental.create_container_component(
        name="Show",
        image="busybox:1.36",
        inputs={"text": tfx.types.standard_artifacts.String},
        command=["echo", placeholders.InputValuePlaceholder("text")],
    )
    rows = samples.count_rows(examples=gen.outputs["examples"])
    return [gen, rows, show(text=tfx.dsl.Channel(type=tfx.types.standard_artifacts.String))]


def local_import(samples):
    return [tfx.dsl.Importer(source_uri="/data/digits", artifact_type=Examples).with_id("Digits")]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (manual, "ManualNode has no counterpart; use a Kubeflow suspend step"),
        (own_driver, "OwnDriver would never run: Kubeflow has no place for drivers"),
        (wheel_made_here, "module_path='mine@/home/ann/mine.whl' is uploaded from this machine"),
        (module_file, "module_file='model.py' is uploaded from this machine.* name the function by its dotted path"),
        (infra_validator, "step 'InfraValidator': .* the Pusher of components/pusher tries the model"),
        (cloud_trainer, "starts jobs on Google Cloud's managed service; use components/trainer"),
        (latest_artifact, "LatestArtifactStrategy needs ML Metadata.* or an Importer"),
        (no_producer, "input 'examples' has no producer in this pipeline; bring it in with an Importer"),
        (union, "input 'examples' is a UnionChannel"),
        (loop, "ForEach has no counterpart"),
        (condition_on_uri, "Cond compares a URI, which is different in every run; compare a property"),
        (condition_on_resolver, "a Resolver inside Cond always runs on Kubeflow"),
        (template_braces, "exec property 'custom_config' contains '{{', which Argo would take for a template"),
        (expression, "exec property 'greeting' is a placeholder expression"),
        (trigger, "trigger strategy is not ALL_UPSTREAM_NODES_SUCCEEDED"),
        (optional_success, "success_optional: on Kubeflow a failed step always fails the run"),
        (container_value, "value of the input artifact 'text' on a command line cannot be resolved"),
        (condition_on_import, "its Cond looks at 'Imported', and Importers tell Kubeflow no properties"),
        (condition_on_resolved, "its Cond looks at 'latest_blessed_model_resolver', and Resolvers tell"),
        (condition_on_text, "its Cond compares with text that holds a quote"),
        (condition_on_two, "its Cond compares two properties with each other"),
        (condition_on_value, "its Cond cannot be written as a Kubeflow condition"),
        (span_range, "step 'range': SpanRangeStrategy needs ML Metadata"),
        (sum_of_a_value, "exec property 'rows' is a placeholder expression"),
        (web_import, "imports only gs://, s3:// and minio:// artifacts, found 'http://host/digits'"),
        (web_import_by_default, "found 'hdfs://host/digits'"),
        (reserved_name, "step 'Executor' becomes 'executor', a name that Kubeflow or the compiler needs"),
        (drivers_name, "step 'test_driver' becomes 'test-driver', a name that Kubeflow"),
        (local_import, "step 'Digits': Kubeflow imports only gs://, s3:// and minio:// artifacts"),
    ],
)
def test_refused_by_name(sample_pipelines, nodes, message):
    text = refused(sample_pipelines.pipeline(nodes(sample_pipelines)))
    assert re.search(message, text), text
    assert text.startswith("step '")


def test_module_of_the_image_is_named_by_its_path(sample_pipelines):
    """TFX's own way to name a module that is installed where the step runs."""
    nodes = evaluator(sample_pipelines, "components.evaluator.extractors")
    made = compiler.compile_pipeline(sample_pipelines.pipeline(nodes), CONFIG)
    given = made.pipeline_spec["root"]["dag"]["tasks"]["evaluator"]["inputs"]["parameters"]["module_path"]
    assert given == {"runtimeValue": {"constant": "components.evaluator.extractors"}}


def test_pipeline_inside_a_pipeline(sample_pipelines):
    inner = sample_pipelines.pipeline([sample_pipelines.gen()], "inner")
    assert "step 'inner': a pipeline inside a pipeline" in refused(sample_pipelines.pipeline([inner]))


def test_pipeline_name(sample_pipelines):
    assert "pipeline name 'My_Pipeline'" in refused(sample_pipelines.pipeline([sample_pipelines.gen()], "My_Pipeline"))


def test_pipeline_without_steps(sample_pipelines):
    for nodes in ([], [sample_pipelines.resolver()]):
        assert "has no step that does anything" in refused(sample_pipelines.pipeline(nodes))


def test_parameter_of_the_compilers_own_name(sample_pipelines):
    greeting = tfx.dsl.experimental.RuntimeParameter(name="data", ptype=str, default="hello")
    nodes = [sample_pipelines.gen(), sample_pipelines.announce(rows=3, greeting=greeting)]
    assert "give it another name (`data` and `model_registry`" in refused(sample_pipelines.pipeline(nodes))
