"""The user's word for commands: what may be started on this machine.

Recipes and files of servers are handed on, and say which programs are run. So what counts stands
outside of them: an answer on the terminal, for this process, or TOOLBANK_TRUSTED_COMMANDS.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence

from toolbank.sources.mcp.server import Server
from toolbank.system.errors import InputError
from toolbank.system.terminal import confirm

_ENVIRONMENT = "TOOLBANK_TRUSTED_COMMANDS"

# Up to a `;` or an end of line that is not quoted.
_LINE = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^;\n])+""", re.DOTALL)

_answered: set[tuple[str, ...]] = set()


def demand_commands(servers: Sequence[Server], label: str) -> None:
    """Ask the user whether these may be started; those that were named already are not asked for.

    Raises:
        InputError: the user refuses, or there is no terminal to ask on.
    """
    trusted = _answered | set(_read(os.environ.get(_ENVIRONMENT, "")))
    unnamed = [s for s in servers if s.command and _words(s.line) not in trusted]
    if not unnamed:
        return
    it = "it" if len(unnamed) == 1 else "them"
    wanted = f"Reading {label} starts on this machine, as you:"
    lines = "\n".join(f"  {server.line}" for server in unnamed)
    answer = confirm(f"{wanted}\n{lines}\nStart {it}?")
    if answer is None:
        raise InputError(_explain(unnamed, wanted))
    if not answer:
        raise InputError(f"sources: {label}: nothing was started; it can't be read so.")
    _answered.update(_words(server.line) for server in unnamed)


def _explain(unnamed: Sequence[Server], wanted: str) -> str:
    """What to do where there is no terminal, for who reads it in a log."""
    masked = [server.masked_line for server in unnamed]
    lines = "\n".join(f"  {line}" for line in masked)
    before = f'"${_ENVIRONMENT};"' if os.environ.get(_ENVIRONMENT) else ""
    hint = (
        ", with what *** stands for"
        if any(s.masked_line != s.line for s in unnamed)
        else ""
    )
    return (
        f"{wanted}\n{lines}\nwhich you have not said may be. On a terminal you are asked. "
        f"Elsewhere, name them{hint}, and run the same command again:\n"
        f"  export {_ENVIRONMENT}={before}{shlex.quote('; '.join(masked))}"
    )


def _words(line: str) -> tuple[str, ...]:
    return tuple(shlex.split(line))


def _read(text: str) -> Iterator[tuple[str, ...]]:
    """Command lines as a shell takes them, with `;` or an end of line between several."""
    for line in _LINE.findall(text):
        try:
            yield _words(line)
        except ValueError as error:
            raise InputError(
                f"{_ENVIRONMENT}: can't be read ({error}). Write command lines as a shell takes "
                "them, with ; between several."
            ) from error
