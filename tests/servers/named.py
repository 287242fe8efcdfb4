"""The servers of the tests as hosts that the user has named: keys may go there."""

import os
from urllib.parse import urlsplit

_VARIABLE = "TOOLBANK_TRUSTED_HOSTS"


def name_host(url: str, variable: str = "OPENAI_API_KEY") -> None:
    """Let a variable's value go to a URL's host and port, in this process and its children."""
    parts = urlsplit(url)
    entry = f"{variable}={parts.scheme}://{parts.netloc}"
    os.environ[_VARIABLE] = f"{os.environ.get(_VARIABLE, '')} {entry}".strip()


def forget_host(url: str) -> None:
    """Let nothing go to a URL's host and port any more."""
    kept = os.environ.get(_VARIABLE, "").split()
    kept = [entry for entry in kept if not entry.endswith(f"//{urlsplit(url).netloc}")]
    os.environ[_VARIABLE] = " ".join(kept)
