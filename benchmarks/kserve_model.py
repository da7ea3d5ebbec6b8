"""KServe's Python model server with a SavedModel behind it, for comparison: python kserve_model.py DIR PORT."""

import sys

import kserve
import numpy as np
import tensorflow as tf


class SavedModel(kserve.Model):
    """Answers KServe's V1 protocol with the model's serving signature."""

    def __init__(self, name: str, path: str):
        super().__init__(name)
        self._loaded = tf.saved_model.load(path)
        self._call = self._loaded.signatures["serving_default"]
        self.ready = True

    def predict(self, payload: dict, headers: dict | None = None, response_headers: dict | None = None) -> dict:
        """{"instances": rows} to {"predictions": rows}."""
        outputs = self._call(x=tf.constant(np.array(payload["instances"], np.float32)))
        return {"predictions": outputs["scores"].numpy().tolist()}


if __name__ == "__main__":
    path, port = sys.argv[1:]
    server = kserve.ModelServer(http_port=int(port), enable_grpc=False, workers=1)
    server.start([SavedModel("mlp", path)])
