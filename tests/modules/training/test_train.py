"""The whole engine in one process: from transformed TFRecords to a checked serving model."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tf_keras import layers

from modules import training


def build_model(transform_output):
    size = transform_output.vocabulary_size_by_name("payment") + 1
    miles = tf_keras.Input((1,), name="miles_xf")
    payment = tf_keras.Input((1,), name="payment_xf", dtype="int64")
    embedded = layers.Flatten()(layers.Embedding(size, 4)(payment))
    hidden = layers.Dense(16, activation="relu")(layers.Concatenate()([miles, embedded]))
    output = layers.Dense(1, activation="sigmoid", dtype="float32", name="probabilities")(hidden)
    return tf_keras.Model({"miles_xf": miles, "payment_xf": payment}, {"probabilities": output})


def train(fn_args, **kwargs):
    return training.train(
        fn_args,
        build_model,
        label_key="tipped_xf",
        loss="binary_crossentropy",
        metrics={"auc": tf_keras.metrics.AUC},
        **kwargs,
    )


def test_trains_evaluates_and_exports_a_model_that_answers_from_raw_examples(fn_args, trips):
    result = train(fn_args, raw_examples=trips.raw)
    assert result.steps == 40
    assert result.metrics["auc"] > 0.9
    loaded = tf.saved_model.load(fn_args.serving_model_dir)
    assert sorted(loaded.signatures) == [
        "predict_features",
        "predict_transformed",
        "serving_default",
        "transform_features",
    ]
    golden = json.loads(Path(fn_args.serving_model_dir, "assets.extra/golden_predictions.json").read_text())
    examples = [base64.b64decode(text) for text in golden["examples_b64"]]
    answers = loaded.signatures["serving_default"](examples=tf.constant(examples))
    assert list(answers) == ["probabilities"]
    np.testing.assert_allclose(answers["probabilities"], golden["outputs"]["probabilities"], atol=golden["tolerance"])
    in_memory = result.model(  # the exported numbers are the trained model's own
        {k: v for k, v in loaded.signatures["transform_features"](tf.constant(examples)).items() if k != "tipped_xf"}
    )
    np.testing.assert_allclose(answers["probabilities"], in_memory["probabilities"], atol=1e-6)


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16"])
def test_lower_precision_learns_too_and_serves_float32(fn_args, precision):
    config = training.TrainingConfig(batch_size=32, learning_rate=0.01, precision=precision)
    result = train(fn_args, config=config)
    assert result.metrics["auc"] > 0.9
    assert {layer.compute_dtype for layer in result.model.layers} <= {"float32", "int64"}


def settings(**values):
    return training.TrainingConfig(batch_size=32, learning_rate=0.01, **values)


def weights(result):
    return result.model.get_weights()


def test_interrupted_training_ends_with_the_weights_of_an_uninterrupted_one(fn_args, trips, tmp_path):
    whole = train(fn_args, config=settings(steps=30))
    fn_args.model_run_dir = str(tmp_path / "second")
    train(fn_args, config=settings(steps=13))
    resumed = train(fn_args, config=settings(steps=30))
    assert resumed.resumed_at == 13
    for one, other in zip(weights(whole), weights(resumed), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_same_seed_same_weights_and_cache_only_changes_the_order(fn_args, tmp_path):
    fn_args.serving_model_dir = None
    results = []
    for number, config in enumerate([settings(steps=20), settings(steps=20), settings(steps=20, cache=True)]):
        fn_args.model_run_dir = str(tmp_path / str(number))
        results.append(train(fn_args, config=config))
    for one, other in zip(weights(results[0]), weights(results[1]), strict=True):
        np.testing.assert_array_equal(one, other)
    assert results[2].metrics["auc"] > 0.85


def test_recomputed_layers_give_the_same_weights(fn_args, tmp_path):
    fn_args.serving_model_dir = None
    plain = train(fn_args, config=settings(steps=10))
    fn_args.model_run_dir = str(tmp_path / "recomputed")
    again = train(fn_args, config=settings(steps=10, recompute_layers=("dense",)))
    for one, other in zip(weights(plain), weights(again), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_early_stopping_exports_the_best_weights(fn_args):
    config = settings(steps=400, eval_every=10, early_stopping_evals=2, early_stopping_min_delta=0.02, keep_best=True)
    result = train(fn_args, config=config.replace(best_metric="auc"))
    assert result.stopped_early
    assert result.steps < 400
    assert result.metrics["auc"] > 0.85


def test_warm_start_begins_where_the_base_model_ended(fn_args, tmp_path):
    first = train(fn_args, config=settings(steps=40))
    fn_args.base_model, fn_args.model_run_dir = fn_args.serving_model_dir, str(tmp_path / "second")
    fn_args.serving_model_dir = str(tmp_path / "second-model")
    second = train(fn_args, config=settings(steps=1))
    assert second.metrics["loss"] < first.metrics["loss"] + 0.05


def test_telemetry_reaches_tensorboard_and_the_text_file(fn_args, tmp_path):
    textfile = tmp_path / "training.prom"
    config = settings(steps=30, log_every=10, prometheus_textfile=str(textfile), profile_steps=(12, 14))
    train(fn_args, config=config)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(f"{fn_args.model_run_dir}/train", {"tensors": 0}).Reload()
    names = {"loss", "learning_rate", "loss_scale", "examples_per_s", "step_p50_s", "step_p95_s", "input_wait_share"}
    assert names | {"all_reduce_share"} <= set(events.Tags()["tensors"])
    assert [event.step for event in events.Tensors("loss")] == [10, 20, 30]
    assert list(Path(fn_args.model_run_dir).glob("train/plugins/profile/*/*.xplane.pb"))
    text = textfile.read_text()
    assert 'sluice_training_step{task="worker-0"} 30.0' in text
    assert 'sluice_training_evaluation{metric="auc",task="worker-0"}' in text


def test_tfma_evaluates_the_exported_model_from_raw_examples(fn_args, trips, tmp_path):
    import tensorflow_model_analysis as tfma
    from google.protobuf import text_format
    from tensorflow_model_analysis.proto import config_pb2

    train(fn_args)
    config = text_format.Parse(
        """
        model_specs { signature_name: "serving_default" prediction_key: "probabilities" label_key: "tipped_xf"
                      preprocessing_function_names: "transform_features" }
        slicing_specs {}
        metrics_specs { metrics { class_name: "AUC" } metrics { class_name: "ExampleCount" } }
        """,
        config_pb2.EvalConfig(),
    )
    raw = tmp_path / "raw.tfrecord"
    records = [r.numpy() for r in tf.data.TFRecordDataset(tf.io.gfile.glob(trips.raw[0]), "GZIP")]
    with tf.io.TFRecordWriter(str(raw)) as writer:
        for record in records:
            writer.write(record)
    model = tfma.default_eval_shared_model(fn_args.serving_model_dir, tags=["serve"], eval_config=config)
    result = tfma.run_model_analysis(
        eval_shared_model=model, eval_config=config, data_location=str(raw), output_path=str(tmp_path / "tfma")
    )
    metrics = result.get_metrics_for_all_slices()[()]
    assert metrics["example_count"]["doubleValue"] == len(records)
    assert metrics["auc"]["doubleValue"] > 0.9


def test_damaged_data_is_named_before_the_first_step(fn_args, trips, tmp_path):
    path = tmp_path / "train-0.gz"
    whole = Path(tf.io.gfile.glob(trips.train[0])[0]).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    fn_args.train_files = [str(path)]
    with pytest.raises(training.TrainingDataError, match=r"train-0.gz: record \d+ at uncompressed byte \d+ is damaged"):
        train(fn_args)


def test_checkpoints_by_the_clock_only_the_last_ones_kept_and_evaluation_in_batches_of_its_own(fn_args, tmp_path):
    fn_args.serving_model_dir = None
    by_clock = {"checkpoint_every_minutes": 1e-9, "steps_per_loop": 2, "max_to_keep": 2}
    result = train(fn_args, config=settings(steps=10, eval_batch_size=7, **by_clock))
    kept = sorted(path.name for path in Path(fn_args.model_run_dir, "checkpoints").iterdir())
    assert kept == ["step-000000008", "step-000000010"]
    fn_args.model_run_dir = str(tmp_path / "second")
    plain = train(fn_args, config=settings(steps=10))
    assert result.metrics == pytest.approx(plain.metrics, abs=1e-5)
    assert len(list(Path(fn_args.model_run_dir, "checkpoints").iterdir())) == 1


def infinite(labels, outputs):
    return outputs[:, 0] * float("inf")


def test_float16_gives_up_after_too_many_skipped_steps_and_float32_goes_on_without_its_guard(fn_args):
    fn_args.serving_model_dir, fn_args.model_run_dir = None, None
    endless = settings(steps=1000, steps_per_loop=1, precision="mixed_float16", max_skipped_steps=3)
    with pytest.raises(training.NonFiniteError, match=r"3 float16 steps in a row .* loss scale is down to 4096"):
        training.train(fn_args, build_model, label_key="tipped_xf", loss=infinite, config=endless)
    unguarded = settings(steps=3, nan_guard=False)
    assert training.train(fn_args, build_model, label_key="tipped_xf", loss=infinite, config=unguarded).steps == 3


def test_folders_that_cannot_be_written_are_named_and_leave_nothing(fn_args, tmp_path):
    (tmp_path / "file").write_text("in the way")
    good, fn_args.model_run_dir = fn_args.model_run_dir, str(tmp_path / "file" / "run")
    with pytest.raises(training.TrainingError, match=r"cannot write to .*file/run"):
        train(fn_args, config=settings(steps=2))
    fn_args.model_run_dir, fn_args.serving_model_dir = good, str(tmp_path / "file" / "Format-Serving")
    with pytest.raises(training.TrainingError, match=r"cannot write to .*file"):
        train(fn_args, config=settings(steps=2))
    Path(good, "checkpoints").write_text("in the way")
    fn_args.serving_model_dir = None
    with pytest.raises(training.TrainingError, match=r"cannot write to .*run/checkpoints"):
        train(fn_args, config=settings(steps=2))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"best_metric": "acu"}, "best_metric 'acu' is not evaluated; there are loss, auc"),
        ({"eval_every": 1}, "eval_every needs evaluation data, and there is none"),
    ],
)
def test_what_the_evaluation_cannot_give_is_refused_before_the_first_step(fn_args, values, message):
    if "best_metric" not in values:
        fn_args.eval_files = []
    with pytest.raises(training.TrainingConfigError, match=message):
        train(fn_args, config=settings(steps=2, checkpoint_every_steps=1, **values))
    assert not list(Path(fn_args.model_run_dir, "checkpoints").glob("*"))


def test_half_precision_outputs_are_refused_with_the_layer_to_change(fn_args):
    def build():
        inputs = {"miles_xf": tf_keras.Input((1,), name="miles_xf")}
        return tf_keras.Model(inputs, layers.Dense(1, name="answer")(inputs["miles_xf"]))

    with pytest.raises(training.TrainingConfigError, match="output 'answer' is bfloat16; give its last layer dtype="):
        training.train(
            fn_args, build, label_key="tipped_xf", loss="mse", config=settings(steps=1, precision="mixed_bfloat16")
        )


class Doubled(layers.Layer):
    """A user's layer with control flow that depends on a tensor: AutoGraph has to see it."""

    def call(self, inputs):
        if tf.reduce_sum(inputs) > -1e9:
            inputs = inputs * 2.0
        return inputs


def test_python_control_flow_in_what_users_write_becomes_a_graph(fn_args):
    def build():
        miles = tf_keras.Input((1,), name="miles_xf")
        answer = layers.Dense(1, dtype="float32")(Doubled()(miles))
        return tf_keras.Model({"miles_xf": miles, "payment_xf": tf_keras.Input((1,), name="payment_xf")}, answer)

    def loss(labels, outputs):
        total = tf.zeros([tf.shape(outputs)[0]])
        for _ in tf.range(2):
            total += tf.square(outputs[:, 0] - tf.cast(labels[:, 0], tf.float32))
        return total

    def features_fn(features, seeds):
        if tf.size(features["miles_xf"]) > 0:
            features = {**features, "miles_xf": features["miles_xf"] / 2.0}
        return features

    def outputs_fn(outputs):
        if tf.reduce_sum(outputs) > -1e9:
            outputs = outputs + 1000.0
        return {"answer": outputs}

    for number, jit_compile in enumerate((False, True)):
        config = settings(steps=3, jit_compile=jit_compile, drop_remainder=True)
        fn_args.model_run_dir += str(number)
        result = training.train(
            fn_args,
            build,
            label_key="tipped_xf",
            loss=loss,
            features_fn=features_fn,
            outputs_fn=outputs_fn,
            config=config,
        )
        golden = json.loads(Path(fn_args.serving_model_dir, "assets.extra/golden_predictions.json").read_text())
        assert result.steps == 3
        assert min(golden["outputs"]["answer"])[0] > 900
