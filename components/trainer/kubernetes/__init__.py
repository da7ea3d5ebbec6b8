"""Training clusters on Kubernetes: manifests as pure functions, and a client that runs them."""
