"""The recipe for ResNet-50 on ImageNet-1k; its data is not part of the project."""
