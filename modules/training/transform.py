"""What the model's data looks like before and after Transform."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow_transform as tft
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2
from tensorflow_transform.tf_metadata import schema_utils

from modules.training.errors import TrainingConfigError


@dataclasses.dataclass(frozen=True)
class ModelData:
    """Feature specs of the raw and of the model's own examples; without Transform they are the same."""

    raw_spec: Mapping[str, Any]
    model_spec: Mapping[str, Any]
    raw_schema: schema_pb2.Schema
    transform_output: tft.TFTransformOutput | None

    def words(self) -> dict[str, list[bytes]]:
        """Values that text features can have, as far as the schema or a vocabulary of the same name says."""
        found: dict[str, list[bytes]] = {}
        domains = {domain.name: list(domain.value) for domain in self.raw_schema.string_domain}
        for feature in self.raw_schema.feature:
            values = list(feature.string_domain.value) or domains.get(feature.domain, [])
            if values:
                found[feature.name] = [value.encode() for value in values]
            elif self.transform_output is not None and feature.type == schema_pb2.BYTES:
                vocabulary = self.transform_output.vocabulary_file_by_name(feature.name)
                if vocabulary:
                    found[feature.name] = self.transform_output.vocabulary_by_name(feature.name)[:100]
        return found


def read_model_data(fn_args: Any) -> ModelData:
    """Reads the transform graph's specs, or without one the schema's.

    Raises:
      TrainingConfigError: fn_args has neither, or it is none.
    """
    if fn_args.transform_graph_path:
        folder = fn_args.transform_graph_path
        if not tf.io.gfile.isdir(f"{folder}/{tft.TFTransformOutput.TRANSFORMED_METADATA_DIR}"):
            raise TrainingConfigError(
                f"transform graph: {folder} is not what Transform writes; expected its output folder"
            )
        output = tft.TFTransformOutput(folder)
        schema = output.raw_metadata.schema
        return ModelData(output.raw_feature_spec(), output.transformed_feature_spec(), schema, output)
    if not fn_args.schema_path:
        raise TrainingConfigError("the Trainer got neither a transform_graph nor a schema, so the examples are unknown")
    schema = schema_pb2.Schema()
    try:
        with tf.io.gfile.GFile(fn_args.schema_path, "r") as file:
            text_format.Parse(file.read(), schema)
    except (text_format.ParseError, UnicodeDecodeError, tf.errors.OpError) as error:
        raise TrainingConfigError(f"schema: {fn_args.schema_path} cannot be read as a schema.pbtxt: {error}") from None
    spec = schema_utils.schema_as_feature_spec(schema).feature_spec
    return ModelData(spec, spec, schema, None)
