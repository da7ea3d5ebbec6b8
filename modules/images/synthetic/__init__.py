"""Made-up photographs of the size of ImageNet's, to measure ResNet-50 without ImageNet."""
