"""The work of ExampleGen inside TFX: properties to a config, ingestion, artifact properties."""
# mypy: disable-error-code="attr-defined,name-defined"
# TFX's generated protos have no annotations.

import os
from typing import Any

from absl import logging
from tfx.components.example_gen import utils
from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_beam_executor
from tfx.proto import example_gen_pb2
from tfx.types import artifact_utils, standard_component_specs
from tfx.utils import proto_utils

from components.example_gen import report, storage
from components.example_gen.config import IngestConfig
from components.example_gen.ingest import ingest

INGEST_CONFIG_KEY = "ingest_config"
REPORT_KEY = "report"


class Executor(base_beam_executor.BaseBeamExecutor):
    """Ingests what the driver resolved."""

    def Do(self, input_dict: dict, output_dict: dict, exec_properties: dict[str, Any]) -> None:
        """Writes the splits and the report.

        Args:
          input_dict: empty.
          output_dict: "examples" and "report", one artifact each.
          exec_properties: as in ExampleGenSpec, with patterns, span, version and fingerprint from the driver.

        Raises:
          IngestDataError: the data is not fit; nothing is left behind.
        """
        self._log_startup(input_dict, output_dict, exec_properties)
        config = IngestConfig.from_json(exec_properties[INGEST_CONFIG_KEY])
        input_config = example_gen_pb2.Input()
        proto_utils.json_to_proto(exec_properties[standard_component_specs.INPUT_CONFIG_KEY], input_config)
        base = exec_properties[standard_component_specs.INPUT_BASE_KEY]
        by_file = config.split.by == "files"
        root = storage.escape(base)
        patterns = {part.name if by_file else "": os.path.join(root, part.pattern) for part in input_config.splits}

        examples = artifact_utils.get_single_instance(output_dict[standard_component_specs.EXAMPLES_KEY])
        page = artifact_utils.get_single_instance(output_dict[REPORT_KEY])
        span = exec_properties.get(utils.SPAN_PROPERTY_NAME) or 0
        version = exec_properties.get(utils.VERSION_PROPERTY_NAME)
        logging.info("Ingesting %s (span %s, version %s)", ", ".join(patterns.values()), span, version)
        make_pipeline = self._make_beam_pipeline if self._beam_pipeline_args or self._make_beam_pipeline_fn else None
        result = ingest(
            patterns, examples.uri, config, make_pipeline, lambda done, _: report.copy_quarantine(done, page.uri)
        )

        examples.split_names = artifact_utils.encode_split_names(config.split.names)
        examples_utils.set_payload_format(examples, example_gen_pb2.FORMAT_TF_EXAMPLE)
        examples_utils.set_file_format(examples, "tfrecords_gzip")
        page.span = span
        report.write(result, page.uri, config, span=span, version=version, patterns=patterns)
