"""TensorFlow Serving's batching parameters file, the one that --batching_parameters_file names."""

import bisect
import dataclasses
import os
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format, wrappers_pb2

from modules.serving.status import ServingUsageError

_WRAPPED = {  # field: (number, type); these are wrapper messages, so that "not set" can be told from 0
    "max_batch_size": (1, "Int64Value"),
    "batch_timeout_micros": (2, "Int64Value"),
    "max_enqueued_batches": (3, "Int64Value"),
    "num_batch_threads": (4, "Int64Value"),
    "thread_pool_name": (5, "StringValue"),
    "enable_large_batch_splitting": (8, "BoolValue"),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class BatchingConfig:
    """How requests are batched; the defaults are those of TensorFlow Serving's batch scheduler.

    Attributes:
      max_batch_size: rows in one session call at most.
      batch_timeout_micros: how long the oldest request of a batch waits for others, in microseconds.
      max_enqueued_batches: full batches that may wait; beyond them a request is refused as UNAVAILABLE.
      num_batch_threads: batches that run at the same time.
      allowed_batch_sizes: sizes that batches are padded up to, rising, ending at max_batch_size; empty: no padding.
      enable_large_batch_splitting: whether a request larger than max_batch_size is split or refused.
    """

    max_batch_size: int = 1000
    batch_timeout_micros: int = 0
    max_enqueued_batches: int = 10
    num_batch_threads: int = dataclasses.field(default_factory=lambda: os.cpu_count() or 1)
    allowed_batch_sizes: tuple[int, ...] = ()
    enable_large_batch_splitting: bool = False

    def __post_init__(self) -> None:
        for name in ("max_batch_size", "max_enqueued_batches", "num_batch_threads"):
            if getattr(self, name) < 1:
                raise ServingUsageError(f"batching: {name} is {getattr(self, name)}, expected at least 1")
        if self.batch_timeout_micros < 0:
            raise ServingUsageError(
                f"batching: batch_timeout_micros is {self.batch_timeout_micros}, expected at least 0"
            )
        sizes = self.allowed_batch_sizes
        if sizes and (list(sizes) != sorted(set(sizes)) or sizes[0] < 1 or sizes[-1] != self.max_batch_size):
            raise ServingUsageError(
                f"batching: allowed_batch_sizes {list(sizes)} must be positive, in increasing order, and end at "
                f"max_batch_size ({self.max_batch_size})"
            )

    def padded(self, rows: int) -> int:
        """The size that a batch of `rows` runs with."""
        sizes = self.allowed_batch_sizes
        return sizes[bisect.bisect_left(sizes, rows)] if sizes else rows


def read_batching_file(path: str) -> BatchingConfig:
    """The batching parameters in a text-format file, such as `max_batch_size { value: 32 }`.

    Raises:
      ServingUsageError: names the file, and the line or field at fault.
    """
    try:
        with open(path, encoding="utf-8") as stream:
            return parse_batching(stream.read())
    except (OSError, UnicodeDecodeError) as error:
        raise ServingUsageError(f"cannot read the batching parameters {path}: {error}") from None
    except (text_format.ParseError, ServingUsageError) as error:
        raise ServingUsageError(f"{path}: {error}") from None


def parse_batching(text: str) -> BatchingConfig:
    """The batching parameters in `text`; what it does not set keeps its default."""
    message = text_format.Parse(text, _message_class()())
    if message.pad_variable_length_inputs:
        raise ServingUsageError(
            "pad_variable_length_inputs is not supported here: requests of different shapes run in batches of their own"
        )
    settings: dict[str, Any] = {
        name: getattr(message, name).value for name in _WRAPPED if message.HasField(name) and name != "thread_pool_name"
    }
    if message.allowed_batch_sizes:
        settings["allowed_batch_sizes"] = tuple(message.allowed_batch_sizes)
    return BatchingConfig(**settings)


def _message_class() -> Any:
    """The BatchingParameters message. The official client stubs leave it out, so its fields are declared here."""
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="sluice/batching_parameters.proto", package="sluice.serving", syntax="proto3"
    )
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    message = file.message_type.add(name="BatchingParameters")
    for name, (number, wrapper) in _WRAPPED.items():
        message.field.add(
            name=name,
            number=number,
            label=field_type.LABEL_OPTIONAL,
            type=field_type.TYPE_MESSAGE,
            type_name=f".google.protobuf.{wrapper}",
        )
    message.field.add(name="allowed_batch_sizes", number=6, label=field_type.LABEL_REPEATED, type=field_type.TYPE_INT64)
    message.field.add(
        name="pad_variable_length_inputs", number=7, label=field_type.LABEL_OPTIONAL, type=field_type.TYPE_BOOL
    )
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sluice.serving.BatchingParameters"))
