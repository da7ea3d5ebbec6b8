"""Where the stock components are right, the examples are the same, whatever the data looks like."""

import csv
import io
import pathlib
import random

import pyarrow as pa
import pyarrow.parquet
import pytest

NAMES = ["plain", "numbers", "missing", "quotes", "unicode", "wide", "text", "negative", "exponents", "empty column"]


def csv_table(kind, seed):
    """A well-formed CSV file of 60 rows, with what `kind` says in it."""
    rng = random.Random(f"{kind}{seed}")
    rows = range(60)
    columns = {"row": list(rows), "x": [round(rng.uniform(-100, 100), 3) for _ in rows]}
    if kind == "numbers":
        columns |= {f"n{i}": [rng.randrange(-(10**i), 10**i) for _ in rows] for i in (1, 5, 12, 18)}
    if kind == "missing":
        columns |= {f"m{i}": [rng.choice(["", rng.randrange(9), rng.randrange(9)]) for _ in rows] for i in range(4)}
        columns["f"] = [rng.choice(["", rng.random()]) for _ in rows]
        columns["t"] = [rng.choice(["", "a", "b"]) for _ in rows]
    if kind == "quotes":
        columns["q"] = [rng.choice(['say "hi"', "a,b", "two\nlines", "it's", '"']) for _ in rows]
    if kind == "unicode":
        columns["u"] = [rng.choice(["日本語", "naïve", "🙂", "Ünïcödé", "ascii"]) for _ in rows]
    if kind == "wide":
        cells = [[7, 8, 9], [1, 2.5], ["t", "u", 5], [0.125]]
        columns |= {f"w{i}": [rng.choice(cells[i % 4]) for _ in rows] for i in range(120)}
    if kind == "text":
        columns["s"] = ["".join(rng.choices("abc def NA null 12", k=rng.randrange(1, 40))) for _ in rows]
    if kind == "negative":
        columns |= {"i": [-row for row in rows], "f": [-row - 0.5 for row in rows]}
    if kind == "exponents":
        columns["e"] = [f"{rng.uniform(1, 9):.3f}e{rng.randrange(-20, 20)}" for _ in rows]
    if kind == "empty column":
        columns["nothing"] = [""] * 60
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return buffer.getvalue()


def stock_examples(folder: pathlib.Path, output: pathlib.Path, executor_class):
    """The serialized examples of a stock executor."""
    import tensorflow as tf
    from tfx.components.example_gen import utils
    from tfx.dsl.components.base import base_beam_executor
    from tfx.proto import example_gen_pb2
    from tfx.types import standard_artifacts
    from tfx.utils import proto_utils

    examples = standard_artifacts.Examples()
    examples.uri = str(output)
    input_config = utils.make_default_input_config()
    context = base_beam_executor.BaseBeamExecutor.Context(beam_pipeline_args=["--runner=DirectRunner"])
    executor_class(context).Do(
        {},
        {"examples": [examples]},
        {
            "input_base": str(folder),
            "input_config": proto_utils.proto_to_json(input_config),
            "output_config": proto_utils.proto_to_json(utils.make_default_output_config(input_config)),
            "output_data_format": example_gen_pb2.FORMAT_TF_EXAMPLE,
        },
    )
    files = [str(path) for path in output.glob("Split-*/*")]
    return list(tf.data.TFRecordDataset(files, compression_type="GZIP").as_numpy_iterator())


def canonical(records):
    """Serialized examples as texts whose order of features does not matter, sorted."""
    import tensorflow as tf

    texts = []
    for record in records:
        features = tf.train.Example.FromString(record).features.feature
        texts.append("|".join(f"{name}:{features[name].SerializeToString().hex()}" for name in sorted(features)))
    return sorted(texts)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", NAMES)
def test_csv(kind, seed, ingest_files, tmp_path):
    from tfx.components.example_gen.csv_example_gen import executor

    done = ingest_files({"d.csv": csv_table(kind, seed)})
    stock = stock_examples(tmp_path / "in1", tmp_path / "stock", executor.Executor)
    assert canonical(done.records()) == canonical(stock)


@pytest.mark.parametrize("nullable", [False, True])
def test_parquet(nullable, ingest_files, tmp_path):
    from tfx.components.example_gen.custom_executors import parquet_executor

    rng = random.Random(nullable)
    # No zeros, empty strings or False: the stock executor takes those for missing.
    columns = {
        "i": [rng.randrange(1, 10**12) for _ in range(60)],
        "f": [rng.uniform(0.1, 5) for _ in range(60)],
        "s": [rng.choice(["a", "日本語", "x,y"]) for _ in range(60)],
        "list": [[rng.randrange(1, 9) for _ in range(rng.randrange(1, 4))] for _ in range(60)],
    }
    if nullable:
        columns = {name: [None if rng.random() < 0.3 else v for v in values] for name, values in columns.items()}
    done = ingest_files({"d.parquet": lambda path: pyarrow.parquet.write_table(pa.table(columns), path)})
    stock = stock_examples(tmp_path / "in1", tmp_path / "stock", parquet_executor.Executor)
    assert canonical(done.records()) == canonical(stock)
