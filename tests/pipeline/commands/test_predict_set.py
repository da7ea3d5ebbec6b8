"""`sluice predict --set`: a row from the command line, with the content of files."""

import argparse
import pathlib

import pytest

from modules.serving.status import ServingUsageError
from pipeline.commands import predict


def test_one_row_from_the_command_line(tmp_path):
    parser = argparse.ArgumentParser()
    predict.add_arguments(parser)
    with pytest.raises(ServingUsageError, match=r"--set image: expected NAME=VALUE or NAME=@FILE"):
        predict._rows(parser.parse_args(["--set", "image"]))
    with pytest.raises(ServingUsageError, match=r"cannot read .*none.png: No such file"):
        predict._rows(parser.parse_args(["--set", f"image=@{tmp_path}/none.png"]))
    picture = pathlib.Path(tmp_path, "x.png")
    picture.write_bytes(b"\x89PNG")
    assert predict._rows(parser.parse_args(["--set", f"image=@{picture}", "--set", "n=3"])) == [
        {"image": b"\x89PNG", "n": "3"}
    ]
