"""Ask the user before a secret is sent to a host or a program is started, and remember the answer.

Recipes are handed on, and say which variable's value goes to which host and what is started. So what
counts is the user's consent, which is kept outside of recipes: in TOOLBANK_GRANTS, in a file of the
user's configuration folder (the answers on a terminal), or on the command line for that command.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import os
import re
import secrets
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache

from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import atomic_path, read_text
from toolbank.system.numbers import count
from toolbank.system.outputs import config_folder
from toolbank.system.secrets import show_unseen
from toolbank.system.terminal import confirm, print_message

DEFAULT_KEY = "OPENAI_API_KEY"
"""The variable of the key where a recipe names none."""

Route = tuple[str, str]
"""An environment variable, and the scheme, host and port that its value is sent to."""

_OWN_PROVIDER: Route = (DEFAULT_KEY, "https://api.openai.com")
_ENVIRONMENT = "TOOLBANK_GRANTS"
_FILE = "grants"
_FORMER = {"send": "TOOLBANK_TRUSTED_HOSTS", "start": "TOOLBANK_TRUSTED_COMMANDS"}
_FORMER_FILE = "trusted_hosts"
_HEAD = """\
# What you have allowed toolbank to do, a line each. toolbank writes this file when you answer its
# questions. If you delete a line, you are asked again.
"""
_ACTIONS = {
    "send": (
        "send secrets of your environment to other hosts",
        "set `api_key_env: null`, or take the variable out of `headers` or `token_env`",
    ),
    "start": (
        "start programs on this machine, as you",
        "take the server out of `sources`",
    ),
}
"""What a recipe does, and how to do without it."""
# Up to a `;` or an end of line that is not quoted.
_ENTRY = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^;\n])+""", re.DOTALL)
_PROOF = re.compile(r"scrypt:([0-9a-f]{16}):([0-9a-f]{32})")
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_SHORTEST_HASHED = 16
"""Characters of a secret that a printed hash may depend on; shorter ones could be guessed."""
_FILL = ", with each secret in place of <secret ...> (the hash of a short one could be guessed)"


@dataclass(frozen=True)
class GrantValue:
    """A text of a grant; `secrets` are the start and end of each secret in it, in order."""

    text: str = field(repr=False)
    secrets: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    @property
    def shown(self) -> str:
        """The text on one line, with the length of each secret in its place."""
        shown, last = "", 0
        for start, end in self.secrets:
            shown += show_unseen(self.text[last:start])
            shown += f"<secret of {count(end - start, 'character')}>"
            last = end
        return shown + show_unseen(self.text[last:])


@dataclass(frozen=True)
class Grant:
    """A permission: to do `action` to `target`, with the named `values`, in any order.

    `send` sends the values of environment variables to a host. `start` starts the words of a
    command with environment variables, in the folder `--chdir`. Two grants are equal only if every
    text in them is.
    """

    action: str
    target: tuple[GrantValue, ...]
    values: tuple[tuple[str, GrantValue], ...] = ()

    def __post_init__(self) -> None:
        ordered = sorted(self.values, key=lambda value: value[0])
        object.__setattr__(self, "values", tuple(ordered))

    def __str__(self) -> str:
        """The whole grant on one line, as a shell takes it, with the length of each secret."""
        return self._write()

    def _write(self, *, by_name: bool = False) -> str:
        values = (
            f"{n}=${n}" if by_name and v.secrets else f"{n}={shlex.quote(v.shown)}"
            for n, v in self.values
        )
        target = (shlex.quote(value.shown) for value in self.target)
        return " ".join([self.action, *values, *target])

    @property
    def route(self) -> Route:
        """Of `send`: the variable and the host."""
        return self.values[0][0], self.target[0].text

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets in it, each once."""
        texts = (*(v for _, v in self.values), *self.target)
        found = (v.text[start:end] for v in texts for start, end in v.secrets)
        return tuple(dict.fromkeys(found))

    def hash(self, salt: str) -> str:
        """The hash of every text of the grant; two grants have the same only if they are equal.

        With a secret it takes a tenth of a second, so that secrets can't be guessed by the million.
        """
        values = [(name, value.text) for name, value in self.values]
        whole = [self.action, [value.text for value in self.target], values]
        text = json.dumps(whole, ensure_ascii=False).encode(errors="surrogatepass")
        return _hash(text, salt, 2**14 if self.secrets else 2)

    def hashed(self) -> str:
        """The grant on one line with its hash, by which it is recognized later and elsewhere."""
        salt = secrets.token_hex(8)
        return f"{self} scrypt:{salt}:{self.hash(salt)}"

    def entry(self) -> str:
        """The grant for the environment variable: without secrets, nor the hash of a short one."""
        by_name = self._write(by_name=True)
        if self.is_written_as(shlex.split(by_name)):
            return by_name
        is_guessable = any(len(secret) < _SHORTEST_HASHED for secret in self.secrets)
        return str(self) if is_guessable else self.hashed()

    def is_written_as(self, words: Sequence[str]) -> bool:
        """Whether words of a list are this grant.

        They have its hash at the end, or else every text in full, or NAME=$NAME for the value of an
        environment variable.
        """
        if proof := _PROOF.fullmatch(words[-1]):
            is_shown = list(words[:-1]) == shlex.split(str(self))
            return is_shown and self.hash(proof[1]) == proof[2]
        values, target = words[1 : 1 + len(self.values)], words[1 + len(self.values) :]
        named = dict(word.partition("=")[::2] for word in values)
        for name, text in named.items():
            if text == f"${name}":
                named[name] = os.environ.get(name, "").strip()
        return (
            words[0] == self.action
            and list(target) == [value.text for value in self.target]
            and named == {name: value.text for name, value in self.values}
        )


@cache
def _hash(text: bytes, salt: str, cost: int) -> str:
    salted = bytes.fromhex(salt)
    return hashlib.scrypt(text, salt=salted, n=cost, r=8, p=1, dklen=16).hex()


def grant_to_send(variable: str, url: str, key: str) -> Grant:
    """The grant that is needed to send the value of an environment variable to a URL.

    `key` is where the recipe has the URL.

    Raises:
        InputError: the URL has no host that can be distinguished from others.
    """
    try:
        host = GrantValue(_normalize_host(url))
    except ValueError as error:
        raise InputError(
            f"{key}: {url} is no address that a key can be sent to. Give one such as "
            "https://HOST/v1."
        ) from error
    value = os.environ.get(variable, "").strip()
    secret = GrantValue(value, ((0, len(value)),))
    return Grant("send", (host,), ((variable, secret),))


@dataclass(frozen=True)
class _Command:
    source: str = ""
    typed: frozenset[Route] = frozenset()


# Of the recipe that this thread or task works on: engines of other packages are made by calls that
# have no place for it. What was answered counts in the whole process.
_command = ContextVar("_command", default=_Command())  # noqa: B039 - it is frozen
_answered: set[Grant] = set()


@contextmanager
def command_of(source: str, typed: Sequence[Route]) -> Iterator[None]:
    """While the block runs, messages name `source`, and the routes that the user typed are allowed.

    For the thread or task that runs it, and for no other.
    """
    before = _command.set(_Command(source, frozenset(typed)))
    try:
        yield
    finally:
        _command.reset(before)


def is_granted(grant: Grant) -> bool:
    """Whether the user has allowed it.

    Raises:
        InputError: an entry of the environment variable or of the file can't be read.
    """
    allowed = {_OWN_PROVIDER, *_command.get().typed}
    if grant in _answered or (grant.action == "send" and grant.route in allowed):
        return True
    path = config_folder() / _FILE
    kept = re.sub("(?m)^#.*", "", read_text(path)) if path.is_file() else ""
    texts = {_ENVIRONMENT: os.environ.get(_ENVIRONMENT, ""), str(path): kept}
    entries = (words for where, text in texts.items() for words in _read(text, where))
    return any(map(grant.is_written_as, entries))


def find_missing(grants: Iterable[Grant]) -> list[Grant]:
    """The grants that the user has not given, each once.

    Raises:
        InputError: as `is_granted`.
    """
    return [grant for grant in dict.fromkeys(grants) if not is_granted(grant)]


def require_consent(grants: Iterable[Grant], section: str) -> None:
    """Ask the user for what is not granted; `section` is the part of the recipe that needs it.

    Raises:
        InputError: the user refuses, or there is no terminal to ask on.
    """
    missing = find_missing(grants)
    if not missing:
        return
    answer = confirm(f"{_describe(missing, section)}Allow this, now and later?")
    if answer is None:
        raise InputError(explain_missing(missing, section))
    if not answer:
        raise InputError(
            f"Nothing was sent and nothing was started. {_advise_to_do_without(missing)}"
        )
    _remember(missing)


def explain_missing(grants: Sequence[Grant], section: str) -> str:
    """What is asked for, how to do without, and the line to paste where there is no terminal."""
    entries = [grant.entry() for grant in grants]
    gaps = {str(grant) for grant in grants if grant.secrets}.intersection(entries)
    others = f'"${_ENVIRONMENT}; "' if os.environ.get(_ENVIRONMENT) else ""
    return (
        f"{_describe(grants, section)}{_advise_to_do_without(grants)} On a terminal, `run` asks "
        f"you. To allow it beforehand, set this{_FILL if gaps else ''}:\n"
        f"  export {_ENVIRONMENT}={others}{shlex.quote('; '.join(entries))}"
    )


def _describe(grants: Sequence[Grant], section: str) -> str:
    does = dict.fromkeys(_ACTIONS[grant.action][0] for grant in grants)
    who = " of ".join(filter(None, (section, _command.get().source)))
    lines = "\n".join(f"  {grant}" for grant in grants)
    request = f"{who} needs your permission to {' and '.join(does)}:\n{lines}\n"
    folder = config_folder()
    names = dict.fromkeys(_FORMER[grant.action] for grant in grants)
    former = [name for name in names if os.environ.get(name)]
    if not (folder / _FILE).exists() and (folder / _FORMER_FILE).exists():
        former.append(str(folder / _FORMER_FILE))
    if former:
        request += (
            f"{', '.join(former)}: of version 0.7.0, so you are asked once more. "
        )
    return request


def _advise_to_do_without(grants: Iterable[Grant]) -> str:
    without = dict.fromkeys(_ACTIONS[grant.action][1] for grant in grants)
    return f"To do without, {', and '.join(without)}."


def _remember(grants: Sequence[Grant]) -> None:
    """Write the grants into the file of the user's configuration folder."""
    from filelock import FileLock

    _answered.update(grants)
    path = config_folder() / _FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f".{_FILE}.lock"), timeout=10):
            text = read_text(path) if path.is_file() else _HEAD
            lines = [text.rstrip("\n"), *(grant.hashed() for grant in grants)]
            with atomic_path(path, 0o600) as temporary:
                temporary.write_text("\n".join([*lines, ""]), encoding="utf-8")
    except (ToolbankError, OSError) as error:
        print_message(
            f"toolbank: {error} So your answer counts for this command alone."
        )


def _read(text: str, where: str) -> Iterator[list[str]]:
    """The words of each entry; a host is written as in a route."""
    try:
        for entry in _ENTRY.findall(text):
            words = shlex.split(entry)
            if words[:1] == ["send"]:
                _, _, url = words[:3]
                words[2] = _normalize_host(url if "://" in url else f"https://{url}")
            elif words[:1] != ["start"] and words:
                raise ValueError("an entry begins with neither `send` nor `start`")
            if words:
                yield words
    except ValueError as error:
        # What an entry says may be a secret.
        raise InputError(
            f"{where}: can't be read ({error}). Write `send NAME=$NAME https://HOST` or "
            "`start NAME=VALUE PROGRAM ARGUMENT`, with ; between several."
        ) from None


def _normalize_host(url: str) -> str:
    # What connects reads the address by the same library, so that both see the same host.
    from yarl import URL

    try:
        parsed = URL(url)
    except IndexError as error:  # of brackets without a host, as in https://[]@
        raise ValueError("it names no address") from error
    if not url.isprintable():
        raise ValueError("it has a sign in it that no address has")
    if parsed.scheme not in ("http", "https") or parsed.raw_user is not None:
        raise ValueError("it names no host, or a user with it")
    host = (parsed.raw_host or "").lower().removesuffix(".")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        if not _HOST.fullmatch(host):
            raise ValueError("it names no host") from None
    else:
        host = f"[{address}]" if address.version == 6 else str(address)
    port = "" if parsed.is_default_port() else f":{parsed.port}"
    return f"{parsed.scheme}://{host}{port}"
