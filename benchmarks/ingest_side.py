"""One side of benchmarks/ingest.py: SIDE DATA OUTPUT CORES, prints one JSON object."""

import json
import os
import pathlib
import sys
import time

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def main() -> None:
    side, data, output, cores = sys.argv[1:]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-int(cores) :])
    print(json.dumps(SIDES[side](data, output)))


def sluice(data: str, output: str) -> dict:
    """Sluice's ingestion, without TFX around it, as `sluice ingest` runs it."""
    from components.example_gen import report
    from components.example_gen.config import IngestConfig
    from components.example_gen.ingest import ingest

    start = time.perf_counter()
    result = ingest({"": data}, output, IngestConfig())
    seconds = time.perf_counter() - start
    content = report.summarize(result)
    kept = ("rows", "output_bytes", "stage_seconds", "chunks", "converted_again")
    return {"seconds": seconds, "rows_per_second": content["rows"] / seconds, **{name: content[name] for name in kept}}


def stock_csv(data: str, output: str) -> dict:
    """The stock CsvExampleGen's executor."""
    from tfx.components.example_gen.csv_example_gen import executor

    return _stock(executor.Executor, data, output)


def stock_parquet(data: str, output: str) -> dict:
    """The stock Parquet executor."""
    from tfx.components.example_gen.custom_executors import parquet_executor

    return _stock(parquet_executor.Executor, data, output)


def _stock(executor_class, data: str, output: str) -> dict:
    from tfx.components.example_gen import utils
    from tfx.dsl.components.base import base_beam_executor
    from tfx.proto import example_gen_pb2
    from tfx.types import standard_artifacts
    from tfx.utils import proto_utils

    examples = standard_artifacts.Examples()
    examples.uri = output
    input_config = utils.make_default_input_config()
    flags = ["--runner=DirectRunner", "--direct_running_mode=in_memory", "--direct_num_workers=1"]
    context = base_beam_executor.BaseBeamExecutor.Context(beam_pipeline_args=flags)
    properties = {
        "input_base": data,
        "input_config": proto_utils.proto_to_json(input_config),
        "output_config": proto_utils.proto_to_json(utils.make_default_output_config(input_config)),
        "output_data_format": example_gen_pb2.FORMAT_TF_EXAMPLE,
    }
    start = time.perf_counter()
    executor_class(context).Do({}, {"examples": [examples]}, properties)
    seconds = time.perf_counter() - start
    files = [str(path) for path in pathlib.Path(output).glob("Split-*/*")]
    rows = _count(files)
    size = sum(os.path.getsize(path) for path in files)
    return {"seconds": seconds, "rows": rows, "rows_per_second": rows / seconds, "output_bytes": size}


def bare(data: str, output: str) -> dict:
    """pyarrow's reader, tfx_bsl's encoder and TensorFlow's writer, and nothing else."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv
    import tensorflow as tf
    from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder

    targets = {"i": pa.int64(), "f": pa.float32()}
    start = time.perf_counter()
    encoder = RecordBatchToExamplesEncoder()
    rows = 0
    (path,) = pathlib.Path(data).glob("*.csv")
    options = pyarrow.csv.ReadOptions(use_threads=False, block_size=4 << 20)
    with tf.io.TFRecordWriter(f"{output}.gz", tf.io.TFRecordOptions("GZIP")) as writer:
        # A prefix decides on types, which is what Sluice does not do; on this file it happens to be right.
        for batch in pyarrow.csv.open_csv(path, read_options=options):
            lists = []
            for column in batch.columns:
                valid = pc.is_valid(column).cast(pa.int64())
                offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(valid)])
                wanted = targets.get(str(column.type)[0], pa.large_binary())
                wanted = pa.float32() if pa.types.is_floating(column.type) else wanted
                lists.append(pa.LargeListArray.from_arrays(offsets, column.drop_null().cast(wanted)))
            for record in encoder.encode(pa.RecordBatch.from_arrays(lists, batch.schema.names)):
                writer.write(record)
            rows += batch.num_rows
    seconds = time.perf_counter() - start
    size = os.path.getsize(f"{output}.gz")
    return {"seconds": seconds, "rows": rows, "rows_per_second": rows / seconds, "output_bytes": size}


def _count(files: list[str]) -> int:
    import tensorflow as tf

    batches = tf.data.TFRecordDataset(files, compression_type="GZIP").batch(10_000)
    return sum(len(batch) for batch in batches.as_numpy_iterator())


SIDES = {"sluice": sluice, "stock-csv": stock_csv, "stock-parquet": stock_parquet, "bare": bare}

if __name__ == "__main__":
    main()
