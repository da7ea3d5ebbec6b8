"""Serving a SavedModel on one machine: predictions from a version folder, and a development model server.

The server speaks TensorFlow Serving's REST and gRPC API so that clients can be written and tested where no
TensorFlow Serving runs. It is a development server and not TensorFlow Serving.
"""
