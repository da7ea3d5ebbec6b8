"""The peer: the taxi pipeline as one writes it from stock TFX components; model, steps, splits and bounds are ours.

    python benchmarks/stock_taxi.py DATA_DIR WORK_DIR TRAIN_STEPS BATCH_SIZE   prints one JSON object: seconds per step

It is written the way TFX's guide shows: CsvExampleGen, statistics and schema inferred, Transform with its statistics,
a run_fn around Keras fit on one process, Evaluator against the latest blessed model, Pusher into a folder.
"""

import json
import os
import sys
import time

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf
import tensorflow_model_analysis as tfma  # noqa: F401
import tensorflow_transform as tft
import tf_keras as keras
from tfx import v1 as tfx
from tfx.orchestration.portable import launcher
from tfx_bsl.public import tfxio

from modules.taxi.features import LABEL_KEY, transformed
from modules.taxi.model import build_model, num_categories
from pipeline.beam_options import LOCAL_BEAM_RUNNER
from pipeline.config import load_workload
from pipeline.eval_config import build_eval_config

PREPROCESSING_FN = "modules.taxi.preprocessing.preprocessing_fn"
LABEL = transformed(LABEL_KEY)


def run_fn(fn_args) -> None:
    """A run_fn as the TFX guide writes it."""
    transform_output = tft.TFTransformOutput(fn_args.transform_output)
    batch_size = fn_args.custom_config["batch_size"]

    def dataset(files):
        options = tfxio.TensorFlowDatasetOptions(batch_size=batch_size, label_key=LABEL)
        return fn_args.data_accessor.tf_dataset_factory(
            files, options, transform_output.transformed_metadata.schema
        ).repeat()

    model = build_model(num_categories(transform_output))
    model.compile(
        keras.optimizers.Adam(fn_args.custom_config["learning_rate"]),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(), keras.metrics.BinaryAccuracy()],
    )
    model.fit(
        dataset(fn_args.train_files),
        steps_per_epoch=fn_args.train_steps,
        validation_data=dataset(fn_args.eval_files),
        validation_steps=fn_args.eval_steps,
        verbose=2,
    )
    model.tft_layer = transform_output.transform_features_layer()
    raw_spec = transform_output.raw_feature_spec()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(examples):
        spec = {name: feature for name, feature in raw_spec.items() if name != "tips"}
        transformed_features = model.tft_layer(tf.io.parse_example(examples, spec))
        return {"probabilities": model(transformed_features)["probabilities"]}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def transform_features(examples):
        return model.tft_layer(tf.io.parse_example(examples, raw_spec))

    model.save(
        fn_args.serving_model_dir,
        save_format="tf",
        signatures={"serving_default": serve, "transform_features": transform_features},
    )


def create_pipeline(data: str, work: str, train_steps: int, batch_size: int) -> tfx.dsl.Pipeline:
    """The stock pipeline over the CSVs in `data`, writing everything below `work`."""
    workload, _ = load_workload("taxi")
    examples = tfx.components.CsvExampleGen(input_base=data)
    statistics = tfx.components.StatisticsGen(examples=examples.outputs["examples"])
    schema = tfx.components.SchemaGen(statistics=statistics.outputs["statistics"], infer_feature_shape=False)
    validator = tfx.components.ExampleValidator(
        statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"]
    )
    transform = tfx.components.Transform(
        examples=examples.outputs["examples"], schema=schema.outputs["schema"], preprocessing_fn=PREPROCESSING_FN
    )
    trainer = tfx.components.Trainer(
        run_fn="stock_taxi.run_fn",
        examples=transform.outputs["transformed_examples"],
        transform_graph=transform.outputs["transform_graph"],
        schema=schema.outputs["schema"],
        train_args=tfx.proto.TrainArgs(num_steps=train_steps),
        eval_args=tfx.proto.EvalArgs(num_steps=20),
        custom_config={"batch_size": batch_size, "learning_rate": workload.train.engine["learning_rate"]},
    )
    resolver = tfx.dsl.Resolver(
        strategy_class=tfx.dsl.experimental.LatestBlessedModelStrategy,
        model=tfx.dsl.Channel(type=tfx.types.standard_artifacts.Model),
        model_blessing=tfx.dsl.Channel(type=tfx.types.standard_artifacts.ModelBlessing),
    ).with_id("latest_blessed_model_resolver")
    evaluator = tfx.components.Evaluator(
        examples=examples.outputs["examples"],
        model=trainer.outputs["model"],
        baseline_model=resolver.outputs["model"],
        eval_config=build_eval_config(workload.evaluate, model_type=""),
    )
    pusher = tfx.components.Pusher(
        model=trainer.outputs["model"],
        model_blessing=evaluator.outputs["blessing"],
        push_destination=tfx.proto.PushDestination(
            filesystem=tfx.proto.PushDestination.Filesystem(base_directory=f"{work}/serving")
        ),
    )
    return tfx.dsl.Pipeline(
        pipeline_name="stock",
        pipeline_root=f"{work}/pipeline",
        components=[examples, statistics, schema, validator, transform, trainer, resolver, evaluator, pusher],
        metadata_connection_config=tfx.orchestration.metadata.sqlite_metadata_connection_config(f"{work}/ml.sqlite"),
        beam_pipeline_args=[f"--runner={LOCAL_BEAM_RUNNER}"],
    )


def main() -> None:
    data, work, train_steps, batch_size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    seconds: dict[str, float] = {}
    launch = launcher.Launcher.launch

    def timed(self):
        start = time.monotonic()
        try:
            return launch(self)
        finally:
            seconds[self._pipeline_node.node_info.id] = round(time.monotonic() - start, 2)

    launcher.Launcher.launch = timed
    tfx.orchestration.LocalDagRunner().run(create_pipeline(data, work, train_steps, batch_size))
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
