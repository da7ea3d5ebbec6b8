"""Sample rows of a blocked run name file and line of the CSV that was ingested."""

import json
import pathlib

import pytest
from tfx.types import artifact_utils, standard_artifacts

from components.artifacts import DataVerdict, IngestionReport
from components.data_gate import executor
from components.data_gate.config import GatePolicy
from components.data_gate.data_folder import batches
from components.data_gate.errors import DataRejectedError
from components.data_gate.statistics import statistics_of
from components.example_gen import report
from components.example_gen.config import IngestConfig
from components.example_gen.ingest import ingest

SCHEMA = """
feature { name: "kind" type: BYTES presence { min_fraction: 1 } string_domain { value: "cash" value: "card" } }
feature { name: "fare" type: FLOAT presence { min_fraction: 0 } }
feature { name: "note" type: BYTES presence { min_fraction: 0 } }
"""


@pytest.fixture
def judged(tmp_path):
    """(folder of two CSV files with a bad row each, judge() -> sample rows), after the files were ingested."""
    data = tmp_path / "data"
    data.mkdir()
    rows = [f'{("cash", "card")[i % 2]},{i / 8},"line one\nline {i}"' for i in range(300)]
    rows[150] = 'Bitcoin,,"a, b"'  # every row before it takes two lines
    (data / "one.csv").write_text("kind,fare,note\n" + "\n".join(rows) + "\n")
    (data / "two.csv").write_text("note,kind,fare\n,Bitcoin,0.1\n,cash,7\n")

    def artifact(made):
        made.uri = str(tmp_path / made.type_name / "1")
        pathlib.Path(made.uri).mkdir(parents=True)
        return made

    config = IngestConfig(workers=1)
    examples, page = artifact(standard_artifacts.Examples()), artifact(IngestionReport())
    patterns = {"": str(data)}
    result = ingest(patterns, examples.uri, config)
    report.write(result, page.uri, config, patterns=patterns)
    statistics = artifact(standard_artifacts.ExampleStatistics())
    for made in (examples, statistics):
        made.split_names = artifact_utils.encode_split_names(config.split.names)
    examples.set_string_custom_property("payload_format", "FORMAT_TF_EXAMPLE")
    for split in config.split.names:
        folder = pathlib.Path(statistics.uri, f"Split-{split}")
        folder.mkdir()
        files = tuple(map(str, pathlib.Path(examples.uri, f"Split-{split}").iterdir()))
        (folder / "FeatureStats.pb").write_bytes(statistics_of(batches(files)).SerializeToString())
    schema = artifact(standard_artifacts.Schema())
    pathlib.Path(schema.uri, "schema.pbtxt").write_text(SCHEMA)

    def run():
        verdict = artifact(DataVerdict())
        inputs = {
            "statistics": [statistics],
            "schema": [schema],
            "examples": [examples],
            "ingestion_report": [page],
        }
        with pytest.raises(DataRejectedError):
            executor.Executor().Do(inputs, {"verdict": [verdict]}, {"policy": GatePolicy().to_json()})
        findings = json.loads((tmp_path / "rejected" / "1" / "verdict.json").read_text())["findings"]
        return [sample for finding in findings for sample in finding["samples"]]

    return data, run


def test_samples_name_the_source_and_not_the_shard(judged):
    _, run = judged
    samples = {(sample["file"], sample["line"], sample["row"]["kind"]) for sample in run()}
    assert samples == {("one.csv", 302, "Bitcoin"), ("two.csv", 2, "Bitcoin")}


def test_samples_keep_shard_and_record_where_the_source_is_gone(judged):
    data, run = judged
    for path in data.iterdir():
        path.unlink()
    samples = run()
    assert len(samples) == 2
    assert all(sample["file"].startswith("data_") and sample["record"] >= 1 for sample in samples)
