"""Who sees which GPU."""

import pytest

from components.trainer import gpus


@pytest.mark.parametrize(
    ("value", "expected"),
    [("0,1", ["0", "1"]), ("GPU-8a, GPU-9b", ["GPU-8a", "GPU-9b"]), ("", []), ("-1", []), ("0,-1,1", ["0"])],
)
def test_the_environment_decides(value, expected):
    assert gpus.visible({"CUDA_VISIBLE_DEVICES": value}) == expected


def test_else_what_the_driver_lists(tmp_path):
    assert gpus.visible({}, driver=tmp_path / "none") == []
    for name in ("0000:17:00.0", "0000:65:00.0"):
        (tmp_path / name).mkdir()
    assert gpus.visible({}, driver=tmp_path) == ["0", "1"]


def test_equal_parts():
    assert [gpus.share(list("01234567"), 4, i) for i in range(4)] == ["0,1", "2,3", "4,5", "6,7"]
    assert [gpus.share(list("01234"), 2, i) for i in range(2)] == ["0,1", "2,3"]


def test_nothing_to_share_out():
    assert gpus.share(list("01"), 1, 0) is None
    assert gpus.share(list("01"), 3, 0) is None
    assert gpus.share([], 2, 0) is None
