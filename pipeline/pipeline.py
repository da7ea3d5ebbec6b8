"""The pipeline: which steps there are and what each reads from the others. Wiring only."""

import dataclasses
import os
from typing import cast

from tfx.components import ExampleValidator, SchemaGen, StatisticsGen, Transform
from tfx.components.schema_gen.import_schema_gen.component import ImportSchemaGen
from tfx.dsl.components.base import base_beam_component, base_component, base_node, executor_spec
from tfx.orchestration import metadata
from tfx.orchestration import pipeline as tfx_pipeline
from tfx.proto import trainer_pb2

from components.baseline_resolver import baseline_resolver
from components.data_gate.baseline import baseline_statistics_resolver
from components.data_gate.component import DataGate
from components.data_gate.config import GatePolicy
from components.evaluator.component import Evaluator
from components.example_gen.component import ExampleGen
from components.example_gen.config import IngestConfig
from components.model_registry.component import ModelRegistrar
from components.prepare.component import Prepare
from components.pusher.component import Pusher
from components.pusher.config import PushTarget
from components.trainer.cluster_config import ClusterConfig
from components.trainer.component import Trainer
from pipeline import beam_options, engine_settings
from pipeline.config import PipelineConfig
from pipeline.eval_config import build_eval_config
from pipeline.fingerprint import code_fingerprint


def create_pipeline(config: PipelineConfig, cluster: ClusterConfig | None = None) -> tfx_pipeline.Pipeline:
    """The TFX pipeline of one workload.

    Args:
      config: paths, workload and options.
      cluster: where the Trainer's workers run; None means processes on this machine.

    Raises:
      ConfigError: or another error with an `exit_code`, for settings that cannot be right.
    """
    workload = config.workload
    nodes: list[base_node.BaseNode] = []

    ingest = {"schema_file": config.schema_file or "", **workload.ingest}
    examples = ExampleGen(
        input_base=config.data, config=IngestConfig.from_dict(ingest, f"workload {workload.name}: ingest")
    ).with_id("ExampleGen")
    statistics, schema = _statistics_and_schema(config, examples)
    validator = ExampleValidator(statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"])
    last_blessed = (
        baseline_statistics_resolver(statistics.outputs["statistics"])
        if config.compare_with_last_blessed_data
        else None
    )
    gate = DataGate(
        statistics=statistics.outputs["statistics"],
        schema=schema.outputs["schema"],
        anomalies=validator.outputs["anomalies"],
        examples=examples.outputs["examples"],
        ingestion_report=examples.outputs["report"],
        baseline_statistics=last_blessed.outputs["statistics"] if last_blessed else None,
        registry="" if last_blessed else config.registry_dir,
        model_name=workload.name,
        policy=GatePolicy.from_dict(
            {"schema_file": config.schema_file or "schema.pbtxt", **workload.gate}, f"workload {workload.name}: gate"
        ),
    ).with_id("DataGate")
    nodes += [examples, statistics, schema, validator, *([last_blessed] if last_blessed else []), gate]

    transform = None
    if workload.transform:
        transform = Transform(
            examples=examples.outputs["examples"],
            schema=schema.outputs["schema"],
            preprocessing_fn=workload.transform.preprocessing_fn,
            disable_statistics=True,  # the gate has judged the raw data; these would double the step's time
            disable_analyzer_cache=True,  # nothing reads it: the next run has other data or reuses this step whole
        )
        nodes.append(transform)
    records = transform.outputs["transformed_examples"] if transform else examples.outputs["examples"]
    if workload.prepare:
        prepare = Prepare(
            prepare_fn=workload.prepare.prepare_fn,
            settings=workload.prepare.settings,
            examples=examples.outputs["examples"],
            schema=schema.outputs["schema"],
        ).with_id("Prepare")
        records = prepare.outputs["prepared_examples"]
        nodes.append(prepare)
    trainer = _trainer(config, cluster, records, schema, transform)
    baseline = baseline_resolver(trainer.outputs["model"])
    evaluator = Evaluator(
        examples=examples.outputs["examples"],
        model=trainer.outputs["model"],
        baseline_model=baseline.outputs["model"],
        eval_config=build_eval_config(workload.evaluate),
        example_splits=["eval"],
        schema=schema.outputs["schema"],
    )
    pusher = Pusher(
        model=trainer.outputs["model"],
        model_blessing=evaluator.outputs["blessing"],
        target=PushTarget.from_dict(
            {"base": os.path.dirname(config.serving_dir), "name": workload.name, **workload.push},
            f"workload {workload.name}: push",
        ),
    ).with_id("Pusher")
    registrar = ModelRegistrar(
        model=trainer.outputs["model"],
        model_blessing=evaluator.outputs["blessing"],
        pushed_model=pusher.outputs["pushed_model"],
        evaluation=evaluator.outputs["evaluation"],
        examples=examples.outputs["examples"],
        schema=schema.outputs["schema"],
        statistics=statistics.outputs["statistics"],
        registry=config.registry_dir,
        name=workload.name,
        code_fingerprint=code_fingerprint(workload.train.run_fn),
    ).with_id("ModelRegistrar")
    nodes += [trainer, baseline, evaluator, pusher, registrar]

    # Nothing reads or learns from data that the gate has not let through.
    for node in nodes[nodes.index(gate) + 1 :]:
        node.add_upstream_node(gate)
    _set_beam_args(config, nodes)
    return tfx_pipeline.Pipeline(
        pipeline_name=workload.name,
        pipeline_root=config.pipeline_root,
        components=nodes,
        enable_cache=config.enable_cache,
        metadata_connection_config=metadata.sqlite_metadata_connection_config(config.metadata_path),
    )


def _statistics_and_schema(config: PipelineConfig, examples: base_component.BaseComponent) -> tuple:
    """With a curated schema the statistics know which integers are categories; without one it is inferred from them."""
    if config.schema_file:
        schema = ImportSchemaGen(schema_file=config.schema_file).with_id("SchemaGen")
        return StatisticsGen(examples=examples.outputs["examples"], schema=schema.outputs["schema"]), schema
    statistics = StatisticsGen(examples=examples.outputs["examples"])
    return statistics, SchemaGen(statistics=statistics.outputs["statistics"])


def _trainer(config: PipelineConfig, cluster: ClusterConfig | None, records, schema, transform) -> Trainer:
    train = config.workload.train
    engine = {"precision": train.precision, **train.engine}
    engine_settings.check(train.run_fn, engine, f"workload {config.workload.name}: train.engine")
    return Trainer(
        run_fn=train.run_fn,
        examples=records,
        transform_graph=transform.outputs["transform_graph"] if transform else None,
        schema=schema.outputs["schema"],
        train_args=trainer_pb2.TrainArgs(splits=["train"], num_steps=train.train_steps),
        eval_args=trainer_pb2.EvalArgs(splits=["eval"], num_steps=train.eval_steps),
        custom_config={"training": engine, **({"model": train.model} if train.model else {})},
        cluster=dataclasses.replace(cluster or ClusterConfig(), num_workers=train.num_workers),
    ).with_id("Trainer")


def _set_beam_args(config: PipelineConfig, nodes: list[base_node.BaseNode]) -> None:
    """Gives every Beam step the options that the configuration has for it, or those for all, or this machine's."""
    beam_nodes = {node.id: node for node in nodes if isinstance(node, base_beam_component.BaseBeamComponent)}
    configured = beam_options.for_steps(config.beam, list(beam_nodes))
    for step, node in beam_nodes.items():
        # ExampleGen's own configuration may have set some already.
        spec = cast(executor_spec.BeamExecutorSpec, node.executor_spec)
        own = spec.beam_pipeline_args
        if own and step not in config.beam:
            spec.beam_pipeline_args = beam_options.complete(own)
        else:
            spec.beam_pipeline_args = configured.get(step, beam_options.complete([]))
