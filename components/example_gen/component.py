"""ExampleGen: what it takes and what it gives. The work is in the executor."""
# mypy: disable-error-code="attr-defined,name-defined"
# TFX's generated protos have no annotations.

import dataclasses

from tfx.components.example_gen import utils
from tfx.dsl.components.base import base_beam_component, executor_spec
from tfx.orchestration import data_types
from tfx.proto import example_gen_pb2, range_config_pb2
from tfx.types import channel, component_spec, standard_artifacts, standard_component_specs

from components.artifacts import IngestionReport
from components.example_gen.config import IngestConfig, SplitConfig
from components.example_gen.driver import Driver
from components.example_gen.errors import IngestConfigError
from components.example_gen.executor import INGEST_CONFIG_KEY, REPORT_KEY, Executor

_Parameter = component_spec.ExecutionParameter


class ExampleGenSpec(component_spec.ComponentSpec):
    """The stock FileBasedExampleGen's parameters, an IngestConfig, and a report beside the examples."""

    PARAMETERS = {
        standard_component_specs.INPUT_BASE_KEY: _Parameter(type=str),
        standard_component_specs.INPUT_CONFIG_KEY: _Parameter(type=example_gen_pb2.Input),
        standard_component_specs.OUTPUT_CONFIG_KEY: _Parameter(type=example_gen_pb2.Output),
        standard_component_specs.RANGE_CONFIG_KEY: _Parameter(type=range_config_pb2.RangeConfig, optional=True),
        standard_component_specs.OUTPUT_DATA_FORMAT_KEY: _Parameter(type=int),
        standard_component_specs.OUTPUT_FILE_FORMAT_KEY: _Parameter(type=int),
        INGEST_CONFIG_KEY: _Parameter(type=str),
    }
    INPUTS: dict = {}
    OUTPUTS = {
        standard_component_specs.EXAMPLES_KEY: component_spec.ChannelParameter(type=standard_artifacts.Examples),
        REPORT_KEY: component_spec.ChannelParameter(type=IngestionReport),
    }


class ExampleGen(base_beam_component.BaseBeamComponent):
    """Tabular files to splits of tf.Examples.

    Outputs:
      examples: standard Examples with a Split-<name> folder of gzip TFRecords per split.
      report: IngestionReport with report.json and report.html.
    """

    SPEC_CLASS = ExampleGenSpec
    EXECUTOR_SPEC = executor_spec.BeamExecutorSpec(Executor)
    DRIVER_CLASS = Driver

    def __init__(
        self,
        input_base: str | data_types.RuntimeParameter,
        config: IngestConfig | None = None,
        input_config: example_gen_pb2.Input | None = None,
        output_config: example_gen_pb2.Output | None = None,
        range_config: range_config_pb2.RangeConfig | data_types.RuntimeParameter | None = None,
    ) -> None:
        """Describes ingestion.

        Args:
          input_base: the folder that the patterns are relative to.
          config: formats, types, bad rows, splits and the rest.
          input_config: patterns as the stock component takes them; more than one makes splits by file.
          output_config: hash buckets as the stock component takes them; wins over `config.split`.
          range_config: which span to take when patterns have one; the latest by default.

        Raises:
          IngestConfigError: the configs contradict each other, or downstream components could not read the output.
        """
        config = config or IngestConfig()
        if config.compression != "gzip":
            raise IngestConfigError(
                "compression: downstream TFX components read gzip TFRecords; set gzip in a pipeline"
            )
        input_config = input_config or _input_config(config)
        config = dataclasses.replace(config, split=_effective_split(config.split, input_config, output_config))
        spec = ExampleGenSpec(
            **{
                standard_component_specs.INPUT_BASE_KEY: input_base,
                standard_component_specs.INPUT_CONFIG_KEY: input_config,
                standard_component_specs.OUTPUT_CONFIG_KEY: output_config or _output_config(config.split),
                standard_component_specs.RANGE_CONFIG_KEY: range_config,
                standard_component_specs.OUTPUT_DATA_FORMAT_KEY: example_gen_pb2.FORMAT_TF_EXAMPLE,
                standard_component_specs.OUTPUT_FILE_FORMAT_KEY: example_gen_pb2.FORMAT_TFRECORDS_GZIP,
                INGEST_CONFIG_KEY: config.to_json(),
                standard_component_specs.EXAMPLES_KEY: channel.Channel(type=standard_artifacts.Examples),
                REPORT_KEY: channel.Channel(type=IngestionReport),
            }
        )
        super().__init__(spec=spec)
        if config.beam_pipeline_args:
            self.with_beam_pipeline_args(list(config.beam_pipeline_args))


def _input_config(config: IngestConfig) -> example_gen_pb2.Input:
    if config.split.by != "files":
        return utils.make_default_input_config(config.pattern)
    split = example_gen_pb2.Input.Split
    return example_gen_pb2.Input(
        splits=[split(name=name, pattern=pattern) for name, pattern in config.split.files.items()]
    )


def _effective_split(
    split: SplitConfig, input_config: example_gen_pb2.Input, output_config: example_gen_pb2.Output | None
) -> SplitConfig:
    """`split` with what the stock protos say put in its place."""
    hashed = output_config.split_config if output_config is not None else None
    if hashed is not None and hashed.splits:
        if len(input_config.splits) != 1:
            raise IngestConfigError("output_config divides rows by hash, so input_config must have one split")
        weights = {part.name: part.hash_buckets for part in hashed.splits}
        columns = (hashed.partition_feature_name,) if hashed.HasField("partition_feature_name") else ()
        return SplitConfig(by="columns" if columns else "row", weights=weights, columns=columns, seed=split.seed)
    if len(input_config.splits) > 1:
        files = {part.name: part.pattern for part in input_config.splits}
        return SplitConfig(by="files", files=files, seed=split.seed)
    return split


def _output_config(split: SplitConfig) -> example_gen_pb2.Output:
    if split.by == "files":
        return example_gen_pb2.Output()
    shares = split.weights if split.by != "time" else dict.fromkeys(split.names, 1)
    parts = [example_gen_pb2.SplitConfig.Split(name=name, hash_buckets=share) for name, share in shares.items()]
    hashed = example_gen_pb2.SplitConfig(splits=parts)
    if split.by == "columns" and len(split.columns) == 1:
        hashed.partition_feature_name = split.columns[0]
    return example_gen_pb2.Output(split_config=hashed)
