"""Report which extra installs a missing library, and how this distribution is named and installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

from toolbank.system.errors import InputError

# The import name and the command are `toolbank`, a name that another project has on PyPI.
DISTRIBUTION = "toolbank-retrieval"
# Whether this project is on PyPI. Until then users install it from a clone.
PUBLISHED = False


def install_command(extra: str) -> str:
    """Return the command that installs this project with an extra."""
    if PUBLISHED:
        return f"pip install '{DISTRIBUTION}[{extra}]'"
    # vLLM requires other versions than the rest.
    file = "constraints-vllm.txt" if extra == "vllm" else "constraints.txt"
    return f"pip install '.[{extra}]' -c {file}"


def install_advice(extra: str) -> str:
    """Return a sentence on how to install an extra."""
    where = "" if PUBLISHED else ", in a clone of this project"
    return f"Install it{where}: {install_command(extra)}"


EXTRAS: Mapping[str, tuple[str, ...]] = {
    "aiohttp": ("crawl", "generate", "mcp"),
    "anyio": ("mcp",),
    "bm25s": ("all", "generate", "train"),
    "certifi": ("generate",),
    "datasets": ("train",),
    "filelock": ("all", "crawl", "generate", "train"),
    "griffe": ("crawl", "generate"),
    "h11": ("serve",),
    "httpx2": ("mcp",),
    "huggingface_hub": ("train",),
    "jinja2": ("all", "generate", "train"),
    "jsonschema": ("crawl", "generate", "mcp"),
    "jsonschema_rs": ("crawl", "generate", "mcp"),
    "lingua": ("languages",),
    "mcp": ("mcp",),
    "numpydoc": ("crawl", "generate"),
    "onnx": ("pack",),
    "onnxruntime": ("serve", "pack"),
    "onnxscript": ("pack",),
    "peft": ("lora",),
    "polars": ("all", "crawl", "generate", "train", "pack"),
    "protego": ("crawl", "generate"),
    "psutil": ("vllm",),
    "pyarrow": ("train",),
    "ray": ("ray",),
    "referencing": ("mcp",),
    "scipy": ("all", "generate", "train"),
    "selectolax": ("crawl", "generate"),
    "sentence_transformers": ("train", "pack"),
    "sklearn": ("train",),
    "starlette": ("serve",),
    "textblob": ("instructions",),
    "threadpoolctl": ("train",),
    "tokenizers": ("serve", "train"),
    "torch": ("train", "pack"),
    "transformers": ("train", "pack"),
    "usearch": ("large", "pack"),
    "uvicorn": ("serve",),
    "vllm": ("vllm",),
    "w3lib": ("crawl", "generate"),
    "yarl": ("crawl", "generate", "mcp"),
}
"""The extras that install a library, by its import name.

Messages name the extra that is called like the command, or else the first.
"""

_COMMANDS = {
    "crawl": "selectolax",
    "generate": "polars",
    "pack": "onnxscript",
    "run": "polars",
    "serve": "starlette",
    "train": "torch",
}
"""The library without which a command can do nothing; its recipe may need more."""


class MissingLibraryError(InputError):
    """A library of an extra is not installed; the message says how to install it.

    `who` is the command or recipe key that needs it.
    """

    def __init__(self, library: str, who: str = "") -> None:
        extras = EXTRAS[library]
        extra = who if who in extras else extras[0]
        super().__init__(
            f"{who or 'This'} needs {library}, which is not installed. {install_advice(extra)}"
        )
        self.library, self.who = library, who


@contextmanager
def naming_extras(who: str = "") -> Iterator[None]:
    """Name the extra to install if an import in the block fails.

    Raises:
        MissingLibraryError: instead of ModuleNotFoundError, for a library of an extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name not in EXTRAS:
            raise
        raise MissingLibraryError(error.name, who) from error


def require_library(library: str, who: str = "") -> None:
    """Check that a library is installed, without importing it.

    Raises:
        MissingLibraryError: it is not.
    """
    if find_spec(library) is None:
        raise MissingLibraryError(library, who)


def require_extra(command: str) -> None:
    """Check that the library that a command always needs is installed.

    Raises:
        MissingLibraryError: it is not.
    """
    if library := _COMMANDS.get(command):
        require_library(library, command)
