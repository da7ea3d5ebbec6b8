"""A run_fn for ParameterServerStrategy as TensorFlow's guide has it: servers serve, the chief coordinates."""

import tensorflow as tf


def run_fn(fn_args):
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if resolver.task_type in ("worker", "ps"):
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc"
        )
        server.join()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        weight = tf.Variable(0.0)

    @tf.function
    def step():
        strategy.run(lambda: weight.assign_add(1.0))

    for _ in range(10):
        coordinator.schedule(step)
    coordinator.join()
    print(f"weight {weight.numpy()} on {weight.device}")
    module = tf.Module()
    module.weight = tf.Variable(weight.numpy())
    tf.saved_model.save(module, fn_args.serving_model_dir)
