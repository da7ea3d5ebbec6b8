"""Response messages that both protocols share."""

from collections.abc import Iterable

from tensorflow_serving.apis import get_model_status_pb2

from modules.serving.versions import ModelVersion


def status_response(versions: Iterable[ModelVersion]) -> get_model_status_pb2.GetModelStatusResponse:
    """States of versions, in the order given, with the error of each that could not be loaded."""
    response = get_model_status_pb2.GetModelStatusResponse()
    for version in versions:
        status = response.model_version_status.add(version=version.number, state=version.state.value)
        error = version.error
        if error is not None:
            status.status.error_code = error.code.number
            status.status.error_message = error.message
        else:
            status.status.SetInParent()
    return response
