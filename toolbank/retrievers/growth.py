"""Adding tools to a fitted retriever."""

from collections.abc import Sequence

from toolbank.bank.records import Tool
from toolbank.system.errors import InputError


def join_names(known: Sequence[str], added: Sequence[Tool]) -> tuple[str, ...]:
    """The names of the tools that are there and, after them, of those that are added.

    Raises:
        InputError: a tool that is added is there already, or is given twice.
    """
    names = set(known)
    for tool in added:
        if tool.name in names:
            raise InputError(
                f"{tool.name}: can't be added, because a tool of that name is there already. "
                "Leave it out, or fit again: toolbank train RUN."
            )
        names.add(tool.name)
    return (*known, *(tool.name for tool in added))
