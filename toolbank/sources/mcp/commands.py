"""The user's word for commands: what may be started on this machine.

Recipes and files of servers are handed on, and say which programs are run. So what counts stands
outside of them: an answer on the terminal, for this process, or TOOLBANK_TRUSTED_COMMANDS.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence

from toolbank.sources.mcp.server import Server
from toolbank.system.errors import InputError
from toolbank.system.secrets import has_hash
from toolbank.system.terminal import confirm

_ENVIRONMENT = "TOOLBANK_TRUSTED_COMMANDS"

_NAME = re.compile(r"[\w.:@()-]+", re.ASCII)
_VARIABLE = re.compile(r"[^\s=/'\"]+=")
# Up to a `;` or an end of line that is not quoted.
_LINE = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^;\n])+""", re.DOTALL)

_answered: set[tuple[str, ...]] = set()


def demand_commands(servers: Sequence[Server], label: str) -> None:
    """Ask the user whether these may be started; those that were named already are not asked for.

    Raises:
        InputError: the user refuses, there is no terminal to ask on, or a command or the name of a
            variable could be taken for something else where the line is shown.
    """
    for server in servers:
        _demand_plain_names(server, label)
    trusted = _answered | set(_read(os.environ.get(_ENVIRONMENT, "")))
    unnamed = [s for s in servers if s.command and not _is_named(s, trusted)]
    if not unnamed:
        return
    it = "it" if len(unnamed) == 1 else "them"
    lines = "\n".join(f"  {server.line}" for server in unnamed)
    wanted = f"Reading {label} starts on this machine, as you:\n{lines}"
    if any(_is_named_otherwise(server, trusted) for server in unnamed):
        wanted += (
            f"\n{_ENVIRONMENT} names this command with other values or without them (as toolbank "
            "0.7.0 wrote it); it now has to have the value of each variable, or a secret's hash."
        )
    answer = confirm(f"{wanted}\nStart {it}?")
    if answer is None:
        raise InputError(f"{wanted}\n{_explain(unnamed)}")
    if not answer:
        raise InputError(f"sources: {label}: nothing was started; it can't be read so.")
    _answered.update(_words(server.line) for server in unnamed)


def _demand_plain_names(server: Server, label: str) -> None:
    """Refuse what would be read as another command in a line such as "NAME=value program"."""
    where = f"sources: {label}: {server.name}" if server.name else f"sources: {label}"
    for name in server.environment if server.command else ():
        if not _NAME.fullmatch(name):
            raise InputError(
                f"{where}: env {name!r} is no name of a variable: it reads as several words."
            )
    if server.command and "=" in server.command[0]:
        raise InputError(
            f"{where}: command {server.command[0]!r} reads like a variable. Put variables into "
            "`env`, or give the program by a path without `=`."
        )


def _is_named(server: Server, trusted: Collection[tuple[str, ...]]) -> bool:
    lines = [server.line]
    # A value that imitates a hash must not pass for the value that has this hash.
    if not has_hash(server.open_line):
        lines.append(server.open_line)
    return any(_words(line) in trusted for line in lines)


def _is_named_otherwise(server: Server, trusted: Iterable[tuple[str, ...]]) -> bool:
    """Whether the same program is named, with variables of other values or without them."""
    command = _without_variables(_words(server.open_line))
    return any(_without_variables(words) == command for words in trusted)


def _without_variables(words: Sequence[str]) -> tuple[str, ...]:
    start = 3 if words[:1] == ("cd",) and words[2:3] == ("&&",) else 0
    variables = itertools.takewhile(_VARIABLE.match, words[start:])
    return (*words[:start], *words[start + len(list(variables)) :])


def _explain(unnamed: Sequence[Server]) -> str:
    """What to do where there is no terminal, for who reads it in a log."""
    before = f'"${_ENVIRONMENT};"' if os.environ.get(_ENVIRONMENT) else ""
    lines = shlex.quote("; ".join(server.line for server in unnamed))
    return (
        "You have not said that this may be started. On a terminal you are asked. Elsewhere, name "
        f"the command, and run the same command again:\n  export {_ENVIRONMENT}={before}{lines}"
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
