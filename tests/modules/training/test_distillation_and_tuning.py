"""A student learns from a teacher alone; a search by TFX's Tuner finds the learning rate that works."""

import json
from pathlib import Path

import keras_tuner
import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tf_keras import layers
from tfx.components.tuner import executor as tuner_executor  # noqa: F401 - proves that the step can be imported

from modules import training
from modules.training.distillation import Teacher
from modules.training.trial_process import run_in_process
from modules.training.tuning import tuner_fn_result


def build(units):
    miles = tf_keras.Input((1,), name="miles_xf")
    payment = tf_keras.Input((1,), name="payment_xf", dtype="int64")
    embedded = layers.Flatten()(layers.Embedding(4, 4)(payment))
    hidden = layers.Dense(units, activation="relu")(layers.Concatenate()([miles, embedded]))
    output = layers.Dense(1, activation="sigmoid", dtype="float32", name="probabilities")(hidden)
    return tf_keras.Model({"miles_xf": miles, "payment_xf": payment}, {"probabilities": output})


def train(fn_args, units=16, **settings):
    config = training.TrainingConfig(**{"batch_size": 32, "learning_rate": 0.01, "steps": 40, **settings})
    return training.train(
        fn_args,
        lambda: build(units),
        label_key="tipped_xf",
        loss="binary_crossentropy",
        metrics={"auc": tf_keras.metrics.AUC},
        config=config,
    )


def test_a_student_learns_from_the_teacher_alone(fn_args, tmp_path):
    train(fn_args)
    teacher = fn_args.serving_model_dir
    fn_args.model_run_dir, fn_args.serving_model_dir = str(tmp_path / "student"), None
    student = train(fn_args, units=4, steps=150, teacher=teacher, teacher_weight=1.0, cache=True)
    assert student.metrics["auc"] > 0.85


def test_softened_loss_is_the_labels_loss_where_teacher_and_labels_agree(fn_args):
    train(fn_args)
    teacher = Teacher(fn_args.serving_model_dir, 0.5, 1.0, from_logits=False)
    labels = tf.constant([[1.0], [0.0]])
    outputs = tf.constant([[0.8], [0.4]])
    hard = tf_keras.losses.binary_crossentropy(labels, outputs)
    both = teacher.loss(tf_keras.losses.binary_crossentropy)({"label": labels, "teacher": labels}, outputs)
    np.testing.assert_allclose(both, hard, atol=1e-4)


def test_a_teacher_that_is_none_is_refused(fn_args, tmp_path):
    with pytest.raises(training.TrainingConfigError, match="is not a SavedModel of this engine"):
        train(fn_args, teacher=str(tmp_path))


def test_a_search_prefers_the_learning_rate_that_learns(fn_args, tmp_path):
    fn_args.working_dir = str(tmp_path / "tuner")
    space = keras_tuner.HyperParameters()
    space.Choice("learning_rate", [1e-6, 0.02])

    def run_trial(trial_args, hyperparameters):
        return train(trial_args, steps=25, learning_rate=hyperparameters["learning_rate"])

    result = tuner_fn_result(
        fn_args, run_trial, space=space, objective="auc", maximise=True, max_trials=2, algorithm="random"
    )
    result.tuner.search(**result.fit_kwargs)
    best = result.tuner.get_best_hyperparameters()[0]
    assert best["learning_rate"] == 0.02
    assert json.dumps(best.get_config())  # what TFX writes for the Trainer


def test_two_processes_find_the_better_setting_together(fn_args, tmp_path, monkeypatch, capfd):
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "programs"))
    from trials import run_trial

    fn_args.working_dir = str(tmp_path / "tuner")
    fn_args.custom_config = {"meeting": str(tmp_path)}
    space = keras_tuner.HyperParameters()
    space.Choice("learning_rate", [1e-6, 0.02, -1.0])
    result = tuner_fn_result(
        fn_args,
        run_trial,
        space=space,
        max_trials=3,
        parallel_trials=2,
        algorithm="random",
    )
    result.tuner.search(**result.fit_kwargs)
    assert result.tuner.get_best_hyperparameters()[0]["learning_rate"] == 0.02
    assert "failed: modules.training.errors.TrainingConfigError: learning_rate is -1.0" in capfd.readouterr().err
    assert len(list(tmp_path.glob("here-*"))) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithm": "grid"}, "algorithm is 'grid'; expected bayesian or random"),
        ({"max_trials": 0}, "max_trials is 0; expected a whole number above 0"),
        ({"parallel_trials": "4"}, "parallel_trials is '4'; expected a whole number above 0"),
    ],
)
def test_what_a_search_cannot_be_is_refused(settings, message):
    with pytest.raises(training.TrainingConfigError, match=message):
        tuner_fn_result(None, train, space=keras_tuner.HyperParameters(), **settings)


def test_a_trial_that_no_other_process_can_import_is_refused(fn_args):
    with pytest.raises(training.TrainingConfigError, match="which another process cannot import"):
        run_in_process(lambda fn_args, hyperparameters: None, fn_args, {}, None)
