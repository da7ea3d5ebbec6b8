"""What the stock executor looks up by name in the module that it is given (`module_path`)."""

from components.evaluator.named_calls import custom_eval_shared_model
from components.evaluator.row_groups import custom_extractors

__all__ = ["custom_eval_shared_model", "custom_extractors"]
