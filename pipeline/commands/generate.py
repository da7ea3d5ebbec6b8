"""`sluice generate`: continue texts with a pushed model."""

import argparse
import base64
import json
import logging
import math
import os
import sys
from collections.abc import Mapping
from typing import Any

HELP = "continue texts with a pushed model of a text generation workload"

_DEFAULT_BASE = os.path.join("build", "serving", "textgen")
_SIGNATURE = "generate"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `sluice generate`."""
    parser.add_argument(
        "--prompt", action="append", default=[], metavar="TEXT", help="text to continue; repeatable; - reads stdin"
    )
    parser.add_argument("--max-new", type=int, default=64, metavar="N", help="tokens at most")
    parser.add_argument(
        "--temperature", type=float, default=0.0, metavar="T", help="0 takes the likeliest token (default)"
    )
    parser.add_argument(
        "--top-k", type=int, default=0, metavar="K", help="draw from the K likeliest tokens; 0: from all"
    )
    parser.add_argument(
        "--top-p", type=float, default=1.0, metavar="P", help="draw from the likeliest tokens that make up P"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="another seed, another text; the same, the same"
    )
    parser.add_argument("--stop", default="", metavar="TEXT", help="end at this token, such as a full stop")
    parser.add_argument("--base", default=_DEFAULT_BASE, metavar="DIR", help="serving folder")
    parser.add_argument("--version", type=int, metavar="N", help="model version (default: the highest)")
    parser.add_argument("--server", metavar="URL", help="ask a running server's REST API instead of the folder")
    parser.add_argument("--name", default="", help="the model's name on the server (default: the folder's name)")
    parser.add_argument("--label", default="", metavar="NAME", help="a label on the server, such as stable or canary")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print each prompt with what the model makes of it."""
    from pipeline.quiet import NativeLogs

    native_logs = None if args.debug else NativeLogs()
    try:
        return _generate(args)
    finally:
        if native_logs:
            native_logs.restore()


def _generate(args: argparse.Namespace) -> int:
    from modules.serving.status import ServingUsageError

    logging.getLogger("tensorflow").setLevel(logging.INFO if args.debug else logging.WARNING)
    prompts = [_stdin() if prompt == "-" else os.fsencode(prompt) for prompt in args.prompt]
    if not prompts:
        raise ServingUsageError("say what to continue: --prompt TEXT")
    _check(args)
    rows = [_row(prompt, args) for prompt in prompts]
    answers = _ask_server(args, rows) if args.server else _ask_folder(args, rows)
    if args.json:
        shown = [_shown(prompt) for prompt in prompts]
        print(json.dumps({"generated": [{"prompt": p, **answer} for p, answer in zip(shown, answers, strict=True)]}))
        return 0
    for number, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        print(("\n" if number else "") + _shown(prompt) + answer["text"])
        why = "the document ends here" if answer["finished"] else "as many as were asked for"
        print(f"[{answer['num_tokens']} tokens: {why}]", file=sys.stderr)
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raises for a number that means nothing, with the option's name."""
    from modules.serving.status import ServingUsageError

    wanted = {
        "--max-new": (args.max_new, 0 <= args.max_new < 2**31, "0 to 2,147,483,647 tokens"),
        "--temperature": (args.temperature, 0 <= args.temperature < math.inf, "0 or more"),
        "--top-k": (args.top_k, 0 <= args.top_k < 2**31, "0, for all tokens, to 2,147,483,647"),
        "--top-p": (args.top_p, 0 < args.top_p <= 1, "more than 0 and at most 1"),
        "--seed": (args.seed, -(2**63) <= args.seed < 2**63, "a whole number of 64 bits"),
    }
    for option, (value, is_right, expected) in wanted.items():
        if not is_right:
            raise ServingUsageError(f"{option} is {value}; expected {expected}")


def _row(prompt: bytes, args: argparse.Namespace) -> dict[str, Any]:
    return {
        "prompt": prompt,
        "max_new": args.max_new,
        "temperature": args.temperature,
        "top_k": args.top_k,
        "top_p": args.top_p,
        "seed": args.seed,
        "stop": os.fsencode(args.stop),
    }


def _ask_folder(args: argparse.Namespace, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from modules.serving import predictor
    from modules.serving.status import ServingUsageError

    if args.label:
        raise ServingUsageError("--label is a name that a server gives to a version: give --server, too")
    version = predictor.latest_version(args.base) if args.version is None else args.version
    version_dir = os.path.join(args.base, str(version))
    if not os.path.isdir(version_dir):
        raise ServingUsageError(f"{args.base} holds no version {version}")
    return [_answer(answer) for answer in predictor.predict_rows(version_dir, rows, _SIGNATURE)]


def _ask_server(args: argparse.Namespace, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from modules.serving.client import PredictionClient

    name = args.name or os.path.basename(os.path.normpath(args.base))
    with PredictionClient(args.server, name, version=args.version, label=args.label) as client:
        sent = [{**row, "prompt": _as_json(row["prompt"]), "stop": _as_json(row["stop"])} for row in rows]
        return [_answer(answer) for answer in client.predict_rows(sent, _SIGNATURE)]


def _answer(answer: Mapping[str, Any]) -> dict[str, Any]:
    tokens = answer["tokens"] if isinstance(answer["tokens"], list) else [answer["tokens"]]
    return {
        "text": answer["text"],
        "tokens": [token for token in tokens if token >= 0],  # filled up to the longest answer of the batch
        "num_tokens": answer["num_tokens"],
        "finished": answer["finished"],
    }


def _as_json(text: bytes) -> Any:
    """Text where it is UTF-8, else bytes as TensorFlow Serving's API writes them."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(text).decode("ascii")}


def _stdin() -> bytes:
    return sys.stdin.buffer.read()


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "replace")
