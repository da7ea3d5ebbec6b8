"""Pipelines to compile. `stock` is made of TFX's own components only, as somebody would bring it along."""

from tensorflow_model_analysis.proto import config_pb2
from tfx import v1 as tfx
from tfx.dsl.experimental.conditionals import conditional

from components.trainer.cluster_config import ClusterConfig
from components.trainer.component import Trainer

Model = tfx.types.standard_artifacts.Model
ModelBlessing = tfx.types.standard_artifacts.ModelBlessing


@tfx.dsl.components.component
def count_rows(
    examples: tfx.dsl.components.InputArtifact[tfx.types.standard_artifacts.Examples],
) -> tfx.dsl.components.OutputDict(rows=int):
    """A function component with a value that another step takes as a parameter."""
    return {"rows": len(examples.uri)}


@tfx.dsl.components.component
def announce(rows: tfx.dsl.components.Parameter[int], greeting: tfx.dsl.components.Parameter[str] = "hello") -> None:
    """A function component that takes such a value."""
    print(greeting, rows)


def pipeline(components: list, name: str = "sample", **values) -> tfx.dsl.Pipeline:
    """A cached pipeline."""
    values.setdefault("enable_cache", True)
    return tfx.dsl.Pipeline(pipeline_name=name, pipeline_root="unused", components=components, **values)


def gen(data: str = "/mnt/data/taxi") -> tfx.components.CsvExampleGen:
    """Stock ingestion."""
    return tfx.components.CsvExampleGen(input_base=data)


def resolver() -> tfx.dsl.Resolver:
    """Stock resolver of the latest blessed model."""
    return tfx.dsl.Resolver(
        strategy_class=tfx.dsl.experimental.LatestBlessedModelStrategy,
        model=tfx.dsl.Channel(type=Model),
        model_blessing=tfx.dsl.Channel(type=ModelBlessing),
    ).with_id("latest_blessed_model_resolver")


def stock(data: str = "/mnt/data/taxi", serving: str = "/mnt/sluice/serving") -> tfx.dsl.Pipeline:
    """Resolver, condition, runtime parameter, value, schema, Beam arguments: most of what the compiler rewrites."""
    examples = gen(data)
    statistics = tfx.components.StatisticsGen(examples=examples.outputs["examples"])
    schema = tfx.components.SchemaGen(
        statistics=statistics.outputs["statistics"],
        infer_feature_shape=tfx.dsl.experimental.RuntimeParameter(name="infer_shape", ptype=int, default=1),
    )
    trainer = tfx.components.Trainer(
        run_fn="someones.model.run_fn",
        examples=examples.outputs["examples"],
        schema=schema.outputs["schema"],
        train_args=tfx.proto.TrainArgs(num_steps=20),
        eval_args=tfx.proto.EvalArgs(num_steps=5),
        custom_config={"learning_rate": 0.1},
    )
    latest = resolver()
    evaluator = tfx.components.Evaluator(
        examples=examples.outputs["examples"],
        model=trainer.outputs["model"],
        baseline_model=latest.outputs["model"],
        eval_config=config_pb2.EvalConfig(),
    )
    rows = count_rows(examples=examples.outputs["examples"])
    said = announce(rows=rows.outputs["rows"].future()[0].value)
    with conditional.Cond(evaluator.outputs["blessing"].future()[0].custom_property("blessed") == 1):
        pusher = tfx.components.Pusher(
            model=trainer.outputs["model"],
            push_destination=tfx.proto.PushDestination(
                filesystem=tfx.proto.PushDestination.Filesystem(base_directory=serving)
            ),
        )
    nodes = [examples, statistics, schema, trainer, latest, evaluator, rows, said, pusher]
    return pipeline(nodes, "stock", beam_pipeline_args=["--direct_num_workers=1"])


def digits() -> tfx.dsl.Pipeline:
    """Image-like: imported TFRecords, no Transform, a distributed Trainer, resources of its own."""
    imported = tfx.dsl.Importer(
        source_uri="s3://bucket/digits", artifact_type=tfx.types.standard_artifacts.Examples, properties={"span": 3}
    ).with_id("Digits")
    trainer = Trainer(
        run_fn="modules.images.model.run_fn",
        examples=imported.outputs["result"],
        train_args=tfx.proto.TrainArgs(num_steps=100),
        eval_args=tfx.proto.EvalArgs(num_steps=10),
        cluster=ClusterConfig(num_workers=2),
    )
    return pipeline([imported, trainer], "digits")
