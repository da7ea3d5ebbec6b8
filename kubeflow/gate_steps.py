"""Steps that judge data: one that always succeeds, so that its page is kept, and one after it that ends the run.

Kubeflow's launcher uploads nothing of a step that fails. A gate that failed would take its own reasons along.
"""

from tfx.dsl.components.base import base_node

from kubeflow import plan, tasks
from kubeflow.rewriting_context import Context

STOP_SUFFIX = "-stop"
_JUDGES = ("DataVerdict",)


def declare(task: tasks.Task, node: base_node.BaseNode) -> bool:
    """Whether the node judges data; its task then says so in an output parameter."""
    judges = any(made.type.__name__ in _JUDGES for made in node.outputs.values())
    if judges:
        task.output_parameters[plan.REJECTION_PARAMETER] = {"parameterType": tasks.STRING}
    return judges


def stop_after(task: tasks.Task, node: base_node.BaseNode, context: Context) -> tasks.Task:
    """A short step that fails where `task` has rejected the data.

    It is never cached: each run says what its verdict is, and an alert about the run before it ends.
    """
    name = task.name + STOP_SUFFIX
    stop = tasks.Task(name=name, node_id=f"{node.id} (stop)", step=context.light_step(), carries_out=task.name)
    stop.parameter_from_task(plan.REJECTION_PARAMETER, task.name, plan.REJECTION_PARAMETER, tasks.STRING)
    arguments = ["--executor-input", "{{$}}", "--step", node.id]
    stop.executor = tasks.container("kubeflow.stop_if_rejected", arguments, stop.step, context.config)
    return stop


def wait_for_stops(made: list[tasks.Task]) -> None:
    """Lets everything that comes after a judging step wait for the step that may end the run."""
    stops = {task.carries_out: task.name for task in made if task.carries_out}
    for task in made:
        if not task.carries_out:
            task.dependencies |= {stops[name] for name in task.dependencies if name in stops}
