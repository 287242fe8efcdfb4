"""Which extra brings a library, and what is told where it is not installed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

from toolbank.system.distribution import advise_to_install
from toolbank.system.errors import InputError

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
    "mcp": ("mcp",),
    "numpydoc": ("crawl", "generate"),
    "onnx": ("pack",),
    "onnxruntime": ("serve", "pack"),
    "onnxscript": ("pack",),
    "openai": ("generate",),
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
"""The extras that bring a library, by its import name.

The one of the command's name is told, else the first.
"""


_COMMANDS = {
    "crawl": "selectolax",
    "generate": "polars",
    "pack": "onnxscript",
    "run": "polars",
    "serve": "starlette",
    "train": "torch",
}
"""What a command can do nothing without; whether it needs more, its recipe says."""


class MissingLibraryError(InputError):
    """A library that an extra brings is not installed; the message says how to get it.

    `who` needs it: a command, or a key of a recipe.
    """

    def __init__(self, library: str, who: str = "") -> None:
        extras = EXTRAS[library]
        extra = who if who in extras else extras[0]
        super().__init__(
            f"{who or 'This'} needs {library}, which isn't installed. {advise_to_install(extra)}"
        )
        self.library, self.who = library, who


@contextmanager
def telling_extras(who: str = "") -> Iterator[None]:
    """Have the import of a library that isn't installed be told with the extra that brings it.

    Raises:
        MissingLibraryError: in place of a ModuleNotFoundError of such a library.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name not in EXTRAS:
            raise
        raise MissingLibraryError(error.name, who) from error


def demand_library(library: str, who: str = "") -> None:
    """Refuse to go on without a library, before it is imported.

    Raises:
        MissingLibraryError: it is not installed.
    """
    if find_spec(library) is None:
        raise MissingLibraryError(library, who)


def demand_extra(command: str) -> None:
    """Refuse a command that can do nothing here, before it reads what it was given.

    Raises:
        MissingLibraryError: a library that it always needs is not installed.
    """
    if library := _COMMANDS.get(command):
        demand_library(library, command)
