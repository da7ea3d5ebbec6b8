"""Pictures through the development server: who sends a broken one is told so, those batched with it are answered."""

import base64
import concurrent.futures
import io

import httpx
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from modules.images import pictures
from modules.images.config import ImageModelConfig
from modules.images.features import ENCODED_KEY, IMAGE_KEY, PIXELS_KEY
from modules.serving.batching_file import BatchingConfig
from modules.serving.manager import LoadingConfig
from modules.serving.model_config import VersionPolicy, models_under
from modules.serving.server import ModelServer, ServerConfig

AN_HOUR_MICROS = 3_600_000_000  # a batch runs when it is full, and not before


class Brightness(tf.Module):
    """The input of every model of pictures, and the mean of what it sees as the model."""

    def __init__(self):
        super().__init__()
        self._pixels = pictures.pixels_of(ImageModelConfig(depth=18, stem="small", image_size=8, crop="none"))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name=IMAGE_KEY)], autograph=False)
    def predict_features(self, image):
        pixels = self._pixels({ENCODED_KEY: image}, None)[PIXELS_KEY]
        return {"brightness": tf.reduce_mean(tf.cast(pixels, tf.float32), axis=[1, 2, 3])}


def saved(level: int, kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.full((20, 30, 3), level, np.uint8)).save(buffer, kind)
    return buffer.getvalue()


GOOD = {level: saved(level, "PNG" if level % 2 else "JPEG") for level in (10, 55, 100, 155)}
NOISE = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
_noisy = io.BytesIO()
Image.fromarray(NOISE).save(_noisy, "PNG")
BAD = {
    "empty": b"",
    "one byte": b"\x89",
    "text": b"<html>404</html>",
    "cut png": _noisy.getvalue()[:2000],
    "cut jpeg": saved(9, "JPEG")[:200],
    "corrupt png": _noisy.getvalue()[:400] + bytes(400) + _noisy.getvalue()[800:],
}


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    base = tmp_path_factory.mktemp("served") / "pictures"
    model = Brightness()
    tf.saved_model.save(model, str(base / "1"), signatures={"predict_features": model.predict_features})
    batching = BatchingConfig(max_batch_size=len(GOOD) + 1, batch_timeout_micros=AN_HOUR_MICROS, num_batch_threads=1)
    config = ServerConfig(rest_port=0, grpc_port=0, request_seconds=60, loading=LoadingConfig(batching=batching))
    models = models_under(str(base), "pictures", VersionPolicy.parse("latest"))
    with ModelServer(models, config, [str(base)]) as server:
        yield f"{server.rest_url}/v1/models/pictures:predict"


@pytest.mark.parametrize("kind", BAD)
def test_a_broken_picture_fails_alone(url, kind):
    sent = [*GOOD.values(), BAD[kind]]

    def ask(data: bytes) -> httpx.Response:
        image = {"b64": base64.b64encode(data).decode()}
        body = {"signature_name": "predict_features", "instances": [{IMAGE_KEY: image}]}
        return httpx.post(url, json=body, timeout=60)

    with concurrent.futures.ThreadPoolExecutor(len(sent)) as pool:
        *good, bad = pool.map(ask, sent)
    assert [answer.status_code for answer in good] == [200] * len(GOOD)
    seen = [answer.json()["predictions"][0] for answer in good]
    assert seen == pytest.approx(list(GOOD), abs=1.5)
    assert bad.status_code == 400, bad.text
    assert bad.json()["error"]
