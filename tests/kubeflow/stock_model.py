"""A run_fn as somebody would bring it who knows of TFX alone: the fare of a taxi trip from its miles and seconds."""

import tensorflow as tf
import tf_keras

FEATURES = ("trip_miles", "trip_seconds")
_SPEC = {
    "trip_miles": tf.io.FixedLenFeature([1], tf.float32, default_value=[0.0]),
    "trip_seconds": tf.io.FixedLenFeature([1], tf.int64, default_value=[0]),
    "fare": tf.io.FixedLenFeature([1], tf.float32, default_value=[0.0]),
}


def _features(serialized: tf.Tensor) -> dict[str, tf.Tensor]:
    parsed = tf.io.parse_example(serialized, _SPEC)
    return {"trip_miles": parsed["trip_miles"], "trip_seconds": tf.cast(parsed["trip_seconds"], tf.float32) / 600.0}


def run_fn(fn_args) -> None:
    """Trains two steps' worth and exports."""
    files = tf.io.gfile.glob(fn_args.train_files)
    records = tf.data.TFRecordDataset(files, compression_type="GZIP").repeat().batch(64)
    data = records.map(lambda batch: (_features(batch), tf.io.parse_example(batch, _SPEC)["fare"]))
    inputs = {name: tf_keras.Input([1], name=name) for name in FEATURES}
    model = tf_keras.Model(inputs, tf_keras.layers.Dense(1)(tf_keras.layers.Concatenate()(list(inputs.values()))))
    model.compile("adam", "mse")
    model.fit(data, steps_per_epoch=fn_args.train_steps, verbose=0)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="examples")])
    def serve(examples):
        return {"outputs": model(_features(examples))}

    model.save(fn_args.serving_model_dir, save_format="tf", signatures={"serving_default": serve})
