"""Which Beam flags reach which step."""

import socket

import pytest

from pipeline import beam_options, config
from pipeline.errors import ConfigError

STEPS = ["ExampleGen", "StatisticsGen", "Transform"]
FLINK = ("--runner=FlinkRunner", "--flink_master=flink:8081")
LOCAL = [f"--runner={beam_options.LOCAL_BEAM_RUNNER}", beam_options.NO_PACKAGING]


def test_a_step_has_its_own_flags_or_those_for_all():
    options = {"all": ("--runner=A",), "Transform": FLINK}
    flags = beam_options.for_steps(options, STEPS)
    assert flags["ExampleGen"] == flags["StatisticsGen"] == [beam_options.NO_PACKAGING, "--runner=A"]
    assert flags["Transform"] == [beam_options.NO_PACKAGING, *FLINK]
    assert beam_options.for_steps({"Transform": FLINK}, STEPS).keys() == {"Transform"}


def test_flags_without_a_runner_run_in_this_process():
    assert beam_options.complete([]) == LOCAL
    assert beam_options.complete(["--direct_num_workers=1"]) == [*LOCAL, "--direct_num_workers=1"]


@pytest.mark.parametrize("packaging", ["--sdk_container_image=mine", "--setup_file=setup.py", "--extra_package=a.tgz"])
def test_flags_that_bring_the_code_are_left_as_they_are(packaging):
    assert beam_options.complete([*FLINK, packaging]) == [*FLINK, packaging]


def test_the_command_line_adds_up_and_splits_like_a_shell():
    options = beam_options.from_arguments(["all=--a=1 --b='x y'", "all=--c", "Transform=--runner=D --flag"])
    assert options == {"all": ("--a=1", "--b=x y", "--c"), "Transform": ("--runner=D", "--flag")}


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--runner=FlinkRunner", ["STEP=FLAGS"]),
        ("Transform", ["'Transform'", "STEP=FLAGS"]),
        ("=--runner=A", ["STEP=FLAGS"]),
        ("Transform=FlinkRunner", ["--beam Transform", "begins with `--`", "'FlinkRunner'"]),
        ("Transform=--a='x", ["--beam Transform", "cannot be split"]),
    ],
)
def test_refused_arguments(argument, words):
    with pytest.raises(ConfigError) as caught:
        beam_options.from_arguments([argument])
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("section", "words"),
    [
        (["--runner=A"], ["w.yaml: beam", "all: [--runner=...]"]),
        ({"all": {"runner": "A"}}, ["w.yaml: beam.all", "a list of Beam flags"]),
        ({"all": ["--a", 1]}, ["w.yaml: beam.all", "a list of Beam flags"]),
        ({"all": ["runner=A"]}, ["w.yaml: beam.all", "begins with `--`"]),
        ({"all": None}, ["w.yaml: beam.all", "found None"]),
    ],
)
def test_refused_sections(section, words):
    with pytest.raises(ConfigError) as caught:
        beam_options.from_mapping(section, "w.yaml: beam")
    for word in words:
        assert word in str(caught.value)


def test_what_is_no_beam_step_is_refused_with_those_there_are():
    with pytest.raises(ConfigError, match="Trainer is not a step that uses Beam; those are: ExampleGen"):
        beam_options.for_steps({"Trainer": FLINK}, STEPS)


def test_a_job_service_that_does_not_answer_is_refused_at_once():
    with socket.create_server(("localhost", 0)) as server:
        endpoint = f"--job_endpoint=localhost:{server.getsockname()[1]}"
        beam_options.check_job_service("Transform", ["--runner=PortableRunner", endpoint])
    with pytest.raises(ConfigError, match=rf"Transform: no Beam job service answers at {endpoint} \(.*refused\)"):
        beam_options.check_job_service("Transform", ["--runner=PortableRunner", endpoint])
    beam_options.check_job_service("Transform", ["--runner=PortableRunner", "--job_endpoint=embed"])


def test_the_command_line_replaces_the_workloads_flags_of_a_step(tmp_path, monkeypatch):
    workload, folder = config.load_workload("taxi")
    object.__setattr__(workload, "beam", {"all": ["--runner=A"], "Transform": "--runner=B"})
    monkeypatch.setattr(config, "load_workload", lambda name: (workload, folder))
    settings = config.make_config("taxi", root=str(tmp_path), beam=["Transform=--runner=C"])
    assert settings.beam == {"all": ("--runner=A",), "Transform": ("--runner=C",)}


def test_every_beam_step_of_the_pipeline_gets_its_flags(tmp_path):
    from pipeline.pipeline import create_pipeline

    beam = ["all=--runner=A", "Transform=--runner=B", "ExampleGen=--direct_num_workers=1"]
    pipeline = create_pipeline(config.make_config("taxi", root=str(tmp_path), beam=beam))
    flags = {
        node.id: node.executor_spec.beam_pipeline_args
        for node in pipeline.components
        if hasattr(getattr(node, "executor_spec", None), "beam_pipeline_args")
    }
    assert flags["Transform"] == [beam_options.NO_PACKAGING, "--runner=B"]
    assert flags["ExampleGen"] == [*LOCAL, "--direct_num_workers=1"]
    others = set(flags) - {"Transform", "ExampleGen"}
    assert {"StatisticsGen", "Evaluator", "DataGate"} <= others
    assert all(flags[step] == [beam_options.NO_PACKAGING, "--runner=A"] for step in others)
