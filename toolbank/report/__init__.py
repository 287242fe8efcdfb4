"""The HTML report about a run."""
