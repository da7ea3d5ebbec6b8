"""ExampleGen in TFX pipelines: properties, caching by content, spans, and stock components downstream."""

import json
import os
import pathlib

import pytest

from components.example_gen.errors import IngestConfigError

ROWS = "a,b,user\n" + "".join(f"{i},{i * 0.5},u{i % 9}\n" for i in range(200))


def run(root: pathlib.Path, component, *downstream):
    """Runs a pipeline; returns {component id: last execution state} and the metadata connection."""
    from ml_metadata import metadata_store
    from tfx.orchestration import metadata, pipeline
    from tfx.orchestration.local.local_dag_runner import LocalDagRunner

    connection = metadata.sqlite_metadata_connection_config(str(root / "metadata.db"))
    LocalDagRunner().run(
        pipeline.Pipeline(
            pipeline_name="p",
            pipeline_root=str(root),
            components=[component, *downstream],
            enable_cache=True,
            metadata_connection_config=connection,
        )
    )
    return metadata_store.MetadataStore(connection)


def states(store):
    from ml_metadata.proto import metadata_store_pb2

    names = metadata_store_pb2.Execution.State.Name
    return [
        names(execution.last_known_state)
        for execution in store.get_executions()
        if store.get_execution_types_by_id([execution.type_id])[0].name.endswith("ExampleGen")
    ]


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "d.csv").write_text(ROWS)
    return folder


def test_a_touched_file_is_cached_and_an_edited_one_is_not(data, tmp_path):
    from components.example_gen.component import ExampleGen

    root = tmp_path / "root"
    root.mkdir()
    run(root, ExampleGen(str(data)))
    os.utime(data / "d.csv", (1, 1))
    (data / ".DS_Store").write_bytes(b"\0")
    assert states(run(root, ExampleGen(str(data)))) == ["COMPLETE", "CACHED"]
    (data / "d.csv").write_text(ROWS.replace("0.5", "1.5"))
    assert states(run(root, ExampleGen(str(data)))) == ["COMPLETE", "CACHED", "COMPLETE"]


def test_artifacts_are_like_the_stock_ones_and_stock_components_read_them(data, tmp_path):
    from tfx.components import SchemaGen, StatisticsGen

    from components.example_gen.component import ExampleGen
    from components.example_gen.config import IngestConfig

    root = tmp_path / "root"
    root.mkdir()
    for span, version in ((1, 1), (3, 2), (3, 10)):
        (data / f"s{span}v{version}.csv").write_text(ROWS + f"{span * 1000 + version},0.5,u\n")
    config = IngestConfig.from_dict(
        {
            "pattern": "s{SPAN}v{VERSION}.csv",
            "split": {"by": "columns", "columns": ["user"], "weights": {"train": 2, "eval": 1}},
        },
        "test",
    )
    component = ExampleGen(str(data), config)
    statistics = StatisticsGen(examples=component.outputs["examples"])
    store = run(root, component, statistics, SchemaGen(statistics=statistics.outputs["statistics"]))

    (examples,) = store.get_artifacts_by_type("Examples")
    assert json.loads(examples.properties["split_names"].string_value) == ["train", "eval"]
    properties = examples.custom_properties
    assert properties["span"].int_value == 3
    assert properties["version"].int_value == 10
    assert "content:" in properties["input_fingerprint"].string_value
    assert properties["payload_format"].string_value == "FORMAT_TF_EXAMPLE"
    assert properties["file_format"].string_value == "tfrecords_gzip"
    (page,) = store.get_artifacts_by_type("IngestionReport")
    content = json.loads((pathlib.Path(page.uri) / "report.json").read_text())
    assert (content["rows"], content["span"], content["version"]) == (201, 3, 10)
    assert sorted(path.name for path in pathlib.Path(page.uri).iterdir()) == ["report.html", "report.json"]
    (schema,) = store.get_artifacts_by_type("Schema")
    text = (pathlib.Path(schema.uri) / "schema.pbtxt").read_text()
    assert 'name: "user"' in text
    assert "type: BYTES" in text


def test_stock_configs_are_understood(data):
    from tfx.proto import example_gen_pb2

    from components.example_gen.component import ExampleGen
    from components.example_gen.config import IngestConfig

    def config_of(component):
        return IngestConfig.from_json(component.exec_properties["ingest_config"])

    split = example_gen_pb2.SplitConfig.Split
    hashed = example_gen_pb2.SplitConfig(
        splits=[split(name="train", hash_buckets=8), split(name="test", hash_buckets=2)], partition_feature_name="user"
    )
    made = config_of(ExampleGen(str(data), output_config=example_gen_pb2.Output(split_config=hashed)))
    assert (made.split.by, made.split.columns) == ("columns", ("user",))
    assert made.split.weights == {"train": 8, "test": 2}
    part = example_gen_pb2.Input.Split
    files = example_gen_pb2.Input(splits=[part(name="train", pattern="a*"), part(name="eval", pattern="b*")])
    assert config_of(ExampleGen(str(data), input_config=files)).split.files == {"train": "a*", "eval": "b*"}
    with pytest.raises(IngestConfigError, match="one split"):
        ExampleGen(str(data), input_config=files, output_config=example_gen_pb2.Output(split_config=hashed))
    with pytest.raises(IngestConfigError, match="gzip"):
        ExampleGen(str(data), IngestConfig(compression="none"))


def test_the_runner_of_this_component_alone_can_be_chosen(data):
    from components.example_gen.component import ExampleGen
    from components.example_gen.config import IngestConfig

    flags = ("--runner=FlinkRunner", "--flink_master=flink:8081")
    component = ExampleGen(str(data), IngestConfig(beam_pipeline_args=flags))
    assert component.executor_spec.encode().beam_pipeline_args == list(flags)


def test_refused_data_fails_the_run_and_publishes_nothing(data, tmp_path):
    from components.example_gen.component import ExampleGen

    (data / "d.csv").write_text(ROWS + "1,2\n")
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(Exception, match=r"d\.csv:202"):
        run(root, ExampleGen(str(data)))
    assert list(root.glob("**/Split-*")) == []
