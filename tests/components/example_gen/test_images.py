"""Pictures from folders, arrays and tables: whole ones as people see them, damaged ones named."""

import io
import json
import pathlib

import numpy as np
import pytest
from PIL import Image

from components.example_gen import report
from components.example_gen.config import ImageConfig, IngestConfig
from components.example_gen.errors import IngestConfigError, IngestDataError
from components.example_gen.images import picture
from components.example_gen.ingest import ingest

GENERATOR = np.random.default_rng(3)
# A gradient: which corner is bright says whether it was turned. JPEG changes it little.
GRADIENT = np.add.outer(np.arange(32) * 4, np.arange(48)).astype(np.uint8)
COLOURS = np.stack([GRADIENT, GRADIENT // 2, 255 - GRADIENT], axis=2)


def saved(pixels, kind: str, mode: str | None = None, **options) -> bytes:
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    buffer = io.BytesIO()
    (image.convert(mode) if mode else image).save(buffer, kind, **options)
    return buffer.getvalue()


def turned(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return saved(COLOURS, "JPEG", quality=95, exif=exif)


def noise(index: int) -> np.ndarray:
    return np.random.default_rng(index).integers(0, 256, (8, 8), dtype=np.uint8)


def write(folder: pathlib.Path, files: dict[str, bytes]) -> str:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return str(folder)


def sound(count: int = 30) -> dict[str, bytes]:
    return {f"{'cat' if i % 2 else 'dog'}/{i:02d}.png": saved(noise(i), "PNG") for i in range(count)}


@pytest.fixture
def ingested(tmp_path, monkeypatch):
    """ingested(pattern or {split: pattern}, **options) -> (rows as {name: value}, report)."""
    import tensorflow as tf

    def run(patterns, **options):
        config = IngestConfig.from_dict({"workers": 1, **options}, "test")
        patterns = patterns if isinstance(patterns, dict) else {"": patterns}
        out = tmp_path / "out"
        content = {}

        def keep(result, folder):
            report.copy_quarantine(result, folder)
            content.update(report.write(result, folder, config))

        ingest(patterns, str(out), config, before_commit=keep)
        rows = []
        for path in sorted(out.glob("Split-*/*")):
            for record in tf.data.TFRecordDataset(str(path), compression_type="GZIP").as_numpy_iterator():
                features = tf.train.Example.FromString(record).features.feature
                row = {"split": path.parent.name.removeprefix("Split-")}
                for name, feature in features.items():
                    kind = feature.WhichOneof("kind")
                    row[name] = getattr(feature, kind).value[0] if kind else None
                rows.append(row)
        return rows, content

    return run


def by_file(rows):
    return {row["file"].decode(): row for row in rows}


def pixels_of(row) -> np.ndarray:
    """What TensorFlow reads, which is what a model will see."""
    import tensorflow as tf

    return tf.io.decode_image(row["image"], channels=row["channels"], expand_animations=False).numpy()


def test_a_folder_per_class(tmp_path, ingested):
    files = sound()
    rows, content = ingested(write(tmp_path / "pets", files), format="images")
    assert len(rows) == 30
    for name, row in by_file(rows).items():
        assert row["label"].decode() == name.split("/")[0]
        assert row["image"] == files[name]  # byte for byte
        assert (row["width"], row["height"], row["channels"]) == (8, 8, 1)
        assert row["brightness"] == pytest.approx(pixels_of(row).mean() / 255, abs=1e-6)
    assert content["num_files"] == 30


def test_folders_below_a_class_and_what_is_no_picture(tmp_path, ingested):
    files = {**sound(), "cat/deep/er/x.png": saved(noise(77), "PNG"), "dog/nameless": saved(noise(78), "PNG")}
    strange = {"cat/notes.txt": b"hello", "labels.csv": b"a,b\n", ".cache/x.png": b"x", "cat/.y.png": b"y"}
    rows, content = ingested(write(tmp_path / "pets", {**files, **strange}), format="images")
    found = by_file(rows)
    assert set(found) == set(files)
    assert found["cat/deep/er/x.png"]["label"] == b"cat"
    skipped = {pathlib.Path(entry["file"]).name for entry in content["skipped_files"]}
    assert skipped == {"notes.txt", "labels.csv", "x.png", ".y.png"}


DAMAGED = {
    "cat/empty.png": (b"", "the file is empty (0 bytes)"),
    "cat/text.jpg": (b"<html>404</html>", "not a picture: it begins with b'<html>40'"),
    "cat/cut.png": (saved(noise(1), "PNG")[:-30], "damaged or cut off"),
    "cat/cut.jpg": (saved(COLOURS, "JPEG", quality=95)[:-300], "damaged or cut off"),
    "cat/broken.png": (saved(noise(2), "PNG").replace(b"IDAT", b"IDXT"), "damaged: it begins as a picture does"),
    "loose.png": (saved(noise(5), "PNG"), "lies in no class folder"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named_with_its_file(tmp_path, ingested, name):
    content, reason = DAMAGED[name]
    folder = write(tmp_path / "pets", {**sound(), name: content})
    with pytest.raises(IngestDataError) as caught:
        ingested(folder, format="images")
    message = str(caught.value)
    assert message.startswith(f"{name}: {reason}")
    assert "set bad_rows to skip or quarantine" in message


def test_damage_can_be_left_out_and_is_reported(tmp_path, ingested):
    folder = write(tmp_path / "pets", {**sound(), **{name: content for name, (content, _) in DAMAGED.items()}})
    rows, content = ingested(folder, format="images", bad_rows="quarantine")
    assert len(rows) == 30
    assert content["bad_rows"] == len(DAMAGED)
    assert {row["file"] for row in content["bad_row_examples"]} == set(DAMAGED)
    lines = (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines()
    quarantined = {row["file"]: row["reason"] for row in map(json.loads, lines)}
    for name, (_, reason) in DAMAGED.items():
        assert quarantined[name].startswith(reason)


def test_a_class_folder_alone_is_no_input(tmp_path, ingested):
    folder = write(tmp_path / "pets", sound())
    with pytest.raises(
        IngestDataError, match=r"not one good row; the first: .*png: lies in no class folder below .*cat"
    ):
        ingested(f"{folder}/cat", format="images", bad_rows="skip")


def test_the_header_check_finds_what_is_cut_off(tmp_path, ingested):
    files = {name: DAMAGED[name][0] for name in ("cat/empty.png", "cat/text.jpg", "cat/cut.png", "cat/cut.jpg")}
    folder = write(tmp_path / "pets", {**sound(), **files})
    rows, content = ingested(folder, format="images", bad_rows="skip", images={"check": "header"})
    assert content["bad_rows"] == len(files)
    assert len(rows) == 30
    assert {row["brightness"] for row in rows} == {None}


SIXTEEN = (GRADIENT.astype(np.uint16) << 8) | 0x7F
CLEAR = np.dstack([COLOURS, np.where(np.arange(48) < 24, 0, 255)[None, :].repeat(32, 0)]).astype(np.uint8)
ODD = {
    "cat/cmyk.jpg": (saved(COLOURS, "JPEG", "CMYK", quality=95), "CMYK to RGB", COLOURS, 12),
    "cat/sixteen.png": (saved(SIXTEEN, "PNG"), "16 bits to 8", GRADIENT[:, :, None], 0),
    "cat/palette.png": (saved(COLOURS // 64 * 64, "PNG", "P"), "mode P to RGB", COLOURS // 64 * 64, 40),
    "cat/bit.png": (saved(GRADIENT > 99, "PNG"), "mode 1 to L", (GRADIENT > 99)[:, :, None] * 255, 0),
    "cat/clear.png": (saved(CLEAR, "PNG"), "transparent parts made white", None, 0),
    "cat/movie.gif": (saved(GRADIENT, "GIF"), "another format: written as PNG", GRADIENT[:, :, None].repeat(3, 2), 0),
    "cat/scan.tif": (saved(COLOURS, "TIFF"), "another format: written as PNG", COLOURS, 0),
    "cat/web.webp": (saved(COLOURS, "WEBP", lossless=True), "another format: written as PNG", COLOURS, 0),
    "cat/turned.jpg": (turned(6), "turned upright (EXIF)", np.rot90(COLOURS, -1), 12),
    "cat/mirrored.jpg": (turned(2), "turned upright (EXIF)", COLOURS[:, ::-1], 12),
    "cat/liar.png": (saved(COLOURS, "JPEG", quality=95), "named .png and is JPEG", COLOURS, 12),
}


@pytest.mark.parametrize("name", ODD)
def test_what_tensorflow_would_read_otherwise_is_put_right_and_reported(tmp_path, ingested, name):
    content, note, expected, tolerance = ODD[name]
    rows, told = ingested(write(tmp_path / "pets", {**sound(), name: content}), format="images")
    row = by_file(rows)[name]
    found = pixels_of(row)
    assert found.shape == (row["height"], row["width"], row["channels"])
    if expected is None:
        assert (found[:, :24] == 255).all()
        np.testing.assert_array_equal(found[:, 24:], COLOURS[:, 24:])
    else:
        np.testing.assert_allclose(found.astype(int), expected.astype(int), atol=tolerance)
    (line,) = [line for line in told["notes"] if note in line]
    assert "1 values (first: " in line
    assert line.endswith(f" at {name})")


def test_a_wrong_name_alone_changes_no_byte(tmp_path, ingested):
    content = ODD["cat/liar.png"][0]
    rows, _ = ingested(write(tmp_path / "pets", {**sound(), "cat/liar.png": content}), format="images")
    assert by_file(rows)["cat/liar.png"]["image"] == content


def test_a_bomb_is_refused_before_it_is_decoded(tmp_path, ingested):
    folder = write(tmp_path / "pets", {**sound(), "cat/wide.png": saved(np.zeros((64, 64), np.uint8), "PNG")})
    with pytest.raises(IngestDataError, match=r"cat/wide.png: 64 x 64 pixels are more than max_pixels \(1000\)"):
        ingested(folder, format="images", images={"max_pixels": 1000})


def test_equal_pictures_go_to_one_split_whatever_they_are_called(tmp_path, ingested):
    files = sound(40)
    for i in range(40):
        image = Image.fromarray(noise(i))
        files[f"cat/again-{i}.png"] = saved(image, "PNG", compress_level=0)
        files[f"dog/inverted-{i}.bmp"] = saved(image, "BMP")
    rows, _ = ingested(write(tmp_path / "pets", files), format="images")
    splits: dict[bytes, set[str]] = {}
    for row in rows:
        splits.setdefault(row["content"], set()).add(row["split"])
    assert len(splits) == 40
    assert all(len(names) == 1 for names in splits.values())


def test_splits_by_folder_and_their_common_pictures(tmp_path, ingested):
    train = {f"train/{name}": content for name, content in sound(20).items()}
    copy = {"eval/cat/copy.png": saved(noise(1), "PNG", compress_level=0), "eval/dog/new.png": saved(noise(99), "PNG")}
    base = write(tmp_path / "pets", {**train, **copy})
    split = {"by": "files", "files": {"train": "train/**", "eval": "eval/**"}}
    patterns = {"train": f"{base}/train/**", "eval": f"{base}/eval/**"}
    rows, content = ingested(patterns, format="images", split=split)
    assert {row["label"] for row in rows} == {b"cat", b"dog"}
    assert content["splits"] == {"train": 20, "eval": 2}
    assert "split eval: 1 of its distinct rows are in train too" in content["warnings"]
    with pytest.raises(IngestDataError, match="1 distinct rows are in both splits"):
        ingested(patterns, format="images", split={**split, "duplicates": "fail"})


def test_bundles_are_of_all_classes(tmp_path, ingested):
    files = {f"{label}/{i}.png": saved(noise(1000 * j + i), "PNG") for j, label in enumerate("abcd") for i in range(30)}
    rows, content = ingested(write(tmp_path / "x", files), format="images", chunk_bytes=4096, shards=1)
    assert content["chunks"] > 2
    first = [row["label"] for row in rows if row["split"] == "train"][:20]
    assert len(set(first)) == 4


@pytest.mark.parametrize("form", ["npz", "npy"])
def test_arrays(tmp_path, ingested, form):
    images = np.stack([noise(i) for i in range(40)])
    labels = np.arange(40) % 4
    folder = tmp_path / "arrays"
    folder.mkdir()
    if form == "npz":
        np.savez(folder / "all.npz", x=images, y=labels, weight=np.linspace(0, 1, 40))
    else:
        np.save(folder / "train_images.npy", images)
        np.save(folder / "train_labels.npy", labels)
    rows, _ = ingested(str(folder), format="arrays", chunk_bytes=1024)
    assert len(rows) == 40
    for name, row in by_file(rows).items():
        index = int(name.rpartition(":")[2]) - 1
        np.testing.assert_array_equal(pixels_of(row)[:, :, 0], images[index])
        assert row["label"] == labels[index]
    assert ("weight" in rows[0]) == (form == "npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((5, 8, 8)), "y": np.zeros(5)}, r"must be uint8, found float64 with values 0 to 0"),
        ({"x": np.zeros((5, 8, 8, 2), np.uint8)}, r"shape \[5, 8, 8, 2\]; expected"),
        ({"x": np.zeros((5, 8, 8), np.uint8), "y": np.zeros(4)}, r"array 'y' has shape \[4\]; expected \[5\]"),
        ({"y": np.zeros(4)}, r"expected one array of pictures .*; it has y \[4\]"),
    ],
)
def test_arrays_that_cannot_be_pictures(tmp_path, ingested, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(IngestDataError, match=message):
        ingested(str(tmp_path / "a.npz"), format="arrays")


def test_npy_without_classes(tmp_path, ingested):
    np.save(tmp_path / "images.npy", np.zeros((5, 8, 8), np.uint8))
    with pytest.raises(IngestDataError, match=r"images.npy: no classes: expected labels.npy beside it"):
        ingested(str(tmp_path / "images.npy"), format="arrays")


def table(folder: pathlib.Path, extra: str = "") -> str:
    lines = [f"{name},{name.split('/')[0]},{number}" for number, name in enumerate(sound())]
    text = "picture,label,age\n" + "\n".join(lines) + "\n" + extra
    return write(
        folder,
        {**{f"pictures/{name}": content for name, content in sound().items()}, "pictures/all.csv": text.encode()},
    )


def test_a_table_that_names_files(tmp_path, ingested):
    base = table(tmp_path)
    options = {"images": {"path_column": "picture"}}
    rows, content = ingested(f"{base}/pictures/all.csv", **options)
    assert sorted(content["columns"]) == sorted(
        ["label", "age", "image", "file", "width", "height", "channels", "brightness", "content"]
    )
    for name, row in by_file(rows).items():
        assert row["label"].decode() == name.split("/")[0]
        assert row["image"] == sound()[name]
        assert row["age"] == int(name[4:6])
    with pytest.raises(IngestConfigError, match=r"no column 'path' in all.csv; it has picture, label, age"):
        ingested(f"{base}/pictures/all.csv", images={"path_column": "path"})


def test_a_table_with_bad_rows(tmp_path, ingested):
    base = table(tmp_path, extra="cat/none.png,cat,1\n,cat,2\n")
    options = {"images": {"path_column": "picture"}}
    with pytest.raises(IngestDataError, match=r"all.csv:32: there is no such file: 'cat/none.png'"):
        ingested(f"{base}/pictures/all.csv", **options)
    rows, content = ingested(f"{base}/pictures/all.csv", **options, bad_rows="skip")
    assert len(rows) == 30
    reasons = [(row["line"], row["reason"]) for row in content["bad_row_examples"]]
    assert reasons == [(32, "there is no such file"), (33, "the table names no file")]


def test_an_edited_picture_is_another_fingerprint(tmp_path):
    from tfx.proto import example_gen_pb2

    from components.example_gen.driver import ContentInputProcessor

    base = table(tmp_path)
    configs = {
        "**": IngestConfig(format="images"),
        "*.csv": IngestConfig(images=ImageConfig(path_column="picture")),
    }

    def fingerprints():
        splits = {pattern: [example_gen_pb2.Input.Split(name="all", pattern=pattern)] for pattern in configs}
        return [
            ContentInputProcessor(f"{base}/pictures", splits[pattern], None, config=config).get_input_fingerprint(
                0, None
            )
            for pattern, config in configs.items()
        ]

    before = fingerprints()
    path = tmp_path / "pictures" / "cat" / "01.png"
    path.touch()
    assert fingerprints() == before
    path.write_bytes(saved(noise(500), "PNG"))
    after = fingerprints()
    assert after[0] != before[0]
    assert after[1] != before[1]


def test_examine_says_what_it_saw():
    made = picture.examine(saved(COLOURS, "PNG"), "x.png", ImageConfig())
    assert (made.width, made.height, made.channels, made.notes) == (48, 32, 3, ())
    same = picture.examine(saved(COLOURS, "BMP"), "x.bmp", ImageConfig())
    assert same.content == made.content


def test_options_are_checked():
    with pytest.raises(IngestConfigError, match=r"images.check is 'look'; expected one of: decode, header"):
        IngestConfig.from_dict({"images": {"check": "look"}}, "workload.yaml: ingest")
    with pytest.raises(IngestConfigError, match=r"unknown key 'checks'"):
        IngestConfig.from_dict({"images": {"checks": "decode"}}, "workload.yaml: ingest")
    config = IngestConfig.from_dict({"format": "images"}, "ingest")
    assert (config.split.by, config.split.columns) == ("columns", ("content",))
    assert IngestConfig.from_json(config.to_json()) == config
