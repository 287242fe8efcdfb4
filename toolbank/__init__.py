"""Turn an API reference into a tool-retrieval dataset, and the dataset into a retriever.

    import toolbank

    finder = toolbank.load("runs/quickstart")
    for hit in finder.search("middle value of house prices, ignoring blanks", k=5):
        print(f"{hit.score:.2f}  {hit.tool.name}  {hit.tool.summary}")

`toolbank.load_bank` gives the queries, asks, tools and attempts of a run as polars frames;
`toolbank.load_recipe` and `toolbank.run_recipe` do what `toolbank run` does. What can't be used
raises `toolbank.InputError`, a `toolbank.ToolbankError`, with a message for people.
"""

from typing import TYPE_CHECKING, Any

from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.bank.bank import Bank
    from toolbank.bank.frames import BankFrames, load_bank
    from toolbank.bank.records import Ask, Query, Tool
    from toolbank.run.recipe import load_recipe
    from toolbank.run.run import run_recipe
    from toolbank.search.finder import Finder, Hit
    from toolbank.search.run_search import load
    from toolbank.system.errors import InputError, ToolbankError

__all__ = [
    "Ask",
    "Bank",
    "BankFrames",
    "Finder",
    "Hit",
    "InputError",
    "Query",
    "Tool",
    "ToolbankError",
    "__version__",
    "load",
    "load_bank",
    "load_recipe",
    "run_recipe",
]

_HOMES = {
    "Ask": "bank.records",
    "Bank": "bank.bank",
    "BankFrames": "bank.frames",
    "Finder": "search.finder",
    "Hit": "search.finder",
    "InputError": "system.errors",
    "Query": "bank.records",
    "Tool": "bank.records",
    "ToolbankError": "system.errors",
    "load": "search.run_search",
    "load_bank": "bank.frames",
    "load_recipe": "run.recipe",
    "run_recipe": "run.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
