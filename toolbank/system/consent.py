"""Ask the user before a secret is sent to a host or code is run, and remember the answer.

A recipe of somebody else names the variables to send, their hosts, and the programs and Python
files to run. So these need the user's consent, which is kept outside of recipes: in
TOOLBANK_GRANTS, in a file of the user's configuration folder (the answers on a terminal), or on the
command line for one command.
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
"""The variable of the key if a recipe names none."""

Route = tuple[str, str]
"""An environment variable, and the scheme, host and port that its value is sent to."""

_OWN_PROVIDER: Route = (DEFAULT_KEY, "https://api.openai.com")
_ENVIRONMENT = "TOOLBANK_GRANTS"
_FILE = "grants"
_HEAD = """\
# What you have allowed toolbank to do, one permission per line. toolbank writes this file when you
# answer its questions. If you delete a line, you are asked again.
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
    "import": (
        "run Python files on this machine, as you",
        "take the class out of `retrievers`",
    ),
}
"""What a recipe does, and how to avoid it."""
# Up to a `;` or line end outside of quotes.
_ENTRY = re.compile(r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^;\n])+""", re.DOTALL)
_PROOF = re.compile(r"scrypt:([0-9a-f]{16}):([0-9a-f]{32})")
_HOST = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_SHORTEST_HASHED = 16
"""The minimum length of a secret in a printed hash; shorter ones could be guessed."""
_FILL = ", with each secret in place of <secret ...> (the hash of a short one could be guessed)"


@dataclass(frozen=True)
class GrantValue:
    """A text of a grant; `secrets` are the start and end of each secret, in order."""

    text: str = field(repr=False)
    secrets: tuple[tuple[int, int], ...] = field(default=(), compare=False)

    @property
    def shown(self) -> str:
        """The text on one line, with each secret replaced by its length."""
        shown, last = "", 0
        for start, end in self.secrets:
            shown += show_unseen(self.text[last:start])
            shown += f"<secret of {count(end - start, 'character')}>"
            last = end
        return shown + show_unseen(self.text[last:])


@dataclass(frozen=True)
class Grant:
    """A permission to apply `action` to `target`, with named `values` in any order.

    `send` sends the values of environment variables to a host. `start` runs a command, given by
    its words, with environment variables in the folder `--chdir`. `import` runs a Python file,
    whatever it holds. Two grants are equal only if all their texts are.
    """

    action: str
    target: tuple[GrantValue, ...]
    values: tuple[tuple[str, GrantValue], ...] = ()

    def __post_init__(self) -> None:
        ordered = sorted(self.values, key=lambda value: value[0])
        object.__setattr__(self, "values", tuple(ordered))

    def __str__(self) -> str:
        """Write the grant on one line in shell syntax, with the length of each secret."""
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
        """The variable and the host of a `send`."""
        return self.values[0][0], self.target[0].text

    @property
    def secrets(self) -> tuple[str, ...]:
        """The secrets in the grant, each once."""
        texts = (*(v for _, v in self.values), *self.target)
        found = (v.text[start:end] for v in texts for start, end in v.secrets)
        return tuple(dict.fromkeys(found))

    def hash(self, salt: str) -> str:
        """Hash all texts of the grant; only equal grants have the same hash.

        With a secret this takes a tenth of a second, so that it can't be guessed by brute force.
        """
        values = [(name, value.text) for name, value in self.values]
        whole = [self.action, [value.text for value in self.target], values]
        text = json.dumps(whole, ensure_ascii=False).encode(errors="surrogatepass")
        return _hash(text, salt, 2**14 if self.secrets else 2)

    def hashed(self) -> str:
        """Write the grant on one line with its hash, by which it is recognized later."""
        salt = secrets.token_hex(8)
        return f"{self} scrypt:{salt}:{self.hash(salt)}"

    def entry(self) -> str:
        """Write the grant for the environment variable, without secrets or the hash of a short one."""
        by_name = self._write(by_name=True)
        if self.is_written_as(shlex.split(by_name)):
            return by_name
        is_guessable = any(len(secret) < _SHORTEST_HASHED for secret in self.secrets)
        return str(self) if is_guessable else self.hashed()

    def is_written_as(self, words: Sequence[str]) -> bool:
        """Check whether the words of an entry are this grant.

        They end with its hash, or have every text in full, or NAME=$NAME for the value of an
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
    """Make the grant to send the value of an environment variable to a URL.

    `key` is the recipe key of the URL.

    Raises:
        InputError: the URL has no valid host.
    """
    try:
        host = GrantValue(_normalize_host(url))
    except ValueError as error:
        raise InputError(
            f"{key}: a key cannot be sent to {url}. Give an address such as "
            "https://HOST/v1."
        ) from error
    value = os.environ.get(variable, "").strip()
    secret = GrantValue(value, ((0, len(value)),))
    return Grant("send", (host,), ((variable, secret),))


@dataclass(frozen=True)
class _Command:
    source: str = ""
    typed: frozenset[Route] = frozenset()


# The recipe currently being processed. A context variable, because plug-in engines are created
# without access to it. Answers of the user are valid in the whole process.
_command = ContextVar("_command", default=_Command())  # noqa: B039 - it is frozen
_answered: set[Grant] = set()


@contextmanager
def command_of(source: str, typed: Sequence[Route]) -> Iterator[None]:
    """Name `source` in messages, and allow the routes that the user typed, within the block.

    This holds for the current thread or task only.
    """
    before = _command.set(_Command(source, frozenset(typed)))
    try:
        yield
    finally:
        _command.reset(before)


def is_granted(grant: Grant) -> bool:
    """Check whether the user has given a grant.

    Raises:
        InputError: an entry of the environment variable or the file is invalid.
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
    """List the grants that the user has not given, each once.

    Raises:
        InputError: as `is_granted`.
    """
    return [grant for grant in dict.fromkeys(grants) if not is_granted(grant)]


def require_consent(grants: Iterable[Grant], section: str) -> None:
    """Ask the user for missing grants; `section` is the part of the recipe that needs them.

    Raises:
        InputError: the user refuses, or there is no terminal.
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
    """Describe the request, how to avoid it, and the line to paste if there is no terminal."""
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
    return f"{who} needs your permission to {' and '.join(does)}:\n{lines}\n"


def _advise_to_do_without(grants: Iterable[Grant]) -> str:
    without = dict.fromkeys(_ACTIONS[grant.action][1] for grant in grants)
    return f"To do without, {', and '.join(without)}."


def _remember(grants: Sequence[Grant]) -> None:
    """Write the grants to the file in the user's configuration folder."""
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
            f"toolbank: {error} So your answer is only valid for this command."
        )


def _read(text: str, where: str) -> Iterator[list[str]]:
    """Read the words of each entry; a host is normalized."""
    try:
        for entry in _ENTRY.findall(text):
            words = shlex.split(entry)
            if words[:1] == ["send"]:
                _, _, url = words[:3]
                words[2] = _normalize_host(url if "://" in url else f"https://{url}")
            elif words and words[0] not in _ACTIONS:
                raise ValueError("an entry begins with no `send`, `start` or `import`")
            if words:
                yield words
    except ValueError as error:
        # An entry may contain a secret.
        raise InputError(
            f"{where}: cannot be read ({error}). Write `send NAME=$NAME https://HOST`, "
            "`start NAME=VALUE PROGRAM ARGUMENT` or `import FILE.py`, with ; between several."
        ) from None


def _normalize_host(url: str) -> str:
    # The HTTP client uses the same library, so both read the same host.
    from yarl import URL

    try:
        parsed = URL(url)
    except IndexError as error:  # brackets without a host, as in https://[]@
        raise ValueError("it names no address") from error
    if not url.isprintable():
        raise ValueError("it has a character that is invalid in an address")
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
