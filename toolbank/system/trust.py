"""Where a secret of this environment may go: to its own provider, and to what the user has named.

Recipes are handed on, and say which variable's value goes to which host. So what counts is the
user's word, which stands outside of recipes: in TOOLBANK_TRUSTED_HOSTS, in a file of the user's
configuration folder (what was answered on a terminal), or on the command line for that command.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import read_text, write_text
from toolbank.system.outputs import config_folder
from toolbank.system.terminal import confirm, print_message

DEFAULT_KEY = "OPENAI_API_KEY"
"""The variable of the key where a recipe names none."""

_OWN_PROVIDER = "https://api.openai.com"
_ENVIRONMENT = "TOOLBANK_TRUSTED_HOSTS"
_FILE = "trusted_hosts"
_HEAD = """\
# Which environment variable's value may be sent to which host, a line each. toolbank asks, and
# writes this; a line that is taken out is asked for again.
"""
_WITHOUT = (
    "set `api_key_env: null`, or take the variable out of `headers` or `token_env`."
)
_ENTRY = re.compile(r"(?:([A-Z_][A-Z0-9_]*)=)?((?:https?://)?[^=@/?#]+)/?")
# A variable without its `=HOST`; as a host it would be one that nobody has.
_VARIABLE_ALONE = re.compile(r"[A-Z_][A-Z0-9_]*")
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


@dataclass(frozen=True)
class Grant:
    """That the value of an environment variable may go to a scheme, host and port.

    `place` is written in one way only: in small letters, without a final dot, in punycode, and
    with the port where it is not the scheme's own.
    """

    variable: str
    place: str

    @classmethod
    def of(cls, variable: str, url: str) -> Grant:
        """The grant that is needed to send a variable's value to a URL.

        Raises:
            ValueError: the URL has no host that could be told from others.
        """
        return cls(variable, _place(url))

    def __str__(self) -> str:
        return f"{self.variable}={self.place}"


@dataclass(frozen=True)
class _Command:
    source: str = "the settings"
    typed: frozenset[Grant] = frozenset()


# Of the recipe that this thread or task works on: engines of other packages are made by calls that
# have no place for it. What was answered counts in the whole process.
_command = ContextVar("_command", default=_Command())  # noqa: B039 - it is frozen
_answered: set[Grant] = set()


@contextmanager
def command_of(source: str, typed: Sequence[Grant]) -> Iterator[None]:
    """While the block runs, messages name `source`, and what the user typed is named as well.

    For the thread or task that runs it, and for no other.
    """
    before = _command.set(_Command(source, frozenset(typed)))
    try:
        yield
    finally:
        _command.reset(before)


def is_named(grant: Grant) -> bool:
    """Whether a secret may go there.

    Raises:
        InputError: an entry of the environment variable or of the file says nothing.
    """
    if grant == Grant(DEFAULT_KEY, _OWN_PROVIDER) or grant in _command.get().typed:
        return True
    if grant in _answered or grant in _read(os.environ.get(_ENVIRONMENT, ""), None):
        return True
    path = _path()
    return path.is_file() and grant in _read(read_text(path), path)


def demand(grants: Sequence[Grant], section: str, key: str = "base_url") -> None:
    """Ask the user for what is not named.

    `section` is the part of the recipe that it is for, whose `key` has the address.

    Raises:
        InputError: the user refuses, or there is no terminal to ask on.
    """
    for grant in grants:
        if is_named(grant):
            continue
        wanted = (
            f"{_command.get().source} has the value of {grant.variable} sent to {grant.place} "
            f"(the {key} of {section}), and you have not named that host."
        )
        answer = confirm(f"{wanted} Send it there, now and later?")
        if answer is None:
            raise InputError(f"{wanted} {remedy(grant)}")
        if not answer:
            raise InputError(
                f"Nothing was sent. To do without {grant.variable}, {_WITHOUT}"
            )
        _name_for_good(grant)


def remedy(grant: Grant) -> str:
    """What to do where a grant is missing: the line to set, and how to do without."""
    return (
        "If it should be, name it, and run the same command again:\n"
        f"  {_export([grant])}\nTo do without, {_WITHOUT}"
    )


def foretell(grants: Iterable[Grant]) -> str:
    """What a run will do where these are missing, and the line to set where it can't ask."""
    return (
        "`run` asks on a terminal whether it may. Where there is none, name the host before:\n"
        f"  {_export(grants)}"
    )


def _export(grants: Iterable[Grant]) -> str:
    others = [f"${_ENVIRONMENT}"] if os.environ.get(_ENVIRONMENT) else []
    return f'export {_ENVIRONMENT}="{" ".join([*others, *map(str, grants)])}"'


def _name_for_good(grant: Grant) -> None:
    """Note in the user's configuration folder that a secret may go there."""
    _answered.add(grant)
    path = _path()
    try:
        text = read_text(path) if path.is_file() else _HEAD
        write_text(path, f"{text.rstrip()}\n{grant}\n")
    except ToolbankError as error:
        print_message(f"toolbank: {error} So {grant} counts for this command alone.")


def _path() -> Path:
    return config_folder() / _FILE


def _read(text: str, path: Path | None) -> set[Grant]:
    """The grants of a list; one without a variable is of the default key, and of https."""
    lines = (line.partition("#")[0] for line in text.splitlines())
    found = set()
    for entry in re.split(r"[\s,]+", " ".join(lines)):
        if entry:
            found.add(_parse(entry, str(path or _ENVIRONMENT)))
    return found


def _parse(entry: str, where: str) -> Grant:
    try:
        match = _ENTRY.fullmatch(entry)
        if match and not _VARIABLE_ALONE.fullmatch(entry):
            variable, place = match.groups()
            url = place if "://" in place else f"https://{place}"
            return Grant.of(variable or DEFAULT_KEY, url)
    except ValueError:
        pass
    raise InputError(
        f"{where}: {entry!r} names no place for a key. Write VARIABLE=https://HOST or "
        "VARIABLE=http://HOST:PORT, with blanks between several."
    )


def _place(url: str) -> str:
    # What connects reads the address by the same library, so that both see the same host.
    from yarl import URL

    try:
        parsed = URL(url)
    except IndexError as error:  # of brackets without a host, as in https://[]@
        raise ValueError(f"{url} is no address") from error
    if not url.isprintable():
        raise ValueError("it has a sign in it that no address has")
    if parsed.scheme not in ("http", "https") or parsed.raw_user is not None:
        raise ValueError("it names no host, or a user with it")
    host = (parsed.raw_host or "").lower().removesuffix(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        if not _HOST.fullmatch(host):
            raise ValueError(f"{host!r} is no host") from None
    else:
        host = f"[{address}]" if address.version == 6 else str(address)
    port = "" if parsed.is_default_port() else f":{parsed.port}"
    return f"{parsed.scheme}://{host}{port}"
