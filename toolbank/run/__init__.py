"""Runs: the folder, the stages, what is done and what is stale."""
