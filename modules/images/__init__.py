"""Image classification: a residual network on pictures that stay encoded until the model's input pipeline."""
