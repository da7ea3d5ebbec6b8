"""Beam's options by step: which engine processes the data. Checked here, given to the steps by pipeline/pipeline.py."""

import shlex
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.errors import ConfigError

ALL = "all"
"""The key whose options every Beam step has that is not named itself."""

# By its full path: since Beam 2.68 "DirectRunner" may pick another runner by itself (docs/adr/0004-beam-runner.md).
LOCAL_BEAM_RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
# TFX packs its own sources for the workers of each Beam step unless an image is named. In one process nobody needs
# them, and workers of another engine run in the project's own image (docs/scaling.md).
NO_PACKAGING = "--sdk_container_image=workers-have-what-they-need"
_PACKAGING = (
    "--sdk_container_image",
    "--worker_harness_container_image",
    "--extra_package",
    "--setup_file",
    "--requirements_file",
)


def from_mapping(mapping: Any, where: str) -> dict[str, tuple[str, ...]]:
    """The `beam` section of a workload: step (or "all") to flags, as a list or as one line.

    Raises:
      ConfigError: naming `where`, the step and what was found.
    """
    if not isinstance(mapping, Mapping):
        raise ConfigError(
            f"{where}: expected steps with their Beam flags, such as all: [--runner=...]; found {mapping!r}"
        )
    return {str(step): _flags(flags, f"{where}.{step}") for step, flags in mapping.items()}


def from_arguments(arguments: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """What `--beam STEP=FLAGS` says, given any number of times; for the same step, the flags add up.

    Raises:
      ConfigError: for an argument of another form.
    """
    options: dict[str, tuple[str, ...]] = {}
    for argument in arguments:
        step, equals, flags = argument.partition("=")
        if not equals or not step.strip() or step.startswith("-"):
            raise ConfigError(f"--beam {argument!r}: expected STEP=FLAGS or {ALL}=FLAGS, such as all='--runner=...'")
        options[step.strip()] = options.get(step.strip(), ()) + _flags(flags, f"--beam {step.strip()}")
    return options


def for_steps(options: Mapping[str, Sequence[str]], steps: Sequence[str]) -> dict[str, list[str]]:
    """Complete flags for each of `steps` that has some, its own or those for all.

    Raises:
      ConfigError: where `options` name something else than these steps.
    """
    for step in options:
        if step != ALL and step not in steps:
            raise ConfigError(f"beam: {step} is not a step that uses Beam; those are: {', '.join(steps)}")
    named = {step: options.get(step, options.get(ALL)) for step in steps}
    return {step: complete(flags) for step, flags in named.items() if flags is not None}


def complete(flags: Sequence[str]) -> list[str]:
    """`flags` with a runner, and without TFX packing its sources unless they say how workers get their code."""
    runner = [] if _have(flags, ("--runner",)) else [f"--runner={LOCAL_BEAM_RUNNER}"]
    packaging = [] if _have(flags, _PACKAGING) else [NO_PACKAGING]
    return [*runner, *packaging, *flags]


def check_job_service(step: str, flags: Sequence[str]) -> None:
    """Refuses a job service that does not answer: Beam would wait for it without a word and without an end.

    Raises:
      ConfigError: naming the step and the address.
    """
    for flag in flags:
        name, _, address = flag.partition("=")
        host, _, port = address.rpartition(":")
        if name != "--job_endpoint" or not port.isdigit():
            continue
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            reason = error.strerror or error
            raise ConfigError(f"{step}: no Beam job service answers at {flag} ({reason}); is it running?") from None


def _have(flags: Sequence[str], names: Sequence[str]) -> bool:
    return any(flag.partition("=")[0] in names for flag in flags)


def _flags(flags: Any, where: str) -> tuple[str, ...]:
    if isinstance(flags, str):
        try:
            flags = shlex.split(flags)
        except ValueError as error:
            raise ConfigError(f"{where}: {flags!r} cannot be split into flags: {error}") from None
    if not isinstance(flags, list | tuple) or not all(isinstance(flag, str) for flag in flags):
        raise ConfigError(f"{where}: expected a list of Beam flags, such as [--runner=FlinkRunner]; found {flags!r}")
    if flags and not flags[0].startswith("--"):
        raise ConfigError(f"{where}: a Beam flag begins with `--`, found {flags[0]!r}")
    return tuple(flags)
