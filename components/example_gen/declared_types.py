"""Declared types, from the config and from a schema file."""

from components.example_gen import storage
from components.example_gen.config import IngestConfig
from components.example_gen.errors import IngestConfigError


def of(config: IngestConfig, columns: tuple[str, ...]) -> dict[str, str]:
    """Column to declared kind, for columns that there are; all of them where `columns` is not known yet, ()."""
    declared = {**(from_schema(config.schema_file) if config.schema_file else {}), **config.types}
    return {name: kind for name, kind in declared.items() if name in columns or not columns}


def from_schema(path: str) -> dict[str, str]:
    """The types of a tensorflow_metadata Schema in text form.

    Raises:
      IngestConfigError: the file is not there or not a schema.
    """
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    kinds = {schema_pb2.INT: "int", schema_pb2.FLOAT: "float", schema_pb2.BYTES: "bytes"}
    try:
        with storage.reading(path) as file:
            schema = text_format.Parse(file.read(), schema_pb2.Schema())
    except (OSError, text_format.ParseError) as error:
        raise IngestConfigError(f"schema_file {path}: {error}") from None
    return {feature.name: kinds[feature.type] for feature in schema.feature if feature.type in kinds}
