"""The taxi workload, compiled for a test: few steps, one bound that the test chooses. Imports TFX when asked."""

import dataclasses
from typing import Any

_NO_BOUNDS: dict[str, Any] = {"at_least": None, "at_most": None, "max_loss": None, "on_slices": False}


def compiled(
    data: str,
    storage: str,
    image: str,
    *,
    auc_at_least: float = 0.5,
    num_workers: int = 1,
    train_steps: int = 40,
    **config: Any,
) -> str:
    """YAML of the pipeline as it is, but for what the model must reach to be blessed.

    Args:
      data: folder of the CSV files, as the steps see it.
      storage: shared storage, as the steps see it.
      image: of every step.
      auc_at_least: the only bound.
      num_workers: of the Trainer, as processes of its step.
      train_steps: optimizer steps.
      **config: more of KubeflowConfig.
    """
    from kubeflow import compiler
    from kubeflow.config import KubeflowConfig
    from pipeline import config as pipeline_config
    from pipeline import pipeline

    settings = pipeline_config.make_config(
        "taxi",
        compare_with_last_blessed_data=False,
        data=data,
        root=storage,
        metadata_path="/unused.sqlite",
        num_workers=num_workers,
        train_steps=train_steps,
    )
    evaluate = settings.workload.evaluate
    bounds = {"at_least": auc_at_least, "max_loss": 0.5, "on_slices": False}
    metrics = tuple(
        dataclasses.replace(metric, **(bounds if metric.name == "AUC" else _NO_BOUNDS)) for metric in evaluate.metrics
    )
    workload = dataclasses.replace(
        settings.workload, evaluate=dataclasses.replace(evaluate, metrics=metrics, slices=())
    )
    made = pipeline.create_pipeline(dataclasses.replace(settings, workload=workload))
    return compiler.compile_pipeline(made, KubeflowConfig(image=image, storage=storage, **config)).to_yaml()
