# Shares the name `kubeflow` with the Kubeflow SDK: both stay importable side by side.
__path__ = __import__("pkgutil").extend_path(__path__, __name__)
