"""Evaluating a finished run on more."""
