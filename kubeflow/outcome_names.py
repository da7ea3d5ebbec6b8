"""Names that the outcome step and its compiler share; importing the compiler in a container would import TFX."""

WEBHOOK_VARIABLE = "SLUICE_WEBHOOK_URL"
"""Environment variable with the webhook's address, from the Secret."""
SUMMARY_PORT = "summary"
"""Output artifact with the summary, as Markdown."""
