"""Looks at the data before ExampleGen does: `python -m kubeflow.data_probe`.

Runs the component's own driver, which finds the span, the version and the fingerprint of the files. On Kubeflow these
are parameters of the ExampleGen step, so that its cache hit depends on them; the probe itself is never cached.
"""

import json
import logging
from typing import Any

from kubeflow import entrypoint, plan, step_process
from kubeflow.executor_input import ExecutorInput

LOG = logging.getLogger("sluice")


def main(argv: list[str] | None = None) -> int:
    """Runs the probe; returns the exit code of the container."""
    return step_process.run_step(_run, argv)


def _run(step: plan.StepPlan, request: ExecutorInput) -> None:
    from tfx.components.example_gen import utils
    from tfx.orchestration import data_types

    from kubeflow import artifact_codec

    before = entrypoint.exec_properties_of(step, request.parameters)
    driver = artifact_codec.load_class(step.driver)(None)
    pipeline_info = data_types.PipelineInfo("kubeflow", "")
    component_info = data_types.ComponentInfo("", step.step, pipeline_info)
    after: dict[str, Any] = driver.resolve_exec_properties(dict(before), pipeline_info, component_info)
    resolved = {key: value for key, value in after.items() if key not in before or before[key] != value}
    LOG.info("resolved %s", json.dumps(resolved, sort_keys=True))
    names = (utils.SPAN_PROPERTY_NAME, utils.VERSION_PROPERTY_NAME, utils.FINGERPRINT_PROPERTY_NAME)
    parameters = {name: "" if resolved.get(name) is None else str(resolved[name]) for name in names}
    parameters[plan.RESOLVED_EXEC_PROPERTIES] = json.dumps(resolved, sort_keys=True)
    request.write_output({}, parameters)


if __name__ == "__main__":
    raise SystemExit(main())
