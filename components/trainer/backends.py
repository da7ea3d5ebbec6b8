"""Which backend runs a training job: the first of those configured that is there."""

import dataclasses
import pathlib

from components.trainer.cluster_config import LOCAL, ClusterConfig
from components.trainer.errors import TrainingConfigError, TrainingError
from components.trainer.job import Job
from components.trainer.local_job import LocalJob
from components.trainer.staging import require_visible, stage_in
from components.trainer.training_spec import TrainingSpec


@dataclasses.dataclass(frozen=True)
class PreparedJob:
    """A job that can be submitted, and the spec as its workers see it."""

    job: Job
    spec: TrainingSpec
    note: str = ""  # for a person: which backends were not there


def prepare(spec: TrainingSpec, cluster: ClusterConfig) -> PreparedJob:
    """Chooses the backend and writes the spec to where the workers read it.

    Raises:
      TrainingConfigError: none of the configured backends is available.
    """
    missing: list[str] = []
    for name in cluster.backends:
        if name == LOCAL:
            spec.write()
            return PreparedJob(LocalJob(spec, cluster), spec, _note(missing, name))
        try:
            prepared = _prepare_kubernetes(spec, cluster, name)
        except _NotAvailableError as error:
            missing.append(f"{name} ({error})")
            continue
        return dataclasses.replace(prepared, note=_note(missing, name))
    raise TrainingConfigError(f"cluster: no backend is available: {'; '.join(missing)}")


class _NotAvailableError(Exception):
    pass


def _prepare_kubernetes(spec: TrainingSpec, cluster: ClusterConfig, name: str) -> PreparedJob:
    # The client takes a while to import, and a laptop needs it not.
    from components.trainer.kubernetes import api, owner
    from components.trainer.kubernetes.job_spec import KubernetesJobSpec, job_name
    from components.trainer.kubernetes.kubernetes_job import KubernetesJob
    from components.trainer.kubernetes.manifests import KINDS

    pods = cluster.kubernetes
    assert pods is not None  # ClusterConfig has seen to it
    kind = KINDS[name]
    try:
        connection = api.connect(pods.namespace)
        is_there = connection.serves(kind.group, kind.version, kind.plural)
    except (TrainingConfigError, TrainingError) as error:
        raise _NotAvailableError(str(error)) from error
    if not is_there:
        raise _NotAvailableError(f"the cluster has no {kind.plural}.{kind.group}/{kind.version}")
    log_path = pathlib.Path(spec.job_dir, "job.log")  # beside the step, wherever the pods are
    job_id = job_name(spec.name, spec.model_dir)
    if pods.shared_dir:
        spec = stage_in(spec, pods.shared_dir, job_id)
    require_visible(spec, [volume.mount_path for volume in pods.volumes])
    job_spec = KubernetesJobSpec(
        name=job_id,
        spec_path=str(spec.write()),
        cluster=cluster,
        pods=pods,
        owner=owner.of_this_pod(connection),
    )
    return PreparedJob(KubernetesJob(job_spec, kind, connection, log_path), spec)


def _note(missing: list[str], chosen: str) -> str:
    return f"training on {chosen}, because these are not available: {'; '.join(missing)}" if missing else ""
