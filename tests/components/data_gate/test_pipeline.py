"""The step in a real TFX pipeline of stock components: it passes, blocks, warns, and leaves its page."""

import json
import pathlib

import pytest
from tfx import v1 as tfx
from tfx.orchestration import metadata
from tfx.types import standard_artifacts

from components.data_gate.component import DataGate
from components.data_gate.config import GatePolicy
from components.data_gate.errors import DataRejectedError

pytestmark = pytest.mark.e2e
RUNNER = "--runner=apache_beam.runners.portability.fn_api_runner.FnApiRunner"


@pytest.fixture
def run(tmp_path, data):
    """Runs ingestion (import), statistics, schema and gate over folders of examples, and a step after the gate."""

    def run_pipeline(case, policy):
        for split, columns in case.splits.items():
            folder = tmp_path / "examples" / f"Split-{split}"
            data._write(columns, case.schema, folder / "data-00000-of-00001.gz")
        splits = [tfx.proto.Input.Split(name=name, pattern=f"Split-{name}/*") for name in case.splits]
        examples = tfx.components.ImportExampleGen(
            input_base=str(tmp_path / "examples"), input_config=tfx.proto.Input(splits=splits)
        )
        schema = tfx.components.ImportSchemaGen(schema_file=str(data.ROOT / "modules/taxi/schema.pbtxt"))
        statistics = tfx.components.StatisticsGen(
            examples=examples.outputs["examples"], schema=schema.outputs["schema"]
        )
        anomalies = tfx.components.ExampleValidator(
            statistics=statistics.outputs["statistics"], schema=schema.outputs["schema"]
        )
        previous = tfx.dsl.Resolver(
            strategy_class=tfx.dsl.experimental.LatestArtifactStrategy,
            statistics=tfx.dsl.Channel(type=standard_artifacts.ExampleStatistics),
        ).with_id("Previous")
        gate = DataGate(
            statistics=statistics.outputs["statistics"],
            schema=schema.outputs["schema"],
            anomalies=anomalies.outputs["anomalies"],
            examples=examples.outputs["examples"],
            policy=GatePolicy.from_dict(policy),
            baseline_statistics=previous.outputs["statistics"],
        )
        later = tfx.components.SchemaGen(statistics=statistics.outputs["statistics"]).with_id("Later")
        later.add_upstream_node(gate)
        previous.add_downstream_node(statistics)
        tfx.orchestration.LocalDagRunner().run(
            tfx.dsl.Pipeline(
                pipeline_name="gate",
                pipeline_root=str(tmp_path / "root"),
                components=[previous, examples, schema, statistics, anomalies, gate, later],
                metadata_connection_config=metadata.sqlite_metadata_connection_config(str(tmp_path / "metadata.db")),
                beam_pipeline_args=[RUNNER],
            )
        )
        return tmp_path / "root"

    return run_pipeline


def small(case, data):
    return type(case)(**{**case.__dict__, "splits": {s: data.take(c, 0, 1500) for s, c in case.splits.items()}})


def verdicts(root, folder):
    return [json.loads(path.read_text()) for path in sorted(root.glob(f"DataGate/{folder}/*/verdict.json"))]


def test_good_data_passes_and_is_the_next_baseline(run, taxi, data):
    case = small(taxi, data)
    root = run(case, {"label": {"feature": "tips"}})
    (first,) = verdicts(root, "verdict")
    assert first["verdict"] == "accepted"
    assert first["splits"] == {"train": 1500, "eval": 1500}
    assert "drift" in {item["rule"] for item in first["not_checked"]}
    assert list(root.glob("Later/schema/*/schema.pbtxt"))

    cheaper = case.change("train", fare=[fare / 2 for fare in case.splits["train"]["fare"]])
    with pytest.raises(DataRejectedError, match="fare: drift in train"):
        run(cheaper, {"label": {"feature": "tips"}})


def test_bad_data_stops_the_run_and_leaves_the_page(run, taxi, data, tmp_path):
    case = small(taxi, data)
    kinds = ["Bitcoin" if i == 9 else kind for i, kind in enumerate(case.splits["train"]["payment_type"])]
    with pytest.raises(DataRejectedError) as caught:
        run(case.change("train", payment_type=kinds), {})
    root = tmp_path / "root"
    assert caught.value.exit_code == 3
    page = pathlib.Path(str(caught.value).partition("See ")[2].partition(". To accept")[0])
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    (verdict,) = verdicts(root, "rejected")
    (finding,) = verdict["findings"]
    assert (finding["feature"], finding["rule"], finding["rows"]) == ("payment_type", "unexpected-value", 1)
    assert finding["samples"][0]["row"]["payment_type"] == "Bitcoin"
    assert not list(root.glob("Later/schema/*"))


def test_mode_warn_lets_the_run_go_on(run, taxi, data):
    case = small(taxi, data)
    root = run(case.change("train", fare=[-1.0] * 1500), {"mode": "warn"})
    (verdict,) = verdicts(root, "verdict")
    assert verdict["verdict"] == "accepted with warnings"
    assert list(root.glob("Later/schema/*/schema.pbtxt"))
