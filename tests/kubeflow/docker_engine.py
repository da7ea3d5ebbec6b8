"""The Docker engine, for the tests of the image: `make image && make e2e-docker IMAGE=sluice:GIT_SHA`."""

import os
import subprocess

IMAGE = os.environ.get("SLUICE_IMAGE", "")


def docker(*arguments: str, check: bool = True) -> str:
    """What `docker arguments` says on standard output."""
    result = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert not check or result.returncode == 0, result.stderr[-3000:]
    return result.stdout.strip()


def logs(name: str) -> str:
    """What a container has said, on both streams."""
    result = subprocess.run(
        ["docker", "logs", name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return result.stdout
