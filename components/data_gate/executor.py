"""The DataGate step's work: reads artifacts, judges, leaves verdict.json and report.html, stops the run if need be."""

import dataclasses
import json
import os
from typing import Any

from absl import logging
from tensorflow_metadata.proto.v0 import anomalies_pb2
from tfx import types
from tfx.components.statistics_gen import stats_artifact_utils
from tfx.components.util import examples_utils
from tfx.dsl.components.base import base_beam_executor
from tfx.dsl.io import fileio
from tfx.types import artifact_utils
from tfx.utils import io_utils

from components.data_gate import blessed_statistics, report
from components.data_gate.config import GatePolicy
from components.data_gate.context import GateInputs, Statistics
from components.data_gate.errors import DataRejectedError
from components.data_gate.finding import Verdict
from components.data_gate.gate import judge
from components.data_gate.source_lines import Ingested, add_lines
from components.data_gate.word_notes import missing_words
from components.example_gen.config import IngestConfig
from components.example_gen.errors import IngestDataError
from components.model_registry.registry import ModelRegistry

VERDICT_FILE = "verdict.json"
PAGE_FILE = "report.html"
_ANOMALIES_FILE = "SchemaDiff.pb"
_EXAMPLE_FORMAT = "FORMAT_TF_EXAMPLE"


class Executor(base_beam_executor.BaseBeamExecutor):
    """Raises DataRejectedError on a blocking finding, after the verdict and the page are written."""

    def Do(
        self,
        input_dict: dict[str, list[types.Artifact]],
        output_dict: dict[str, list[types.Artifact]],
        exec_properties: dict[str, Any],
    ) -> None:
        """See `DataGateSpec` for the keys of the three."""
        self._log_startup(input_dict, output_dict, exec_properties)
        policy = GatePolicy.from_json(exec_properties["policy"])
        ingestion = _ingestion_report(input_dict.get("ingestion_report", []))
        inputs = _with_baseline(_read_inputs(input_dict), input_dict, exec_properties)
        inputs = dataclasses.replace(inputs, notes=tuple(missing_words(ingestion)))
        artifact = artifact_utils.get_single_instance(output_dict["verdict"])
        scratch = self._get_tmp_dir() if self._context else None
        verdict = _with_lines(judge(inputs, policy, self._make_beam_pipeline, scratch), ingestion)
        artifact.set_int_custom_property("accepted", int(verdict.accepted))
        files = {VERDICT_FILE: verdict.to_json(), PAGE_FILE: report.render(verdict, inputs)}
        _write(artifact.uri, files)
        for finding in verdict.findings:
            logging.warning("%s: %s", finding.severity, finding.sentence())
        for note in verdict.notes:
            logging.warning("note: %s", note)
        for item in verdict.not_checked:
            logging.info("not checked: %s: %s", item.rule, item.why)
        if not verdict.accepted:
            # TFX removes the outputs of a step that fails, so the evidence is kept beside them.
            step, execution = os.path.dirname(os.path.dirname(artifact.uri)), os.path.basename(artifact.uri)
            folder = os.path.join(step, "rejected", execution)
            _write(folder, files)
            raise DataRejectedError(verdict.message(os.path.join(folder, PAGE_FILE)))


def _ingestion_report(reports: list[types.Artifact]) -> dict[str, Any]:
    """ExampleGen's report.json; empty where there is none."""
    if not reports:
        return {}
    with fileio.open(os.path.join(reports[0].uri, "report.json")) as file:
        return json.load(file)


def _with_lines(verdict: Verdict, ingestion: dict[str, Any]) -> Verdict:
    """`verdict` with the lines of the files that the rows were ingested from, where those are still there."""
    if not ingestion:
        return verdict
    config = IngestConfig.from_json(json.dumps(ingestion["config"]))
    try:
        return add_lines(verdict, [Ingested.from_report(ingestion, config)])
    except (IngestDataError, OSError) as error:
        logging.info("sample rows keep the places of their examples, the files cannot be read: %s", error)
        return verdict


def _write(folder: str, files: dict[str, str]) -> None:
    fileio.makedirs(folder)
    for name, content in files.items():
        io_utils.write_string_file(os.path.join(folder, name), content)


def _read_inputs(input_dict: dict[str, list[types.Artifact]]) -> GateInputs:
    schema_uri = artifact_utils.get_single_uri(input_dict["schema"])
    return GateInputs(
        schema=io_utils.SchemaReader().read(io_utils.get_only_uri_in_dir(schema_uri)),
        statistics=_statistics(input_dict["statistics"]),
        baseline=_statistics(input_dict.get("baseline_statistics", [])),
        serving=next(iter(_statistics(input_dict.get("serving_statistics", [])).values()), None),
        anomalies=_anomalies(input_dict.get("anomalies", [])),
        examples=_example_files(input_dict.get("examples", [])),
        source=input_dict["examples"][0].uri if input_dict.get("examples") else "DATA",
    )


def _with_baseline(
    inputs: GateInputs, input_dict: dict[str, list[types.Artifact]], exec_properties: dict[str, Any]
) -> GateInputs:
    """`inputs` with the baseline of the model registry, where there is one and no other was given."""
    registry = exec_properties.get("registry")
    if inputs.baseline or not registry:
        return inputs
    examples = next(iter(input_dict.get("examples", [])), None)
    fingerprint = examples.get_string_custom_property("input_fingerprint") if examples else ""
    version, baseline = blessed_statistics.before(
        ModelRegistry(registry, exec_properties["model_name"]), inputs.statistics, fingerprint
    )
    if version is not None:
        logging.info("the baseline is the data of version %d in %s", version, registry)
    return dataclasses.replace(inputs, baseline=baseline)


def _statistics(artifacts: list[types.Artifact]) -> dict[str, Statistics]:
    """Split -> statistics of the first artifact; empty where there is none."""
    if not artifacts:
        return {}
    artifact = artifacts[0]
    splits = artifact_utils.decode_split_names(artifact.split_names)
    return {split: stats_artifact_utils.load_statistics(artifact, split).proto() for split in splits}


def _anomalies(artifacts: list[types.Artifact]) -> dict[str, anomalies_pb2.Anomalies]:
    result = {}
    for artifact in artifacts[:1]:
        for split in artifact_utils.decode_split_names(artifact.split_names):
            path = os.path.join(artifact_utils.get_split_uri([artifact], split), _ANOMALIES_FILE)
            with fileio.open(path, "rb") as file:
                result[split] = anomalies_pb2.Anomalies.FromString(file.read())
    return result


def _example_files(artifacts: list[types.Artifact]) -> dict[str, tuple[str, ...]]:
    """Split -> files; empty for examples that are not TFRecords of tf.Examples."""
    if not artifacts or examples_utils.get_payload_format_string(artifacts[0]) != _EXAMPLE_FORMAT:
        return {}
    files = {}
    for split in artifact_utils.decode_split_names(artifacts[0].split_names):
        uris = artifact_utils.get_split_uris(artifacts, split)
        files[split] = tuple(sorted(str(path) for uri in uris for path in fileio.glob(os.path.join(uri, "*"))))
    return files
