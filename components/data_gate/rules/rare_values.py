"""Values outside the domain among more categories than statistics list.

TFDV keeps the thousand most frequent values of a column. Of a larger domain it sees an unknown value only by luck, so
the rows are asked.
"""

from collections.abc import Iterator

from tensorflow_metadata.proto.v0 import schema_pb2

from components.data_gate.context import Context
from components.data_gate.finding import NotChecked
from components.data_gate.row_question import RowQuestion
from components.data_gate.rules import wording


def check(context: Context) -> Iterator[NotChecked]:
    """Asks the rows of every data set, or says that it would have to."""
    for feature in context.features.values():
        for name, data in context.data_sets.items():
            column = data.columns.get(feature.name)
            if column is None or column.category is None or column.category.complete:
                continue
            question = _question(feature, context.schema, name)
            if question is None or not context.expects(feature.name, name):
                continue
            if context.inputs.examples.get(name):
                context.ask(question)
            else:
                why = f"the statistics of {name} list the most frequent values only: give the gate the examples"
                yield NotChecked(rule=question.rule, feature=feature.name, why=why)


def _question(feature: schema_pb2.Feature, schema: schema_pb2.Schema, split: str) -> RowQuestion | None:
    values = wording.domain_values(feature, schema)
    if values:
        return RowQuestion(
            feature=feature.name,
            rule="unexpected-value",
            split=split,
            test="values",
            values=values,
            decides=True,
            observed="values that the schema does not list",
            allowed=wording.listed(values),
        )
    low, high = wording.bounds(feature)
    if feature.type != schema_pb2.INT or low == -high:
        return None
    return RowQuestion(
        feature=feature.name,
        rule="out-of-range",
        split=split,
        test="range",
        low=low,
        high=high,
        decides=True,
        observed="values out of the range",
        allowed=f"{low:.15g} to {high:.15g}",
    )
