"""Everything the rules look at, read once."""

import dataclasses
import datetime
import functools
from collections.abc import Mapping
from typing import TypeAlias

from tensorflow_metadata.proto.v0 import anomalies_pb2, schema_pb2, statistics_pb2

from components.data_gate.config import GatePolicy
from components.data_gate.row_pass import TimeSpan
from components.data_gate.row_question import RowQuestion
from components.data_gate.summary import DataSummary, overall, summarize

SERVING = "serving"
Statistics: TypeAlias = statistics_pb2.DatasetFeatureStatisticsList


@dataclasses.dataclass(frozen=True, kw_only=True)
class GateInputs:
    """The protos. `statistics` and `baseline` are by split; `anomalies` are those another component already found."""

    schema: schema_pb2.Schema
    statistics: Mapping[str, Statistics]
    baseline: Mapping[str, Statistics] = dataclasses.field(default_factory=dict)
    serving: Statistics | None = None
    anomalies: Mapping[str, anomalies_pb2.Anomalies] = dataclasses.field(default_factory=dict)
    examples: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    """Split -> files of gzipped or plain TFRecords of tf.Examples, for what only rows can tell."""
    source: str = "DATA"
    """Where a person finds the data; only used to say how to accept it."""
    ingest_file: str = ""
    """The file with options for reading it; only used to say how to accept it."""
    notes: tuple[str, ...] = ()
    """What else a person should know of the data."""
    now: datetime.datetime = dataclasses.field(default_factory=lambda: datetime.datetime.now(datetime.UTC))


class Context:
    """`inputs` and the policy, with the summaries that several rules share, and the questions they ask about rows."""

    def __init__(self, inputs: GateInputs, policy: GatePolicy):
        self.inputs = inputs
        self.policy = policy
        self.schema = inputs.schema
        self.splits = {split: summarize(statistics) for split, statistics in inputs.statistics.items()}
        self.baseline = {split: summarize(statistics) for split, statistics in inputs.baseline.items()}
        self.serving = summarize(inputs.serving) if inputs.serving is not None else None
        self.features = {feature.name: feature for feature in inputs.schema.feature}
        self.questions: list[RowQuestion] = []
        self.text_times: dict[str, TimeSpan] = {}
        """Split -> range of the time column, where it is text that only the rows hold all of."""

    @functools.cached_property
    def data_sets(self) -> dict[str, DataSummary]:
        """The splits and, where there are serving statistics, `serving`."""
        return {**self.splits, **({SERVING: self.serving} if self.serving is not None else {})}

    def statistics_of(self, name: str) -> Statistics:
        """The proto behind `data_sets[name]`."""
        if name == SERVING and self.inputs.serving is not None:
            return overall(self.inputs.serving)
        return overall(self.inputs.statistics[name])

    def baseline_of(self, split: str) -> DataSummary | None:
        """The baseline's statistics of the same split, or of its train split, or of its first one."""
        for name in (split, "train", *self.baseline):
            if name in self.baseline:
                return self.baseline[name]
        return None

    def environment_of(self, name: str) -> str | None:
        """The schema environment for a data set; None where the schema does not use it."""
        wanted = self.policy.serving_environment if name == SERVING else self.policy.training_environment
        return wanted if wanted in self.schema.default_environment else None

    def expects(self, feature: str, name: str) -> bool:
        """Whether the schema has `feature` in the environment of data set `name`."""
        proto = self.features.get(feature)
        environment = self.environment_of(name)
        return proto is not None and environment not in proto.not_in_environment

    def ask(self, question: RowQuestion) -> None:
        """Has offending rows looked up, if the examples of that split are at hand."""
        self.questions.append(question)
