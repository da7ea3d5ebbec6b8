"""A candidate meets the latest blessed model that is older than itself."""

from tfx.types import standard_artifacts

from components.baseline_resolver import BlessedBeforeCandidateStrategy


def _model(model_id: int) -> standard_artifacts.Model:
    model = standard_artifacts.Model()
    model.id = model_id
    return model


def _blessing(model_id: int, blessed: int) -> standard_artifacts.ModelBlessing:
    blessing = standard_artifacts.ModelBlessing()
    blessing.set_int_custom_property("current_model_id", model_id)
    blessing.set_int_custom_property("blessed", blessed)
    return blessing


def _resolve(candidate: int, models: list[int], blessed: dict[int, int]) -> int | None:
    result = BlessedBeforeCandidateStrategy().resolve_artifacts(
        None,
        {
            "candidate": [_model(candidate)],
            "model": [_model(model) for model in models],
            "model_blessing": [_blessing(*item) for item in blessed.items()],
        },
    )
    assert len(result["model"]) == len(result["model_blessing"])
    return result["model"][0].id if result["model"] else None


def test_there_may_be_none():
    assert _resolve(5, [5], {}) is None
    assert _resolve(5, [3, 5], {3: 0}) is None


def test_the_latest_blessed_one_wins():
    assert _resolve(9, [1, 4, 6, 9], {1: 1, 4: 1, 6: 0}) == 4


def test_never_the_candidate_itself_nor_a_later_one():
    assert _resolve(5, [2, 5, 8], {2: 1, 5: 1, 8: 1}) == 2
    assert _resolve(5, [5], {5: 1}) is None
