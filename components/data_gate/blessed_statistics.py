"""Which statistics new data is compared with, from the model registry: those kept with a blessed model.

`baseline.py` asks ML Metadata the same question where there is one.
"""

from collections.abc import Mapping

from components.data_gate.context import Statistics
from components.model_registry.entry import ModelEntry
from components.model_registry.registry import ModelRegistry

_PREFIX = "Split-"


def before(
    registry: ModelRegistry, candidate: Mapping[str, Statistics], fingerprint: str = ""
) -> tuple[int | None, dict[str, Statistics]]:
    """Version and statistics by split of the stable model, or else of the newest; (None, {}) where none were kept.

    Where the candidate's own data was blessed before, it is judged by what was there before it: data compared with
    itself would say nothing.

    Args:
      registry: of blessed models only, as ModelRegistrar has it.
      candidate: the statistics under judgement.
      fingerprint: of the data they were made from, where known.
    """
    entries = [(entry, statistics) for entry in registry.entries() if (statistics := _read(registry, entry.version))]
    own = [entry.version for entry, kept in entries if _same(entry, kept, candidate, fingerprint)]
    older = {entry.version: kept for entry, kept in entries if not own or entry.version < own[0]}
    if not older:
        return None, {}
    stable = registry.aliases().get("stable")
    version = stable if stable in older else max(older)
    return version, older[version]


def _same(
    entry: ModelEntry, kept: Mapping[str, Statistics], candidate: Mapping[str, Statistics], fingerprint: str
) -> bool:
    return kept == candidate or (bool(fingerprint) and entry.lineage.data_fingerprint == fingerprint)


def _read(registry: ModelRegistry, version: int) -> dict[str, Statistics]:
    found = registry.statistics(version)
    return {name.removeprefix(_PREFIX): Statistics.FromString(content) for name, content in found.items()}
