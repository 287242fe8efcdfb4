"""Report which extra installs a missing library, and how this distribution is named and installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb

from toolbank.system.errors import InputError

# The import name and the command are `toolbank`; on the index that is somebody else's.
DISTRIBUTION = "toolbank-retrieval"
# Whether the index has it: until then it is installed in a clone of it.
PUBLISHED = False
_THEIRS = "toolbank"


def install_command(extra: str) -> str:
    """The command that installs this project with an extra; until it is published, in a clone."""
    if PUBLISHED:
        return f"pip install '{DISTRIBUTION}[{extra}]'"
    # vLLM asks for other versions than all the rest.
    file = "constraints-vllm.txt" if extra == "vllm" else "constraints.txt"
    return f"pip install '.[{extra}]' -c {file}"


def advise_to_install(extra: str) -> str:
    """A sentence that says how to get what an extra brings."""
    where = "" if PUBLISHED else ", in a clone of this project"
    return f"Get it{where}: {install_command(extra)}"


def explain_namesake() -> str:
    """That another distribution of our import name is installed here too; "" if none is.

    One of the two has written over files of the other, and which one Python imports is chance.
    """
    try:
        version = metadata.version(_THEIRS)
    except metadata.PackageNotFoundError:
        return ""
    what, where = (DISTRIBUTION, "") if PUBLISHED else (".", ", in a clone of it")
    return (
        f"the distribution {_THEIRS} {version} is installed here too: another project (or an early "
        f"version of this one) with the same import name, and either has files of the other. Run "
        f"`pip uninstall {_THEIRS}`, then install this one anew{where}: pip install "
        f"--force-reinstall --no-deps {what}"
    )


def is_by_namesake(error: ImportError) -> bool:
    """Whether an import failed in a file of the other distribution, or for want of one beside it.

    What both have listed as theirs, such as the package's own `__init__`, proves nothing.
    """
    try:
        listed = metadata.distribution(_THEIRS).files or ()
    except metadata.PackageNotFoundError:
        return False
    package = Path(__file__).parents[1] / "__init__.py"
    theirs = {Path(file.locate()).resolve() for file in listed} - {package.resolve()}
    read = [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]
    # The file of a name that it lacks, or of a package without the module.
    parent = sys.modules.get((error.name or "").rpartition(".")[0])
    wanted = [error.path, getattr(parent, "__file__", None), *read]
    return any(Path(file).resolve() in theirs for file in wanted if file)


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
