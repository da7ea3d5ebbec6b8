"""The pod that this process runs in, with which its jobs should go."""

import os
import socket

from components.trainer.kubernetes.api import Api
from components.trainer.kubernetes.job_spec import Owner


def of_this_pod(api: Api) -> Owner | None:
    """The step's own pod; None outside of the cluster. Its name is the host's, or KFP_POD_NAME where the pod has it."""
    if "KUBERNETES_SERVICE_HOST" not in os.environ:
        return None
    pod = api.pod(os.environ.get("KFP_POD_NAME") or socket.gethostname())
    return None if pod is None else Owner(name=pod["metadata"]["name"], uid=pod["metadata"]["uid"])
