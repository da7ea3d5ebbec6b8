"""How a step ended, for Prometheus: pushed to a Pushgateway, because a step is gone before anybody could ask it."""

import logging
import os
import time

GATEWAY_VARIABLE = "SLUICE_PUSHGATEWAY"
PIPELINE_VARIABLE = "SLUICE_PIPELINE"
_TIMEOUT_SECONDS = 5


def push(step: str, exit_code: int, seconds: float) -> None:
    """Pushes exit code, duration and, if it went well, the time; does nothing where no gateway is named.

    A gateway that does not answer is logged and does not fail the step.
    """
    gateway = os.environ.get(GATEWAY_VARIABLE)
    if not gateway:
        return
    import prometheus_client

    registry = prometheus_client.CollectorRegistry()
    values = {
        "sluice_step_last_exit_code": ("Exit code of the step's last attempt.", exit_code),
        "sluice_step_last_duration_seconds": ("How long it took.", seconds),
    }
    if exit_code == 0:
        values["sluice_step_last_success_timestamp_seconds"] = ("When it last ended well.", time.time())
    for name, (text, value) in values.items():
        prometheus_client.Gauge(name, text, registry=registry).set(value)
    grouping = {"pipeline": os.environ.get(PIPELINE_VARIABLE, ""), "step": step}
    try:
        prometheus_client.pushadd_to_gateway(gateway, "sluice", registry, grouping, timeout=_TIMEOUT_SECONDS)
    except OSError as error:
        logging.getLogger("sluice").warning("the Pushgateway %s did not take the metrics: %s", gateway, error)
