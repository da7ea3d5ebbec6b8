"""Which statistics new data is compared with: those of the last run whose model was blessed."""

from tfx import types
from tfx.dsl.components.common import resolver
from tfx.types import standard_artifacts

_RUN = "pipeline_run"


class LastBlessedStatisticsStrategy(resolver.ResolverStrategy):
    """The statistics of the newest run with a blessed model; nothing where there is none.

    Data that led to a model nobody blessed is no measure for new data, and neither is the present run's own: only older
    statistics than those under judgement count, so that judging the same data again is a cache hit.

    Channels: `candidate` (ExampleStatistics, exactly those under judgement), `statistics` (all ExampleStatistics),
    `model_blessing` (all ModelBlessings).
    """

    def resolve_artifacts(self, store, input_dict: dict[str, list[types.Artifact]]) -> dict[str, list[types.Artifact]]:
        """One artifact under `statistics`, or none."""
        blessed = [b.id for b in input_dict["model_blessing"] if b.get_int_custom_property("blessed") == 1]
        (candidate,) = input_dict["candidate"]
        known = {artifact.id: artifact for artifact in input_dict["statistics"] if artifact.id < candidate.id}
        result: dict[str, list[types.Artifact]] = {"candidate": [candidate], "statistics": [], "model_blessing": []}
        for run in sorted(_runs_of(store, blessed), reverse=True):
            found = [artifact.id for artifact in store.get_artifacts_by_context(run) if artifact.id in known]
            if found:
                return result | {"statistics": [known[max(found)]]}
        return result


def _runs_of(store, artifacts: list[int]) -> set[int]:
    """Context ids of the runs in which one of `artifacts` was used or made, also from the cache."""
    executions = {event.execution_id for event in store.get_events_by_artifact_ids(artifacts)} if artifacts else set()
    contexts = [context for execution in executions for context in store.get_contexts_by_execution(execution)]
    types_by_id = {kind.id: kind.name for kind in store.get_context_types()}
    return {context.id for context in contexts if types_by_id[context.type_id] == _RUN}


def baseline_statistics_resolver(candidate: types.BaseChannel) -> resolver.Resolver:
    """The node `BaselineStatistics`, whose output `statistics` is DataGate's `baseline_statistics`."""
    return resolver.Resolver(
        strategy_class=LastBlessedStatisticsStrategy,
        candidate=candidate,
        statistics=types.Channel(type=standard_artifacts.ExampleStatistics),
        model_blessing=types.Channel(type=standard_artifacts.ModelBlessing),
    ).with_id("BaselineStatistics")
