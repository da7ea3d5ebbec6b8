"""The whole pipeline against the stock one, side by side on the same data, and the model against gradient boosting.

    make bench-pipeline        15,002 and 300,040 rows; writes build/bench/pipeline.json

Each side is one process started from nothing, imports included. The stock side is benchmarks/stock_taxi.py: the same
model, steps, batch size, splits and bounds from stock TFX components.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

from pipeline.config import load_workload, make_config

HERE = pathlib.Path(__file__).parent
TARGETS = {15_002: 0.6, 300_040: 0.4}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, nargs="*", default=[1, 20], help="how often the 15,002 rows are repeated")
    parser.add_argument("--output", default="build/bench/pipeline.json")
    args = parser.parse_args()
    results = {"machine": f"{os.cpu_count()} cores, {platform.machine()}", "runs": []}
    for copies in args.copies:
        results["runs"].append(_compare(copies))
    path = pathlib.Path(args.output)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(f"written to {path}")


def _compare(copies: int) -> dict:
    with tempfile.TemporaryDirectory() as work:
        data, num_rows = _data(pathlib.Path(work), copies)
        ours = _ours(data, f"{work}/ours")
        stock = _stock(data, f"{work}/stock")
        quality = _gradient_boosting(pathlib.Path(f"{work}/ours"))
    ratio = ours["wall"] / stock["wall"]
    target = TARGETS.get(num_rows)
    _print_steps(num_rows, ours, stock)
    print(
        f"  whole process: sluice {ours['wall']:.1f} s, stock {stock['wall']:.1f} s, "
        f"ratio {ratio:.2f} (target {target})"
    )
    print(f"  AUC on the eval split: sluice {ours['auc']:.4f}, HistGradientBoosting {quality:.4f}\n")
    return {"rows": num_rows, "sluice": ours, "stock": stock, "ratio": ratio, "target": target, "boosting_auc": quality}


def _data(work: pathlib.Path, copies: int) -> tuple[str, int]:
    """The real taxi CSV, its rows repeated."""
    (source,) = pathlib.Path(make_config("taxi").data).glob("*.csv")
    header, _, rows = source.read_text(encoding="utf-8").partition("\n")
    rows = rows if rows.endswith("\n") else rows + "\n"
    folder = work / "data"
    folder.mkdir()
    (folder / "data.csv").write_text(header + "\n" + rows * copies, encoding="utf-8")
    return str(folder), rows.count("\n") * copies


def _ours(data: str, root: str) -> dict:
    start = time.monotonic()
    command = [sys.executable, "-m", "pipeline.cli", "run", "--data", data, "--root", root, "--json"]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    wall = time.monotonic() - start
    result = json.loads(process.stdout.splitlines()[-1])
    seconds = {step["name"]: step["seconds"] for step in result["steps"]}
    return {"wall": round(wall, 1), "steps": seconds, "auc": result["metrics"]["auc"]["value"]}


def _stock(data: str, work: str) -> dict:
    pathlib.Path(work).mkdir()
    train = load_workload("taxi")[0].train
    command = [sys.executable, str(HERE / "stock_taxi.py"), data, work]
    command += [str(train.train_steps), str(train.engine["batch_size"] * train.num_workers)]  # the same global batch
    start = time.monotonic()
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    wall = time.monotonic() - start
    if process.returncode:
        sys.exit(f"the stock pipeline failed:\n{process.stderr[-2000:]}")
    return {"wall": round(wall, 1), "steps": json.loads(process.stdout.splitlines()[-1])}


def _print_steps(num_rows: int, ours: dict, stock: dict) -> None:
    print(f"{num_rows:,} rows")
    print("  sluice: " + ", ".join(f"{name} {seconds:.1f}" for name, seconds in ours["steps"].items()))
    print("  stock:  " + ", ".join(f"{name} {seconds:.1f}" for name, seconds in stock["steps"].items()))


def _gradient_boosting(root: pathlib.Path) -> float:
    """AUC of scikit-learn's HistGradientBoostingClassifier, fitted and judged on the very splits of our run."""
    import numpy as np
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score
    from sklearn.preprocessing import OrdinalEncoder

    from modules.taxi import features

    (examples,) = (root / "pipelines" / "taxi" / "ExampleGen" / "examples").iterdir()
    numbers = (*features.LOG_NUMBERS, *features.NUMBERS, *features.SMALL_INTEGERS)
    words = tuple(features.VOCABULARIES)
    data = {}
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, encoded_missing_value=np.nan)
    for split in ("train", "eval"):
        columns = _columns(examples / f"Split-{split}")
        categories = np.array([[str(value) for value in columns[name]] for name in words], dtype=object).T
        encoded = encoder.fit_transform(categories) if split == "train" else encoder.transform(categories)
        plain = np.array([[np.nan if v is None else float(v) for v in columns[name]] for name in numbers]).T
        tips = np.array([0.0 if v is None else v for v in columns["tips"]])
        fares = np.array([np.inf if v is None else v for v in columns["fare"]])
        data[split] = np.hstack([plain, encoded]), tips > fares * features.BIG_TIP_SHARE
    few = [len(numbers) + index for index, found in enumerate(encoder.categories_) if len(found) < 255]
    model = HistGradientBoostingClassifier(categorical_features=few, random_state=0).fit(*data["train"])
    return float(roc_auc_score(data["eval"][1], model.predict_proba(data["eval"][0])[:, 1]))


def _columns(folder: pathlib.Path) -> dict[str, list]:
    import tensorflow as tf

    rows = []
    for record in tf.data.TFRecordDataset(sorted(map(str, folder.iterdir())), compression_type="GZIP"):
        features = tf.train.Example.FromString(record.numpy()).features.feature
        rows.append({name: _value(feature) for name, feature in features.items()})
    names = {name for row in rows for name in row}
    return {name: [row.get(name) for row in rows] for name in names}


def _value(feature):
    kind = feature.WhichOneof("kind")
    values = getattr(feature, kind).value if kind else []
    return values[0] if values else None


if __name__ == "__main__":
    main()
