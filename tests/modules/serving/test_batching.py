"""Batches: which requests run together, and what happens to those that cannot."""

import concurrent.futures
import threading

import numpy as np
import pytest
import tensorflow as tf

from modules.serving.batching import Batcher
from modules.serving.batching_file import BatchingConfig
from modules.serving.saved_model import Signature, TensorSpec
from modules.serving.status import Code, ServingError

X = TensorSpec("x:0", tf.float32, (-1, -1))
SIGNATURE = Signature("serving_default", {"x": X}, {"y": X})
NEVER_MICROS = 3_600_000_000


class Doubler:
    """A model that doubles its input, records the batches it saw, and runs only while its gate is open."""

    def __init__(self):
        self.batches = []
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)

    def __call__(self, signature, inputs, outputs):
        self.batches.append(inputs["x"].copy())
        self.entered.release()
        assert self.gate.wait(60)
        if (inputs["x"] < 0).any():
            raise ServingError(Code.INVALID_ARGUMENT, "negative")
        return {"y": inputs["x"] * 2}


@pytest.fixture
def model():
    return Doubler()


@pytest.fixture
def batcher(model):
    opened = []

    def make(**settings):
        opened.append(Batcher(model, BatchingConfig(**settings)))
        return opened[-1]

    yield make
    model.gate.set()
    for one in opened:
        one.close()


def rows(*values, width=1):
    return {"x": np.array([[value] * width for value in values], np.float32)}


def ask_all(batcher, requests):
    """Send requests at the same time; answers or errors, in order."""
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        futures = [pool.submit(batcher.run, SIGNATURE, request) for request in requests]
        return [future.exception() or future.result()["y"] for future in futures]


def test_a_full_batch_runs_without_waiting_for_the_timeout(model, batcher):
    answers = ask_all(batcher(max_batch_size=4, batch_timeout_micros=NEVER_MICROS), [rows(i) for i in range(4)])
    assert [answer.tolist() for answer in answers] == [[[0.0]], [[2.0]], [[4.0]], [[6.0]]]
    assert [len(batch) for batch in model.batches] == [4]


def test_a_partial_batch_runs_after_the_timeout_padded_to_an_allowed_size(model, batcher):
    with_padding = batcher(max_batch_size=8, allowed_batch_sizes=(2, 4, 8), batch_timeout_micros=1000)
    answer = with_padding.run(SIGNATURE, rows(1, 2, 3))["y"]
    assert answer.tolist() == [[2.0], [4.0], [6.0]]
    assert model.batches[0].tolist() == [[1.0], [2.0], [3.0], [1.0]], "padded with copies of row 0"


def test_requests_gather_while_the_threads_are_busy(model, batcher):
    one_thread = batcher(max_batch_size=8, num_batch_threads=1, batch_timeout_micros=0)
    model.gate.clear()
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        first = pool.submit(one_thread.run, SIGNATURE, rows(1))
        model.entered.acquire()
        others = [pool.submit(one_thread.run, SIGNATURE, rows(i)) for i in range(2, 6)]
        queued(one_thread, 4)
        model.gate.set()
        assert [future.result()["y"][0, 0] for future in (first, *others)] == [2, 4, 6, 8, 10]
    assert [len(batch) for batch in model.batches] == [1, 4]


def queued(batcher, num_rows):
    """Wait until the queues hold `num_rows` rows."""
    while True:
        with batcher._changed:
            if sum(queue.rows for queue in batcher._queues.values()) == num_rows:
                return
        threading.Event().wait(0.005)


def test_a_bad_request_fails_alone(model, batcher):
    answers = ask_all(batcher(max_batch_size=3, batch_timeout_micros=NEVER_MICROS), [rows(1), rows(-1), rows(3)])
    assert isinstance(answers[1], ServingError)
    assert answers[1].code is Code.INVALID_ARGUMENT
    assert (answers[0].tolist(), answers[2].tolist()) == ([[2.0]], [[6.0]])


def test_a_batch_that_ran_out_of_time_is_not_run_again():
    runs = []

    def slow(signature, inputs, outputs):
        runs.append(len(inputs["x"]))
        raise ServingError(Code.DEADLINE_EXCEEDED, "too slow")

    batcher = Batcher(slow, BatchingConfig(max_batch_size=3, batch_timeout_micros=NEVER_MICROS))
    try:
        answers = ask_all(batcher, [rows(1), rows(2), rows(3)])
    finally:
        batcher.close()
    assert [answer.code for answer in answers] == [Code.DEADLINE_EXCEEDED] * 3
    assert runs == [3]


def test_requests_of_different_shapes_never_share_a_batch(model, batcher):
    answers = ask_all(batcher(max_batch_size=2, batch_timeout_micros=1000), [rows(1), rows(2, width=3)])
    assert [answer.shape for answer in answers] == [(1, 1), (1, 3)]


def test_a_large_request_is_refused_or_split(model, batcher):
    with pytest.raises(ServingError, match="Task size 5 is larger than maximum input batch size 2"):
        batcher(max_batch_size=2).run(SIGNATURE, rows(1, 2, 3, 4, 5))
    splitting = batcher(max_batch_size=2, enable_large_batch_splitting=True, allowed_batch_sizes=(2,))
    assert splitting.run(SIGNATURE, rows(1, 2, 3, 4, 5))["y"].ravel().tolist() == [2, 4, 6, 8, 10]
    assert {len(batch) for batch in model.batches} == {2}


def test_a_full_queue_refuses_at_once(model, batcher):
    small = batcher(max_batch_size=1, max_enqueued_batches=2, num_batch_threads=1)
    model.gate.clear()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(small.run, SIGNATURE, rows(1))]
        model.entered.acquire()
        waiting += [pool.submit(small.run, SIGNATURE, rows(i)) for i in (2, 3)]
        queued(small, 2)
        with pytest.raises(ServingError, match=r"queue .* is full") as caught:
            small.run(SIGNATURE, rows(4))
        assert caught.value.code is Code.UNAVAILABLE
        model.gate.set()
        assert [future.result()["y"][0, 0] for future in waiting] == [2, 4, 6]


def test_a_deadline_ends_the_wait_and_the_work(model, batcher):
    patient = batcher(max_batch_size=2, batch_timeout_micros=NEVER_MICROS)
    with pytest.raises(ServingError) as caught:
        patient.run(SIGNATURE, rows(1), timeout=0.01)
    assert caught.value.code is Code.DEADLINE_EXCEEDED
    patient.close()
    assert model.batches == [], "nobody waits for it, so it never runs"


def test_closing_answers_what_is_queued(model, batcher):
    patient = batcher(max_batch_size=8, batch_timeout_micros=NEVER_MICROS)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(patient.run, SIGNATURE, rows(1))
        queued(patient, 1)
        patient.close()
        assert waiting.result()["y"].tolist() == [[2.0]]
    with pytest.raises(ServingError, match="unloaded"):
        patient.run(SIGNATURE, rows(1))


def test_an_output_without_a_row_for_each_input_row_is_an_error():
    total = Batcher(lambda s, i, o: {"y": i["x"].sum()}, BatchingConfig(max_batch_size=2))
    try:
        with pytest.raises(ServingError, match="0th dimension") as caught:
            total.run(SIGNATURE, rows(1, 2))
        assert caught.value.code is Code.FAILED_PRECONDITION
    finally:
        total.close()


@pytest.mark.parametrize(
    "inputs", [{}, {"x": np.float32(1)}, {"x": np.ones((0, 1))}, {"x": np.ones(2), "z": np.ones(3)}]
)
def test_inputs_that_cannot_be_batched(batcher, inputs):
    with pytest.raises(ServingError, match="Batching"):
        batcher().run(SIGNATURE, {alias: np.asarray(value) for alias, value in inputs.items()})
