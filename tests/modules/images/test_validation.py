"""The gate on pictures: sizes, channels, balance of the classes, brightness, and the same picture in two splits."""

import pathlib
import shutil

import numpy as np
import pytest
import yaml
from PIL import Image

from components.data_gate.stand_alone import infer_schema, validate
from modules.images import digits

ROOT = pathlib.Path(__file__).parents[3] / "modules" / "images"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    digits.write(str(folder))
    return folder


@pytest.fixture
def some(whole, tmp_path):
    """Forty pictures of each digit."""
    for digit in range(10):
        (tmp_path / "data" / str(digit)).mkdir(parents=True)
        for path in sorted((whole / str(digit)).iterdir())[:40]:
            shutil.copy(path, tmp_path / "data" / str(digit) / path.name)
    return tmp_path / "data"


def judged(data: pathlib.Path, scratch: pathlib.Path, baseline=None, **ingest):
    settings = yaml.safe_load((ROOT / "workload.yaml").read_text())
    policy = {**settings["gate"], "min_rows": {"*": 10}}
    verdict, _ = validate(
        data=str(data),
        schema_file=str(ROOT / "schema.pbtxt"),
        baseline=str(baseline) if baseline else None,
        policy=policy,
        ingest={**settings["ingest"], "workers": 1, **ingest},
        scratch=str(scratch / "scratch"),
    )
    return {(finding.feature, finding.rule) for finding in verdict.blocking}


def larger_and_coloured(data):
    for path in data.glob("3/*"):
        Image.open(path).resize((16, 16)).convert("RGB").save(path)


def one_sided(data):
    for path in sorted(data.glob("3/*"))[2:]:
        path.unlink()


def eleventh(data):
    shutil.copytree(data / "3", data / "three")


CHANGES = {
    larger_and_coloured: {("height", "out-of-range"), ("width", "out-of-range"), ("channels", "out-of-range")},
    one_sided: {("label", "label-one-sided")},
    eleventh: {("label", "unexpected-value")},
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_pictures_are_stopped(some, tmp_path, change):
    change(some)
    assert CHANGES[change] <= judged(some, tmp_path)


def test_the_digits_pass_and_their_negatives_are_drift(whole, some, tmp_path):
    assert judged(some, tmp_path / "a", baseline=whole) == set()
    for path in some.glob("*/*"):
        Image.fromarray(255 - np.asarray(Image.open(path))).save(path)
    assert ("brightness", "drift") in judged(some, tmp_path / "b", baseline=whole)


def test_the_same_picture_in_two_splits_is_found_by_its_pixels(some, tmp_path):
    split = {"by": "files", "files": {"train": "train/**", "eval": "eval/**"}}
    both = tmp_path / "both"
    for number, path in enumerate(sorted(some.glob("*/*"))):
        part = "train" if number % 3 else "eval"
        target = both / part / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    assert judged(both, tmp_path / "a", split=split) == set()
    for digit in range(10):
        path = next((both / "train" / str(digit)).iterdir())
        Image.open(path).save(both / "eval" / str(digit) / "renamed.png", compress_level=0)
    assert judged(both, tmp_path / "b", split=split) == {("", "duplicates")}


def test_a_first_schema_knows_a_picture_from_a_text(some, tmp_path):
    for digit in range(10):
        (some / str(digit)).rename(some / f"digit{digit}")
    schema = infer_schema(str(some), "label", {"format": "images", "workers": 1}, str(tmp_path))
    features = {feature.name: feature for feature in schema.feature}
    assert features["image"].WhichOneof("domain_info") == "image_domain"
    assert features["image"].shape.dim[0].size == 1
    served = [name for name, feature in features.items() if not feature.not_in_environment]
    assert served == ["image"]
    assert list(schema.string_domain[0].value) == [f"digit{digit}" for digit in range(10)]
