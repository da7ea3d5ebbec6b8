"""What TFX can say and open-source Kubeflow Pipelines cannot do: refused by name, with the way round it."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from tfx import components as tfx_components
from tfx.components.example_gen import driver as example_gen_driver
from tfx.dsl.component.experimental import executor_specs
from tfx.dsl.components.base import base_driver, base_node, executor_spec
from tfx.dsl.components.common import importer, manual_node, resolver
from tfx.dsl.control_flow import for_each
from tfx.dsl.experimental.conditionals import conditional
from tfx.dsl.experimental.node_execution_options import utils as node_options
from tfx.dsl.input_resolution.strategies import latest_blessed_model_strategy
from tfx.dsl.placeholder import placeholder
from tfx.orchestration import data_types
from tfx.orchestration import pipeline as tfx_pipeline
from tfx.orchestration.kubeflow.v2 import compiler_utils
from tfx.types import channel, channel_utils
from tfx.utils import deprecation_utils

from components import baseline_resolver
from kubeflow.errors import CompileError

RESOLVER_STRATEGIES = (
    latest_blessed_model_strategy.LatestBlessedModelStrategy,
    baseline_resolver.BlessedBeforeCandidateStrategy,
)
"""Strategies that the model registry can answer."""

_TWO_PROPERTIES = re.compile(r"metadata\['[^']*'\] [=<>]+ inputs\.")
_CLOUD_ONLY = "tfx.extensions.google_cloud_ai_platform"


def check(pipeline: tfx_pipeline.Pipeline) -> None:
    """Raises CompileError for the first construct of `pipeline` that would not do on Kubeflow what it should."""
    if not any(not isinstance(node, resolver.Resolver) for node in pipeline.components):
        raise CompileError(f"pipeline {pipeline.pipeline_info.pipeline_name!r} has no step that does anything")
    for node in pipeline.components:
        for rule in _RULES:
            for complaint in rule(node, pipeline):
                raise CompileError(f"step {node.id!r}: {complaint}")


def _node_kinds(node: base_node.BaseNode, _: tfx_pipeline.Pipeline) -> Iterator[str]:
    if isinstance(node, tfx_pipeline.Pipeline):
        yield "a pipeline inside a pipeline has no counterpart; put its components into the outer one"
    if isinstance(node, manual_node.ManualNode):
        yield "a ManualNode has no counterpart; use a Kubeflow suspend step, or split the pipeline in two"
    if isinstance(node, tfx_components.InfraValidator):
        yield (
            "InfraValidator starts a serving container beside itself, which a Kubeflow pod cannot; "
            "the Pusher of components/pusher tries the model before it publishes it"
        )


def _resolvers(node: base_node.BaseNode, _: tfx_pipeline.Pipeline) -> Iterator[str]:
    if not isinstance(node, resolver.Resolver):
        return
    strategy = node.exec_properties.get(resolver.RESOLVER_STRATEGY_CLASS)
    if strategy is None:
        yield "a resolver function needs ML Metadata, which Kubeflow gives no step; use a ResolverStrategy"
        return
    strategy = deprecation_utils.get_first_nondeprecated_class(strategy)
    if strategy not in RESOLVER_STRATEGIES:
        allowed = " or ".join(sorted(allowed.__name__ for allowed in RESOLVER_STRATEGIES))
        yield (
            f"{strategy.__name__} needs ML Metadata, which Kubeflow gives no step. "
            f"Use {allowed}, which the model registry answers, or an Importer with the artifact's URI"
        )


def _executors(node: base_node.BaseNode, _: tfx_pipeline.Pipeline) -> Iterator[str]:
    spec = node.executor_spec
    if isinstance(spec, executor_specs.TemplatedExecutorContainerSpec):
        if spec.args:
            yield "TFX drops the `args` of a container component; put them at the end of its `command`"
        for item in _flat(spec.command):
            name = getattr(item, "input_name", None)
            if type(item).__name__ == "InputValuePlaceholder" and name not in node.exec_properties:
                yield f"the value of the input artifact {name!r} on a command line cannot be resolved by Kubeflow"
        return
    if not isinstance(spec, executor_spec.ExecutorClassSpec):
        yield f"an executor given as {type(spec).__name__}; give it as a class"
        return
    if spec.executor_class.__module__.startswith(_CLOUD_ONLY):
        yield (
            f"{spec.executor_class.__module__} starts jobs on Google Cloud's managed service; "
            "use components/trainer and components/pusher, which start them on Kubernetes"
        )


def _flat(items: list) -> Iterator[Any]:
    for item in items:
        yield from _flat(item.items) if hasattr(item, "items") else [item]


def _drivers(node: base_node.BaseNode, _: tfx_pipeline.Pipeline) -> Iterator[str]:
    driver = node.driver_class
    if driver is base_driver.BaseDriver or isinstance(node, importer.Importer | resolver.Resolver):
        return
    if not (isinstance(driver, type) and issubclass(driver, example_gen_driver.Driver)):
        yield (
            f"its driver {driver.__module__}.{driver.__qualname__} would never run: Kubeflow has no place for drivers. "
            "Only drivers that extend tfx.components.example_gen.driver.Driver are supported, by a step of their own"
        )


def _channels(node: base_node.BaseNode, pipeline: tfx_pipeline.Pipeline) -> Iterator[str]:
    if isinstance(node, resolver.Resolver):
        return
    ids = {component.id for component in pipeline.components}
    for key, value in node.inputs.items():
        if not isinstance(value, channel.Channel):
            yield f"input {key!r} is a {type(value).__name__}; Kubeflow takes the output of one step of this pipeline"
        elif not isinstance(value, channel.OutputChannel) or value.producer_component_id not in ids:
            yield f"input {key!r} has no producer in this pipeline; bring it in with an Importer"


def _control_flow(node: base_node.BaseNode, pipeline: tfx_pipeline.Pipeline) -> Iterator[str]:
    registry = pipeline.dsl_context_registry
    for context in registry.get_contexts(node):
        if isinstance(context, for_each.ForEachContext):
            yield "ForEach has no counterpart in TFX's IR; make one step per item in Python"
    predicates = conditional.get_predicates(node, registry)
    if predicates and isinstance(node, importer.Importer | resolver.Resolver):
        yield f"a {type(node).__name__} inside Cond always runs on Kubeflow; move it out of the Cond"
    nodes = {component.id: component for component in pipeline.components}
    for predicate in predicates:
        yield from _predicate_complaints(predicate, nodes)


def _predicate_complaints(predicate: placeholder.Predicate, nodes: dict[str, base_node.BaseNode]) -> Iterator[str]:
    for source in channel_utils.get_dependent_channels(predicate):
        if not isinstance(source, channel.OutputChannel):
            yield f"its Cond looks at a {type(source).__name__}; it can look at an output of a step of this pipeline"
            return
        producer = nodes.get(source.producer_component_id)
        if isinstance(producer, importer.Importer | resolver.Resolver):
            yield (
                f"its Cond looks at {producer.id!r}, and {type(producer).__name__}s tell Kubeflow no properties; "
                "let it look at a step that reads from there"
            )
            return
    encoded = channel_utils.encode_placeholder_with_channels(
        predicate, lambda source: f"_{getattr(source, 'output_key', '')}"
    )
    try:
        expression = compiler_utils.placeholder_to_cel(encoded)
    except (NotImplementedError, ValueError) as error:
        yield f"its Cond cannot be written as a Kubeflow condition ({error}); compare one property with one constant"
        return
    if ".uri" in expression:
        yield "its Cond compares a URI, which is different in every run; compare a property"
    if any(character in text for text in _texts(encoded) for character in "'\\\n"):
        yield "its Cond compares with text that holds a quote, a backslash or a line break; Kubeflow would misread it"
    if _TWO_PROPERTIES.search(expression):
        yield "its Cond compares two properties with each other; compare one property with one constant"
    if "Unknown" in expression:
        yield "its Cond uses an operator that TFX's IR lacks; use ==, <, >, and, or, not"


def _texts(message: Any) -> Iterator[str]:
    """Text constants anywhere in an encoded placeholder."""
    for field, value in message.ListFields():
        for item in value if field.is_repeated else [value]:
            if field.name == "string_value":
                yield item
            elif field.message_type is not None:
                yield from _texts(item)


def _is_dotted(key: str, value: Any) -> bool:
    """Whether a `module_path` is the dotted name of a module, which the image holds, and not a wheel made here."""
    return key == "module_path" and isinstance(value, str) and all(part.isidentifier() for part in value.split("."))


def _exec_properties(node: base_node.BaseNode, _: tfx_pipeline.Pipeline) -> Iterator[str]:
    if isinstance(node, importer.Importer | resolver.Resolver):
        return
    for key, value in node.exec_properties.items():
        if key in ("module_file", "module_path") and value and not _is_dotted(key, value):
            yield (
                f"{key}={value!r} is uploaded from this machine at compile time; "
                "name the function by its dotted path (run_fn=, preprocessing_fn=): the image holds the module"
            )
        if isinstance(value, placeholder.Placeholder):
            yield from _placeholder_complaints(key, value)
        elif isinstance(value, str) and "{{" in value:
            yield f"exec property {key!r} contains '{{{{', which Argo would take for a template"
        elif isinstance(value, data_types.RuntimeParameter) and value.ptype not in (int, float, str):
            yield f"runtime parameter {value.name!r} has the type {value.ptype}; Kubeflow takes int, float or str here"


def _placeholder_complaints(key: str, value: placeholder.Placeholder) -> Iterator[str]:
    try:
        source = channel_utils.unwrap_simple_channel_placeholder(value)
    except ValueError:
        yield f"exec property {key!r} is a placeholder expression; only `step.outputs[...].future()[0].value` works"
        return
    if source.type.TYPE_NAME not in ("String", "Integer", "Boolean"):
        yield f"exec property {key!r} takes the value of a {source.type.TYPE_NAME}; use a String, Integer or Boolean"


def _options(node: base_node.BaseNode, _: tfx_pipeline.Pipeline) -> Iterator[str]:
    options = node.node_execution_options
    if options is not None:
        if options.trigger_strategy not in (0, node_options.TriggerStrategy.ALL_UPSTREAM_NODES_SUCCEEDED):
            yield "its trigger strategy is not ALL_UPSTREAM_NODES_SUCCEEDED, the only one that Kubeflow's steps have"
        if options.success_optional:
            yield "success_optional: on Kubeflow a failed step always fails the run"
        if options.lifetime_start:
            yield "lifetime_start: resource lifetimes have no counterpart; use `outcome` of the Kubeflow config"
    arguments = getattr(node.executor_spec, "beam_pipeline_args", None) or []
    if any(isinstance(argument, placeholder.Placeholder) for argument in arguments):
        yield "Beam arguments with placeholders cannot be resolved; write them out"


_RULES: tuple[Callable[[base_node.BaseNode, tfx_pipeline.Pipeline], Iterator[str]], ...] = (
    _node_kinds,
    _resolvers,
    _executors,
    _drivers,
    _control_flow,
    _channels,
    _exec_properties,
    _options,
)
