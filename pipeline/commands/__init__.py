"""One module for each `sluice` command."""
