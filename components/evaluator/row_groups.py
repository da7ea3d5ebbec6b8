"""Rows go through TFMA in groups: one extract per batch and slice, where stock TFMA makes one per row and slice.

Stock TFMA takes about a millisecond of Python for each row (three slicing specs, two models), nearly all of it in
looking the label and the prediction up anew for every row, slice and metric. A group holds the labels and predictions
of all rows of one batch that lie in one slice, as arrays; components.evaluator.grouped_metrics adds them at once.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import tensorflow_model_analysis as tfma
from tensorflow_model_analysis import constants
from tensorflow_model_analysis.api import types as tfma_types
from tensorflow_model_analysis.extractors import slice_key_extractor, unbatch_extractor
from tensorflow_model_analysis.proto import config_pb2
from tensorflow_model_analysis.slicer import slicer_lib
from tensorflow_model_analysis.utils import util

from components.evaluator.errors import EvaluationConfigError

_Tensors = dict[str, Any]


def custom_extractors(
    eval_shared_model: Any, eval_config: config_pb2.EvalConfig, tensor_adapter_config: Any
) -> list[tfma.extractors.Extractor]:
    """TFMA's own extractors with the last two, which take batches apart and slice rows, replaced; for `module_path`."""
    stock = tfma.default_extractors(
        eval_shared_model=eval_shared_model, eval_config=eval_config, tensor_adapter_config=tensor_adapter_config
    )
    replaced = {unbatch_extractor.UNBATCH_EXTRACTOR_STAGE_NAME, slice_key_extractor.SLICE_KEY_EXTRACTOR_STAGE_NAME}
    # Under the stock stage's name: TFMA's evaluator insists on running after it.
    group = tfma.extractors.Extractor(
        stage_name=slice_key_extractor.SLICE_KEY_EXTRACTOR_STAGE_NAME,
        ptransform=beam.ParDo(GroupRowsFn(list(eval_config.slicing_specs))),
    )
    return [*(extractor for extractor in stock if extractor.stage_name not in replaced), group]


class GroupRowsFn(beam.DoFn):
    """Turns a batch of n rows into one extract per slice found in it.

    Args:
      specs: the slicing specs. Which slices a row is in is asked of TFMA, once for every distinct combination of the
        sliced columns' values.
    """

    def __init__(self, specs: Sequence[config_pb2.SlicingSpec]) -> None:
        self._specs = [slicer_lib.SingleSliceSpec(spec=spec) for spec in specs] or [slicer_lib.SingleSliceSpec()]
        self._columns = sorted({name for spec in specs for name in (*spec.feature_keys, *spec.feature_values)})
        self._slices_of: dict[tuple, list] = {}

    def process(self, batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields extracts of labels (m, ...) and predictions (m, ...) for the m rows of one slice."""
        kept = {key: _dense(batch[key], key) for key in (constants.LABELS_KEY, constants.PREDICTIONS_KEY)}
        num_rows = _num_rows(kept[constants.LABELS_KEY])
        for key, rows in self._rows_by_slice(batch, num_rows).items():
            group = kept if len(rows) == num_rows else _take(kept, np.asarray(rows))
            yield {**group, constants.SLICE_KEY_TYPES_KEY: slicer_lib.slice_keys_to_numpy_array([key])}

    def _rows_by_slice(self, batch: dict[str, Any], num_rows: int) -> dict[Any, list[int]]:
        sources = [*_by_model(batch.get(constants.TRANSFORMED_FEATURES_KEY)), batch.get(constants.FEATURES_KEY) or {}]
        columns = [
            (index, name, _row_values(source[name]))
            for index, source in enumerate(sources)
            for name in self._columns
            if name in source
        ]
        identities = zip(*(values for _, _, values in columns), strict=True) if columns else [()] * num_rows
        rows: dict[Any, list[int]] = {}
        for row, identity in enumerate(identities):
            if identity not in self._slices_of:
                self._slices_of[identity] = self._slices(columns, identity, len(sources))
            for key in self._slices_of[identity]:
                rows.setdefault(key, []).append(row)
        return rows

    def _slices(self, columns: list[tuple], identity: tuple, num_sources: int) -> list:
        sources: list[_Tensors] = [{} for _ in range(num_sources)]
        for (index, name, _), values in zip(columns, identity, strict=True):
            sources[index][name] = None if values is None else np.asarray(values)
        return list(set(slicer_lib.get_slices_for_features_dicts(sources[:-1], sources[-1], self._specs)))


def _row_values(value: Any) -> list[tuple | None]:
    """Every row's values of one column, as they can be looked up; None where the row has no such column."""
    if isinstance(value, np.ndarray) and value.ndim:
        return [tuple(row) for row in value.reshape(len(value), -1).tolist()]
    rows = value.dense_rows() if isinstance(value, tfma_types.VarLenTensorValue) else _split(value)
    return [None if row is None else tuple(np.ravel(row).tolist()) for row in rows]


def _split(value: Any) -> list:
    """Rows of the rarer kinds of tensors, by TFMA."""
    return [getattr(row["value"], "values", row["value"]) for row in util.split_extracts({"value": value})]


def _by_model(transformed: Any) -> list[_Tensors]:
    """Transformed features: of one model as they are, of several keyed by the model's name."""
    if not transformed:
        return []
    values = list(transformed.values())
    return values if all(isinstance(value, dict) for value in values) else [transformed]


def _dense(value: Any, what: str) -> Any:
    """The same tree with arrays whose first dimension is the rows.

    Raises:
      EvaluationConfigError: a row has no value, or another number of values than its neighbours.
    """
    if isinstance(value, dict):
        return {key: _dense(part, f"{what}.{key}") for key, part in value.items()}
    if isinstance(value, tfma_types.VarLenTensorValue):
        rows = list(value.dense_rows())
        sizes = {len(row) for row in rows}
        if len(sizes) != 1 or 0 in sizes:
            raise EvaluationConfigError(
                f"evaluate: {what}: rows have {sorted(sizes)} values; every row needs the same number, at least one"
            )
        return np.stack(rows)
    return np.asarray(value)


def _num_rows(tree: Any) -> int:
    return _num_rows(next(iter(tree.values()))) if isinstance(tree, dict) else len(tree)


def _take(tree: Any, rows: np.ndarray) -> Any:
    return {key: _take(part, rows) for key, part in tree.items()} if isinstance(tree, dict) else tree[rows]
