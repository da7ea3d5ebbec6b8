"""The whole pipeline with all of its Beam steps on Flink, beside the same pipeline in this process."""

import json
import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.flink, pytest.mark.timeout(1200)]

FLAGS = "--runner=FlinkRunner --flink_master=[local] --environment_type=LOOPBACK --parallelism=2"


def run(root, *arguments):
    command = [sys.executable, "-m", "pipeline.cli", "run", "--root", str(root), "--json", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout.splitlines()[-1])


def transform_output(root):
    import tensorflow_transform as tft

    (folder,) = (root / "pipelines" / "taxi" / "Transform" / "transform_graph").iterdir()
    return tft.TFTransformOutput(str(folder))


def statistics(root, split):
    import tensorflow_data_validation as tfdv

    (folder,) = (root / "pipelines" / "taxi" / "StatisticsGen" / "statistics").iterdir()
    return tfdv.load_stats_binary(str(folder / f"Split-{split}" / "FeatureStats.pb")).datasets[0]


def test_the_pipeline_on_flink_gives_what_it_gives_here(tmp_path):
    jar = os.environ.get("FLINK_JOB_SERVER_JAR")
    flags = f"{FLAGS} --flink_job_server_jar={jar}" if jar else FLAGS
    flink, here = tmp_path / "flink", tmp_path / "here"
    on_flink, in_process = run(flink, "--beam", f"all={flags}"), run(here)
    assert on_flink["splits"] == in_process["splits"]
    for split in on_flink["splits"]:
        ours, expected = statistics(flink, split), statistics(here, split)
        assert ours.num_examples == expected.num_examples
        by_name = {feature.path.step[0]: feature for feature in expected.features}
        assert {feature.path.step[0] for feature in ours.features} == set(by_name)
        for feature in ours.features:
            other = by_name[feature.path.step[0]]
            assert feature.num_stats.common_stats == other.num_stats.common_stats
            assert feature.num_stats.mean == pytest.approx(other.num_stats.mean, rel=1e-6)
            assert feature.string_stats.unique == other.string_stats.unique
    for name in ("payment_type", "company"):
        ours, expected = (transform_output(root).vocabulary_by_name(name) for root in (flink, here))
        assert ours == expected
    assert on_flink["verdict"] == in_process["verdict"] == "blessed"
    assert on_flink["metrics"]["auc"]["value"] == pytest.approx(in_process["metrics"]["auc"]["value"], abs=0.01)
