"""What can be wrong with texts."""


class TextDataError(ValueError):
    """The documents cannot be trained on."""

    exit_code = 3


class TextSettingsError(ValueError):
    """A setting in workload.yaml that is not known or cannot be."""

    exit_code = 2
