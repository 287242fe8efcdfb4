"""Why a call was not passed on, or did not come back."""

from __future__ import annotations


class CallError(Exception):
    """What was wrong, in words for the model that called."""
