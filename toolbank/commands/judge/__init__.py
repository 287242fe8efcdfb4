"""`toolbank judge`."""
