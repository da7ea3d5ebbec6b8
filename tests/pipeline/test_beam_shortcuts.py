"""What Beam finds out with the shortcuts is what it finds out without them."""

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions, TypeOptions
from apache_beam.transforms import userstate

from pipeline.beam_shortcuts import beam_shortcuts

COUNT = userstate.ReadModifyWriteStateSpec("count", VarIntCoder())
ALARM = userstate.TimerSpec("alarm", beam.TimeDomain.WATERMARK)
COUNT_PARAM, ALARM_PARAM = beam.DoFn.StateParam(COUNT), beam.DoFn.TimerParam(ALARM)


class _Plain(beam.DoFn):
    def process(self, element):
        yield element


class _Stateful(beam.DoFn):
    def process(self, element, count=COUNT_PARAM, alarm=ALARM_PARAM):
        yield element

    @userstate.on_timer(ALARM)
    def ring(self):
        pass


class _Borrowing(beam.DoFn):
    """Its `process` is another object's method: two objects of this class differ."""

    def __init__(self, other):
        self.process = other.process


@pytest.mark.parametrize(
    "make",
    [_Plain, _Stateful, lambda: _Borrowing(_Plain()), lambda: _Borrowing(_Stateful())],
    ids=["plain", "stateful", "borrows plain", "borrows stateful"],
)
def test_state_and_timers_are_those_of_beam(make):
    expected = userstate.get_dofn_specs(make())
    with beam_shortcuts():
        for other in (_Plain(), _Borrowing(_Stateful()), _Borrowing(_Plain())):  # kept answers of other objects
            userstate.get_dofn_specs(other)
        assert userstate.get_dofn_specs(make()) == expected
        userstate.get_dofn_specs(make())[0].clear()  # a caller's set is its own
        assert userstate.get_dofn_specs(make()) == expected


def test_views_of_the_same_options_share_values_and_other_options_do_not():
    with beam_shortcuts():
        options, other = PipelineOptions(["--streaming"]), PipelineOptions([])
        assert options.view_as(StandardOptions).streaming
        assert not other.view_as(StandardOptions).streaming
        options.view_as(TypeOptions).runtime_type_check = True
        assert options.view_as(StandardOptions).view_as(TypeOptions).runtime_type_check
        assert not other.view_as(TypeOptions).runtime_type_check


def test_a_stateful_pipeline_runs_and_beam_is_as_before_afterwards(tmp_path):
    before = userstate.get_dofn_specs, PipelineOptions.view_as
    with beam_shortcuts(), beam.Pipeline() as pipeline:
        keyed = pipeline | beam.Create([("a", 1), ("a", 2), ("b", 3)])
        _ = keyed | beam.ParDo(_Counting()) | beam.Map(str) | beam.io.WriteToText(str(tmp_path / "out"))
    lines = sorted(line for path in tmp_path.glob("out*") for line in path.read_text().splitlines())
    assert lines == ["('a', 1)", "('a', 3)", "('b', 3)"] or lines == ["('a', 2)", "('a', 3)", "('b', 3)"]
    assert (userstate.get_dofn_specs, PipelineOptions.view_as) == before


class _Counting(beam.DoFn):
    def process(self, element, count=COUNT_PARAM):
        key, value = element
        count.write((count.read() or 0) + value)
        yield key, count.read()
