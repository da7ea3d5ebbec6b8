"""A model whose files are not those that the Trainer published is refused before it is loaded, whatever it predicts."""

import json
import pathlib

import pytest

from components import file_record
from components.pusher.config import PushTarget
from components.pusher.deployer import Deployer
from components.pusher.errors import PushError
from components.pusher.golden import GOLDEN_PATH, WARMUP_PATH
from components.pusher.recorded_files import check
from pipeline import cli

WORDS = "assets/words.txt"
DATA = "variables/variables.data-00000-of-00001"


@pytest.fixture
def model(models) -> pathlib.Path:
    """As the Trainer publishes one, with a vocabulary that no golden prediction needs."""
    (models["double"] / WORDS).write_text("\n".join(f"word{number}" for number in range(1000)))
    file_record.write(str(models["double"]))
    return models["double"]


def flip_one_bit(path: pathlib.Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x01
    path.write_bytes(data)


def loads_never(*_) -> dict:
    raise AssertionError("the model was loaded")


def push(model: pathlib.Path, base: pathlib.Path, verify=lambda *_: {}):
    return Deployer(PushTarget(base=str(base), name="line"), verify=verify).push(model)


@pytest.mark.parametrize("path", [WORDS, DATA, "variables/variables.index", "saved_model.pb", GOLDEN_PATH])
def test_one_flipped_bit(path, model, tmp_path):
    flip_one_bit(model / path)
    with pytest.raises(PushError, match=f"double/{path} differs .* from the registry again") as raised:
        push(model, tmp_path / "served", loads_never)
    assert raised.value.exit_code == 5
    assert sorted(entry.name for entry in (tmp_path / "served" / "line").iterdir()) == [".sluice"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda model: (model / WORDS).unlink(), f"{WORDS} is missing"),
        (lambda model: (model / "assets" / "more.txt").write_text("a"), "assets/more.txt is extra"),
        (lambda model: (model / "assets.extra" / "more").write_text("a"), "assets.extra/more is extra"),
        (lambda model: (model / WORDS).write_text("a"), rf"{WORDS} differs .*\(1 bytes, \d+ then\)"),
        (lambda model: (model / file_record.PATH).write_text("{"), f"{file_record.PATH} cannot be read"),
        (lambda model: (model / file_record.PATH).write_text("[1]"), f"{file_record.PATH} cannot be read"),
    ],
    ids=["missing", "extra", "extra beside the record", "other size", "record cut short", "no record at all"],
)
def test_other_files(damage, message, model, tmp_path):
    damage(model)
    with pytest.raises(PushError, match=message):
        push(model, tmp_path / "served", loads_never)


def test_the_first_of_several_is_named(model, tmp_path):
    flip_one_bit(model / "saved_model.pb")
    (model / "assets" / "more.txt").write_text("a")
    with pytest.raises(PushError, match=r"assets/more.txt is extra"):
        push(model, tmp_path / "served", loads_never)


def test_without_a_record_the_files_are_not_compared(model, tmp_path):
    flip_one_bit(model / WORDS)
    (model / file_record.PATH).unlink()
    assert push(model, tmp_path / "served").outcome == "pushed"


def test_what_was_pushed_can_be_pushed_elsewhere(model, tmp_path):
    """Warm-up requests were added to it since; those of the trainer's own are part of the record."""

    def adds_warmup(staging, _) -> dict:
        (staging / WARMUP_PATH).write_bytes(b"requests")
        return {}

    first = push(model, tmp_path / "served", adds_warmup)
    assert (pathlib.Path(first.destination) / WARMUP_PATH).exists()
    assert push(pathlib.Path(first.destination), tmp_path / "elsewhere").outcome == "pushed"
    assert push(model, tmp_path / "served").outcome == "unchanged"

    (model / WARMUP_PATH).write_bytes(b"of the trainer")
    file_record.write(str(model))
    flip_one_bit(model / WARMUP_PATH)
    with pytest.raises(PushError, match=f"{WARMUP_PATH} differs"):
        push(model, tmp_path / "served", loads_never)


def test_copies_of_the_registry_pass(model, tmp_path):
    from components.model_registry.registry import ModelRegistry

    registry = ModelRegistry(str(tmp_path / "registry"), "line")
    registry.register(model)
    registry.fetch(1, tmp_path / "fetched")
    assert push(tmp_path / "fetched" / "Format-Serving", tmp_path / "served").outcome == "pushed"


def test_sluice_push_says_it_in_one_line(model, tmp_path, capsys):
    flip_one_bit(model / WORDS)
    assert cli.main(["push", str(model), "--to", str(tmp_path / "served"), "--name", "line"]) == 5
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert f"{model / WORDS} differs from the file that the Trainer exported (sha256" in line


def test_the_record_lists_every_file_but_itself(model):
    recorded = json.loads((model / file_record.PATH).read_text())
    files = {path.relative_to(model).as_posix() for path in model.rglob("*") if path.is_file()}
    assert recorded.keys() == files - {file_record.PATH}
    file_record.write(str(model))
    assert json.loads((model / file_record.PATH).read_text()) == recorded


def test_check_reads_no_file_of_a_model_without_a_record(tmp_path):
    from components.pusher.content import FileContent, Manifest

    check(tmp_path / "nowhere", Manifest({"saved_model.pb": FileContent(1, "0")}))
