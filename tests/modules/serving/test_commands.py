"""`sluice serve` and `sluice predict`, as a person runs them."""

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys

import httpx
import pytest
import tensorflow as tf

from pipeline import cli

SERVE = [sys.executable, "-m", "pipeline.cli", "serve"]


@pytest.fixture
def base(tmp_path, publish):
    folder = tmp_path / "small"
    folder.mkdir()
    publish(folder, 1)
    return folder


@pytest.fixture
def serve():
    """serve(*arguments): a server process, once it is ready, and what it said."""
    processes = []

    def begin(*arguments):
        command = [*SERVE, *map(str, arguments), "--port", "0", "--grpc-port", "0", "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        line = process.stdout.readline()
        assert line, process.stderr.read()
        return process, json.loads(line)

    yield begin
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


class TestServe:
    def test_sigterm_drains(self, serve, base):
        process, ready = serve(base, "--label", "stable=1")
        assert ready["models"] == [{"name": "small", "base_path": str(base), "versions": [1], "errors": {}}]
        answer = httpx.post(f"{ready['rest']}/v1/models/small/labels/stable:predict", json={"instances": [[1, 2]]})
        assert answer.json() == {"predictions": [[1.0, 2.0]]}
        host, port = ready["rest"].removeprefix("http://").split(":")
        assert host == "127.0.0.1", "loopback unless asked otherwise"
        body = b'{"instances": [[3, 4]]}'
        head = f"POST /v1/models/small:predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(f"{head}Expect: 100-continue\r\nConnection: close\r\n\r\n".encode())
            assert b"100 Continue" in connection.recv(1000), "the request is in flight"
            process.send_signal(signal.SIGTERM)
            wait_for_line(process, "draining")
            wait_until_refused(host, int(port))
            connection.sendall(body)
            reply = b"".join(iter(lambda: connection.recv(1000), b""))
        assert reply.startswith(b"HTTP/1.1 200 ")
        assert b'{"predictions": [[3.0, 4.0]]}' in reply
        assert process.wait(60) == 0

    def test_ctrl_c_and_the_banner(self, base):
        command = [*SERVE, str(base), "--port", "0", "--grpc-port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = wait_for_line(process, "stop with Ctrl-C", process.stdout)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        process.stdout.close()
        assert "NOT TensorFlow Serving" in said
        assert "model small: versions 1" in said

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (["absent"], "no folder at absent"),
            (["{base}", "--versions", "newest"], "version policy 'newest'"),
            (["{base}", "--label", "stable"], "expected NAME=VERSION"),
            (["{base}", "--batching", "absent.config"], "absent.config"),
            (["{base}", "--model-config", "absent.config"], "absent.config"),
            (["{base}", "--max-request-mb", "0"], "--max-request-mb 0: expected more than 0"),
            (["{base}", "--request-seconds", "-1"], "--request-seconds -1: expected more than 0"),
            (["{base}", "--poll-seconds", "0"], "--poll-seconds 0: expected more than 0"),
            (["{base}", "--drain-seconds", "-1"], "--drain-seconds -1: expected 0 or more"),
            (["{base}", "--load-retries", "-1"], "--load-retries -1: expected 0 or more"),
            (["{base}", "--host", "192.0.2.1"], "cannot listen on 192.0.2.1"),
            (["{base}", "--log-requests", "logs", "--log-share", "2"], "--log-share 2"),
            (["{base}", "--log-requests", "{base}/1/saved_model.pb"], "cannot log requests to"),
        ],
    )
    def test_what_is_refused(self, base, capsys, arguments, reason):
        arguments = [argument.format(base=base) for argument in arguments]
        assert cli.main(["serve", *arguments, "--port", "0", "--grpc-port", "0"]) == 2
        assert reason in capsys.readouterr().err.splitlines()[-1]

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            (["--port", "99999"], "--port 99999: expected a port, 0 to 65535"),
            (["--grpc-port", "-1"], "--grpc-port -1: expected a port, 0 to 65535"),
            (["--port", "8600", "--grpc-port", "8600"], "REST and gRPC need a port each"),
        ],
    )
    def test_ports_that_cannot_be(self, base, capsys, arguments, reason):
        assert cli.main(["serve", str(base), *arguments]) == 2
        assert reason in capsys.readouterr().err


def wait_until_refused(host, port):
    while True:
        try:
            socket.create_connection((host, port), timeout=60).close()
        except ConnectionError:
            return


def wait_for_line(process, text, stream=None):
    """Read a process's output until a line holds `text`; everything that was read."""
    stream = stream or process.stderr
    said = ""
    while text not in said:
        line = stream.readline()
        assert line, f"{text!r} never came; the process said: {said}"
        said += line
    return said


class TestPredict:
    def run(self, capsys, *arguments):
        code = cli.main(["predict", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    def test_csv_rows(self, base, tmp_path, capsys):
        rows = tmp_path / "rows.csv"
        rows.write_text("x,tags,label\n0.25,a,1\n0.5,b,0\n")
        arguments = ["--base", base, "--signature", "raw_examples", "--input", rows]
        code, out, _ = self.run(capsys, *arguments)
        assert code == 0
        assert "row 1: x=0.25, tags=a, label=1" in out
        assert "probabilities  0.25" in out
        code, out, _ = self.run(capsys, *arguments, "--json", "--limit", 1)
        assert json.loads(out) == {"model": f"{base}/1", "version": 1, "predictions": [{"probabilities": 0.25}]}

    def test_json_from_standard_input(self, base, capsys, monkeypatch, tmp_path):
        rows = tmp_path / "rows.json"
        rows.write_text('{"x": [1, 2]}\n{"x": [3, 4]}\n')
        with rows.open() as stream:
            monkeypatch.setattr(sys, "stdin", stream)
            _, out, _ = self.run(capsys, "--base", base, "--input", "-", "--json")
        assert json.loads(out)["predictions"] == [{"y": [1.0, 2.0]}, {"y": [3.0, 4.0]}]

    def test_tf_examples_and_a_chosen_version(self, base, publish, tmp_path, capsys):
        publish(base, 7, factor=2)
        path = str(tmp_path / "rows.gz")
        with tf.io.TFRecordWriter(path, "GZIP") as writer:
            writer.write(self.example(0.25))
        arguments = ["--base", base, "--signature", "raw_examples", "--input", path, "--json"]
        assert json.loads(self.run(capsys, *arguments)[1])["predictions"] == [{"probabilities": 0.5}]
        older = json.loads(self.run(capsys, *arguments, "--version", 1)[1])
        assert (older["version"], older["predictions"]) == (1, [{"probabilities": 0.25}])

    @staticmethod
    def example(value):
        example = tf.train.Example()
        example.features.feature["x"].float_list.value.append(value)
        return example.SerializeToString()

    def test_the_models_own_examples(self, base, tmp_path, capsys):
        code, _, err = self.run(capsys, "--base", base)
        assert code == 2
        assert "give some with --input" in err
        golden = {"examples_b64": [base64.b64encode(self.example(0.5)).decode()]}
        shutil.copytree(base / "1", base / ".2")
        (base / ".2" / "assets.extra").mkdir()
        (base / ".2" / "assets.extra" / "golden_predictions.json").write_text(json.dumps(golden))
        os.rename(base / ".2", base / "2")
        code, out, _ = self.run(capsys, "--base", base, "--signature", "raw_examples")
        assert code == 0
        assert "row 1: x=0.5" in out

    @pytest.mark.parametrize(
        ("arguments", "code", "reason"),
        [
            (["--base", "absent"], 2, "no serving folder at absent"),
            (["--base", "{base}/1"], 2, "holds no version, it is one: give the folder above"),
            (["--base", "{base}/.."], 2, "but models: give one, --base"),
            (["--base", "{base}", "--limit", "0"], 2, "--limit 0: expected at least 1"),
            (["--base", "{base}", "--input", "{rows}", "--signature", "none"], 2, "not found in signature def"),
            (["--base", "{base}", "--input", "{list}"], 3, "row 1: expected an object"),
            (["--base", "{base}", "--input", "{noise}"], 2, "corrupted record at 0"),
            (["--base", "{base}", "--version", "9"], 2, "holds no version 9"),
            (["--base", "{base}", "--input", "absent.csv"], 2, "cannot read absent.csv"),
            (["--base", "{base}", "--input", "absent.tfrecord"], 2, "cannot read absent.tfrecord"),
            (["--base", "{base}", "--input", "{base}/1/saved_model.pb"], 2, "cannot read"),
            (["--base", "{base}", "--signature", "raw_examples", "--input", "{bad}"], 3, "row 1, feature 'x'"),
        ],
    )
    def test_what_is_refused(self, base, tmp_path, capsys, arguments, code, reason):
        bad = tmp_path / "bad.csv"
        bad.write_text("x\nmany\n")
        rows = tmp_path / "rows.json"
        rows.write_text('{"x": [1, 2]}')
        array = tmp_path / "list.json"
        array.write_text("[1, 2]")
        noise = tmp_path / "noise.tfrecord"
        noise.write_bytes(b"noise" * 10)
        places = {"base": base, "bad": bad, "rows": rows, "list": array, "noise": noise}
        found, _, err = self.run(capsys, *(argument.format(**places) for argument in arguments))
        assert (found, reason in err, "{{" in err, "[Op:" in err) == (code, True, False, False), err
