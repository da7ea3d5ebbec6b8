"""ResNet-50 v1.5 on pictures of 224 x 224, for real: examples/s of one worker and of two, and of the input alone.

    python benchmarks/images.py [--steps 6] [--output build/bench/images.json]    # two minutes on two quiet cores

The pictures are 320 made-up JPEG files of about 500 x 375 pixels (modules/images/synthetic). Expected: two workers on
one machine share its cores, so that they are about as fast as one; on two machines they would be twice as fast, less
what the 102 MB of gradients take. Whether decoding only the part of a
JPEG that is looked at is faster than decoding all of it depends on its size: on these it has not been.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

WORKLOAD = "modules.images.synthetic"
PROGRESS = re.compile(r"step +(\d+)/\d+ .*? ([\d,.]+) examples/s")
INPUT_PICTURES = 320


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build" / "bench" / "images.json")
    args = parser.parse_args()
    root = args.output.parent / "images-runs"
    shutil.rmtree(root, ignore_errors=True)  # from the cache nothing can be measured
    result: dict[str, float] = {}
    for workers in (2, 1):
        result[f"resnet50_{workers}_workers_examples_per_s"] = trained(root, workers, args.steps)
    print("the input alone", flush=True)
    result |= measure_input(root / "data" / "resnet50-synthetic")
    result["input_over_training"] = round(
        result["input_examples_per_s"] / result["resnet50_1_workers_examples_per_s"], 1
    )
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    for name, value in result.items():
        print(f"{name:40} {value}")
    print(f"written to {args.output}")


def trained(root: pathlib.Path, workers: int, steps: int) -> float:
    """Examples/s of the whole Trainer step's loop, without the first steps, in which TensorFlow compiles."""
    command = [sys.executable, "-m", "pipeline.cli", "run", "--workload", WORKLOAD, "--to", "Trainer"]
    command += ["--root", str(root), "--workers", str(workers), "--train-steps", str(steps)]
    print(f"ResNet-50, workers: {workers}", flush=True)
    rates = []
    with subprocess.Popen(command, cwd=ROOT, stdout=sys.stderr, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr or ():
            print("  " + line, end="", file=sys.stderr, flush=True)
            rates += [float(rate.replace(",", "")) for _, rate in PROGRESS.findall(line)]
    if process.returncode:
        sys.exit(process.returncode)
    if len(rates) < 2:
        sys.exit("the Trainer was not run, or not for long enough: --steps 6 prints three lines of progress")
    return statistics.median(rates[1:])


def measure_input(folder: pathlib.Path) -> dict[str, float]:
    """Pictures/s through the training input on all cores, and the same where every JPEG is decoded whole."""
    import tensorflow as tf

    from modules.images import pictures
    from modules.images.config import ImageModelConfig

    config = ImageModelConfig()
    files = sorted(folder.glob("*/*.jpg"))[:INPUT_PICTURES]
    encoded = tf.data.Dataset.from_tensor_slices([file.read_bytes() for file in files]).enumerate()

    def view(index, data):
        return pictures.for_training(data, tf.stack([tf.constant(1, tf.int64), index]), config)

    def part(index, data):
        image = pictures._random_area(data, tf.stack([tf.constant(1, tf.int64), index]), 3)
        return tf.image.resize(image, [224, 224], antialias=True)

    def whole(index, data):
        image = tf.io.decode_image(data, channels=3, expand_animations=False)
        image.set_shape([None, None, 3])
        begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
            tf.shape(image),
            tf.zeros([1, 0, 4]),
            tf.stack([tf.constant(1, tf.int64), index]),
            area_range=(0.08, 1.0),
            use_image_if_no_bounding_boxes=True,
        )
        return tf.image.resize(tf.slice(image, begin, size), [224, 224], antialias=True)

    rates: dict[str, list[float]] = {"view": [], "part": [], "whole": []}
    for _ in range(3):
        for name, function in (("view", view), ("part", part), ("whole", whole)):
            batches = encoded.map(function, num_parallel_calls=tf.data.AUTOTUNE).batch(32).prefetch(2)
            started = time.perf_counter()
            for _ in batches:
                pass
            rates[name].append(len(files) / (time.perf_counter() - started))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    return {
        "input_examples_per_s": round(medians["view"], 1),
        "decoding_a_part_examples_per_s": round(medians["part"], 1),
        "decoding_all_examples_per_s": round(medians["whole"], 1),
        "decoding_a_part_over_decoding_all": round(medians["part"] / medians["whole"], 2),
    }


if __name__ == "__main__":
    main()
