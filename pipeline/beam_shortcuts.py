"""Two things that Beam works out thousands of times in a run, worked out once.

Beam asks each transform's DoFn for its state and timers, many times over, by inspecting the signatures of all its
methods, and it builds a command-line parser whenever a transform wants to know an option. With a few hundred transforms
per step that is some three seconds of a run of half a minute. Both answers depend on nothing that changes meanwhile.
"""

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import userstate


@contextlib.contextmanager
def beam_shortcuts() -> Iterator[None]:
    """While the block runs, Beam's pipelines of this process are built and run with the answers kept."""
    with (
        mock.patch.object(userstate, "get_dofn_specs", _kept_specs(userstate.get_dofn_specs)),
        mock.patch.object(PipelineOptions, "view_as", _kept_views(PipelineOptions.view_as)),
    ):
        yield


def _kept_specs(stock: Callable[[Any], tuple[set, set]]) -> Callable[[Any], tuple[set, set]]:
    """get_dofn_specs by class: it looks at bound methods only, which are the class's and those an object holds."""
    kept: dict[tuple, tuple[set, set]] = {}

    def get_dofn_specs(dofn: Any) -> tuple[set, set]:
        own = [(name, value.__func__) for name, value in vars(dofn).items() if isinstance(value, types.MethodType)]
        key = (type(dofn), *own)
        if key not in kept:
            kept[key] = stock(dofn)
        states, timers = kept[key]
        return set(states), set(timers)

    return get_dofn_specs


def _kept_views(stock: Callable[[Any, type], Any]) -> Callable[[Any, type], Any]:
    """view_as by options and class: all views of the same options share one dict of values, and only that."""
    kept: dict[tuple[int, type], Any] = {}

    def view_as(self: Any, cls: type) -> Any:
        key = (id(self._all_options), cls)  # the kept view keeps the dict, so that no other gets its id
        if key not in kept:
            kept[key] = stock(self, cls)
        return kept[key]

    return view_as
