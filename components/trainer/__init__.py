"""The training step: a TFX Trainer that runs `run_fn` on a cluster, here or on Kubernetes."""
