"""Large reference material that may lie beside the checkout, as ../shared."""

from pathlib import Path

import pytest

_FOLDER = Path(__file__).resolve().parents[2] / "shared"


def shared(name: str) -> Path:
    """Path of a shared file; the calling test is skipped where it is missing."""
    path = _FOLDER / name
    if not path.exists():
        pytest.skip(f"needs ../shared/{name}, which is not here")
    return path
