"""A run_fn as a TFX user writes it who has never heard of this project: tf.distribute, Keras, model.save."""

import os

import tensorflow as tf


def _dataset(patterns, batch_size):
    files = tf.data.Dataset.list_files(patterns, shuffle=False)
    features = {"x": tf.io.FixedLenFeature([4], tf.float32), "y": tf.io.FixedLenFeature([1], tf.float32)}

    def parse(record):
        example = tf.io.parse_single_example(record, features)
        return example["x"], example["y"]

    dataset = tf.data.TFRecordDataset(files, compression_type="GZIP").map(parse).repeat().batch(batch_size)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)


def run_fn(fn_args):
    strategy = (
        tf.distribute.MultiWorkerMirroredStrategy() if "TF_CONFIG" in os.environ else tf.distribute.get_strategy()
    )
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
        model.compile(loss="mse", optimizer=tf.keras.optimizers.SGD(0.01))
    model.fit(_dataset(fn_args.train_files, 16), epochs=1, steps_per_epoch=fn_args.train_steps, verbose=2)
    model.evaluate(_dataset(fn_args.eval_files, 16), steps=fn_args.eval_steps, verbose=2)
    print(f"replicas: {strategy.num_replicas_in_sync}, custom_config: {fn_args.custom_config}")
    model.save(fn_args.serving_model_dir, save_format="tf")
