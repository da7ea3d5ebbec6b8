"""The Evaluator step: TFX's own, with the model checked before, and a verdict with reasons after."""
