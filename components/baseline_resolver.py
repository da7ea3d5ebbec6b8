"""Which blessed model a candidate is compared with."""

from tfx import types
from tfx.dsl.components.common import resolver
from tfx.types import standard_artifacts


class BlessedBeforeCandidateStrategy(resolver.ResolverStrategy):
    """The latest blessed model that is older than the candidate.

    TFX's own LatestBlessedModelStrategy compares an unchanged, cached model with itself as soon as it was blessed: the
    comparison says nothing, and the Evaluator runs again because its input changed. Here a candidate keeps its baseline
    for good, so that evaluating it again is a cache hit.

    Channels: `candidate` (Model, exactly the one just trained), `model` (all Models), `model_blessing` (all
    ModelBlessings).
    """

    def resolve_artifacts(self, store, input_dict: dict[str, list[types.Artifact]]) -> dict[str, list[types.Artifact]]:
        """The baseline under `model` and its blessing under `model_blessing`; both empty where there is none yet."""
        candidate = input_dict["candidate"][0]
        blessed = {
            blessing.get_int_custom_property("current_model_id"): blessing
            for blessing in input_dict["model_blessing"]
            if blessing.get_int_custom_property("blessed") == 1
        }
        older = [model for model in input_dict["model"] if model.id in blessed and model.id < candidate.id]
        result: dict[str, list[types.Artifact]] = {key: [] for key in input_dict}
        result["candidate"] = [candidate]
        if older:
            baseline = max(older, key=lambda model: model.id)
            result["model"] = [baseline]
            result["model_blessing"] = [blessed[baseline.id]]
        return result


def baseline_resolver(candidate: types.BaseChannel) -> resolver.Resolver:
    """The node `BaselineResolver`, whose output `model` is the baseline of `candidate`."""
    return resolver.Resolver(
        strategy_class=BlessedBeforeCandidateStrategy,
        candidate=candidate,
        model=types.Channel(type=standard_artifacts.Model),
        model_blessing=types.Channel(type=standard_artifacts.ModelBlessing),
    ).with_id("BaselineResolver")
