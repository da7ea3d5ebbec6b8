"""The prediction client against a running server, and against what is none."""

import http.server
import threading

import pytest
import tensorflow as tf

from modules.serving.client import PredictionClient
from modules.serving.status import BadRowError, Code, ServingError, ServingUsageError
from pipeline import cli


@pytest.fixture
def client(endpoint):
    with PredictionClient(endpoint.rest, "small") as opened:
        yield opened


def test_plain_tensors(client):
    assert client.predict_rows([{"x": [1, 2]}, {"x": [3, 4]}]) == [{"y": [2.0, 4.0]}, {"y": [6.0, 8.0]}]
    (answer,) = client.predict_rows([{"a": 1, "b": "text"}], "two")
    assert (answer["a_plus"], answer["text"]) == (3, "text")
    assert client.predict_rows([]) == []


def test_plain_tensors_from_the_cells_of_a_csv_and_from_bytes(client):
    rows = [{"a": "1", "b": b"\xff\x00", "label": "extra"}]
    (answer,) = client.predict_rows(rows, "two")
    assert (answer["a_plus"], answer["raw_bytes"]) == (3, {"b64": "/wA="})
    with pytest.raises(BadRowError, match=r"row 2: input 'b' is missing; expected \['a', 'b'\]"):
        client.predict_rows([*rows, {"a": 1}], "two")
    with pytest.raises(BadRowError, match=r"row 1, input 'a': expected DT_INT64, got '1\.5'"):
        client.predict_rows([{"a": "1.5", "b": ""}], "two")
    with pytest.raises(BadRowError, match="row 1: expected an object"):
        client.predict_rows([[1, 2]])


def test_rows_that_name_the_one_string_input_are_not_made_examples(client):
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.append(0.25)
    rows = [{"examples": example.SerializeToString()}]
    assert client.predict_rows(rows, "raw_examples") == [{"probabilities": 0.5}]


def test_an_address_without_http(endpoint):
    with PredictionClient(endpoint.rest.removeprefix("http://"), "small") as client:
        assert client.predict_rows([{"x": [1, 2]}]) == [{"y": [2.0, 4.0]}]


def test_rows_become_examples_where_the_signature_takes_them(client):
    assert client.predict_rows([{"x": 0.5}], "raw_examples") == [{"probabilities": 1.0}]
    assert client.predict_rows([{"x": "0.5"}], "raw_examples", {"x": float}) == [{"probabilities": 1.0}]
    example = tf.train.Example()
    example.features.feature["x"].float_list.value.append(0.25)
    assert client.predict_examples([example.SerializeToString()], "raw_examples") == [{"probabilities": 0.5}]


def test_versions_and_labels(endpoint):
    for which in ({"version": 1}, {"label": "old"}):
        with PredictionClient(endpoint.rest, "small", **which) as client:
            assert client.predict_rows([{"x": [1, 2]}]) == [{"y": [1.0, 2.0]}]
    with pytest.raises(ServingUsageError, match="not both"):
        PredictionClient(endpoint.rest, "small", version=1, label="old")


def test_what_the_server_refuses(endpoint, client):
    with pytest.raises(BadRowError, match="cannot read these rows"):
        client.predict_rows([{"x": [1, 2, 3]}])
    with pytest.raises(ServingUsageError, match=r"no signature 'absent'; it has: classify"):
        client.predict_rows([{"x": [1, 2]}], "absent")
    with PredictionClient(endpoint.rest, "absent") as other, pytest.raises(ServingError, match="absent") as caught:
        other.predict_rows([{"x": [1, 2]}])
    assert caught.value.code is Code.NOT_FOUND


def test_nobody_answers():
    with PredictionClient("http://127.0.0.1:9", "small") as client, pytest.raises(ServingError, match="cannot reach"):
        client.predict_rows([{"x": [1, 2]}])
    with PredictionClient("localhost", "small") as client, pytest.raises(ServingError, match="cannot reach"):
        client.predict_rows([{"x": [1, 2]}])


def test_what_is_no_model_server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        client = PredictionClient(f"http://127.0.0.1:{server.server_port}", "small")
        with client, pytest.raises(ServingError, match="is it a model server"):
            client.predict_rows([{"x": [1, 2]}])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_command_asks_a_server(endpoint, model_folder, tmp_path, capsys):
    rows = tmp_path / "rows.csv"
    rows.write_text("x,count\n0.5,3\n")
    base = str(model_folder / "small")
    arguments = ["predict", "--server", endpoint.rest, "--base", base, "--signature", "raw_examples"]
    assert cli.main([*arguments, "--input", str(rows)]) == 0
    assert "probabilities  1" in capsys.readouterr().out
    assert cli.main([*arguments, "--input", str(rows), "--label", "old"]) == 0
    assert "probabilities  0.5" in capsys.readouterr().out
    rows.write_text('{"x": 0.5}')
    elsewhere = ["predict", "--server", endpoint.rest, "--base", str(tmp_path), "--name", "small"]
    assert cli.main([*elsewhere, "--signature", "raw_examples", "--input", str(rows)]) == 0
    assert "probabilities  1" in capsys.readouterr().out, "a folder of something else tells nothing"
    assert cli.main(arguments) == 2
    assert "--server needs --input" in capsys.readouterr().err
