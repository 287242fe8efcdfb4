"""The servers of the tests as hosts that the user has allowed: keys may go there."""

import os
import shlex
from urllib.parse import urlsplit

GRANTS = "TOOLBANK_GRANTS"


def name_host(url, variable="OPENAI_API_KEY"):
    """Let a variable's value go to a URL's host and port, in this process and its children."""
    os.environ[GRANTS] = f"{os.environ.get(GRANTS, '')};{grant_of(url, variable)}"


def forget_host(url):
    """Let nothing go to a URL's host and port any more."""
    kept = os.environ.get(GRANTS, "").split(";")
    kept = [entry for entry in kept if not entry.endswith(f"//{urlsplit(url).netloc}")]
    os.environ[GRANTS] = ";".join(kept)


def grant_of(url, variable="OPENAI_API_KEY"):
    """The entry that lets a variable's value go to a URL's host and port."""
    parts = urlsplit(url)
    return f"send {variable}=${variable} {parts.scheme}://{parts.netloc}"


def read_line(message):
    """What the `export` line of a message says to set, but for the entries that are set already."""
    [line] = [line for line in message.splitlines() if "export" in line]
    value = line.partition(f"export {GRANTS}=")[2].removeprefix(f'"${GRANTS}; "')
    [value] = shlex.split(value)
    return value
