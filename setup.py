"""Sluice: a TFX pipeline that runs on a laptop and on open-source Kubeflow Pipelines."""

import pathlib

from setuptools import find_packages, setup

ROOT = pathlib.Path(__file__).parent


def requirements(name: str) -> list[str]:
    """The requirements that requirements/<name>.in lists itself, without what it includes."""
    lines = (ROOT / "requirements" / f"{name}.in").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith(("#", "-r"))]


setup(
    name="sluice",
    version="0.1.0",
    description=__doc__,
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.11,<3.14",
    packages=find_packages(include=["pipeline*", "components*", "modules*", "kubeflow*"]),
    package_data={
        "modules": ["**/*.pbtxt", "**/*.csv", "**/*.html", "**/*.yaml"],
        "pipeline": ["**/*.html"],
        "components": ["**/*.html"],
        "kubeflow": ["Dockerfile", "*.yaml", "manifests/**/*", "dashboards/*"],
    },
    install_requires=requirements("runtime"),
    extras_require={"dev": requirements("dev")},
    entry_points={"console_scripts": ["sluice = pipeline.cli:console"]},
)
