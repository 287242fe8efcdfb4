"""Recognize secrets, and hide them in everything that is shown."""

from __future__ import annotations

import hashlib
import html
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_MOST = 131_072
"""The maximum length of a value; the system passes no longer one to a command."""
_DEEPEST = 3
"""The maximum number of nested names: --env=NAME=VALUE has two."""
_SECRET_WORD = re.compile(
    r".*(?:password|passwd|passphrase|passcode|secret|credential|token|cookie|mnemonic)s?"
    r"|.*(?<!ask)(?<!by)(?<!com)pass|.*p?wd|.*pw|creds?|auth|oauth|authorization|signature|sig|sas"
    r"|.*(?<!mon)(?<!tur)(?<!don)(?<!hoc)(?<!joc)(?<!hot)keys?|pat|dsn|jwt|otp|totp|pin|salt"
    r"|session|bearer|licen[cs]e"
)
_DESCRIBES = re.compile(
    "file|path|dir|directory|folder|home|sock|socket|url|uri|host|hostname|endpoint|server|domain"
    "|address|name|prefix|suffix|type|mode|method|header|algorithm|alg|format|size|length|limit|max"
    "|count|budget|ttl|timeout|expiry|lifetime|provider|store|policy|check|checking|enabled"
    "|required|disabled|env|var|variable|command|helper|program|region|version|scopes?|issuer|audience"
)
"""Last words of names such as TOKEN_FILE and AUTH_MODE, which only describe a secret."""
_ASIDE = re.compile(
    r"(?i)(?:OLD)?PWD|INIT_CWD|GIT_CONFIG_(?:KEY|VALUE)_\d+"
    r"|(?:.*[_-])?(?:sort|partition|primary|foreign|group|join|index|row|order|cache|public)[_-]?keys?"
)
"""Names that contain such a word, and are not those of secrets."""
_ABOUT = re.compile(
    r"true|false|yes|no|on|off|none|null|auto|default|basic|bearer|oauth2?|enabled|disabled"
    r"|required|optional|public|private",
    re.IGNORECASE,
)
_PINS = frozenset({"pin", "salt"})
_SHORTEST_PIN = 4
"""A shorter PIN or salt is something else, such as the pin of a board."""
_IDENTIFIERS = frozenset({"id", "ids", "uuid", "guid"})

# Prefixes of issuers, and other shapes that only tokens have.
_ISSUED = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:sk|pypi|glpat|xox[abeprs]|xapp|pk|rk)-(?=[\w-]{,99}[A-Z0-9])[\w-]{8,999}"
    r"|(?:gh[pousr]|hf|npm|whsec|shpat|shpss|lin_api|ntn|dop_v1|gsk|r8)_[A-Za-z0-9]{10,}"
    r"|(?:github_pat|[rps]k_live|[rps]k_test)_\w{8,}|A[KS]IA[A-Z0-9]{12,}|AIza[\w-]{20,999}"
    r"|ya29\.[\w-]{8,999}|SG\.[\w-]{8,99}\.[\w-]{8,999}"
    r"|eyJ[\w-]{5,999}\.[\w-]{5,9999}(?:\.[\w-]{,9999})?|\d{6,12}:[\w-]{30,999}"
    r")|-----BEGIN [A-Z ]*PRIVATE KEY-----.*|<(?:secret of |text sha256:)",
    re.DOTALL,
)
_SCHEMES = re.compile(
    r"(?i:\b(?:bearer|basic|token|bot)) +(?=\S{,99}[\d=_]|\S{1,99}[A-Z])(\S{4,})"
    r"|(?i:^(?:bearer|basic) +)(\S+)$"
)
_OF_SCHEME = re.compile(r"(?i)(?:bearer|basic|token|bot|apikey) +(?=\S)")
_PASSWORD = re.compile(
    r"://[^/@:\s]*:((?!\d+/)[^\s]{1,999}?)@(?=[\w.\[-]+(?::\d+)?(?:[/?#,\s]|$))"
)
_USER_ALONE = re.compile(r"://([^/@:\s]+)@")
_PAIR = re.compile(r"(?<![\w.-])(-{0,2}[A-Za-z_][\w.-]*)=([^&;\s\"'#]+)")
_ASSIGNED = re.compile(r"(-{0,2}[A-Za-z_][\w.\[\]-]*)=(.+)", re.DOTALL)
_HEADER = re.compile(r"([A-Za-z][\w-]*):\s*(?!/)(.+)", re.DOTALL)
_MEMBER = re.compile(r"[\"']([\w.-]+)[\"']\s*:\s*[\"']((?:\\.|[^\"'\\])+)")
_OPTION = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*)\s+([^\s-]\S*)")
_LOGIN = re.compile(r"[^:/\s]+:(?!\d+$)([^/\s].*)")
_PATH = re.compile(r"(?:~|\.{1,2})?/[^/]+/|(?:~|\.{1,2})/|[A-Za-z]:[\\/]|file:")
_ENDING = re.compile(r"/[\w-]+\.[a-z]{2,5}$")

_LONG = re.compile(r"[A-Za-z0-9+/_=-]{12,}")
_BASE64 = re.compile(
    r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?:[A-Za-z0-9+/]{4}){5,}[A-Za-z0-9+/]{2}[A-Za-z0-9+/=]{2}"
)
_RUN = re.compile(r"[A-Za-z0-9]+")
_UUID = re.compile(r"(?i)(?<![\w-])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?!\w)")
_DIGEST = re.compile(r"(?i)(?:sha\d+|md5)[:=-]$")
_REVISION = re.compile(r"(?i)git\S*[@#]$|/(?:blobs?|commits?|tree|snapshots)/$")
_SEEN = 300
"""Characters before a revision that are searched for the address of its repository."""
_HEX = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64}")
_PSEUDO_VERSION = re.compile(r"(?:.*\D)?\d{14}-[0-9a-f]{12}")
_RANDOM = 44.0
"""A piece of text with at least this many bits is random."""
# The pairs of letters that make up 94 % of English technical text, by first letter.
_USUAL = {
    pair[0]: frozenset(pair[1:])
    for pair in re.findall(
        r"\w+",
        "abcdgiklmnprstuvy baeilorsu cacehiklortu dadeilorsu eacdefgilmnpqrstvwx faefiloru "
        "gaehinrsu haeiot iabcdefglmnoprstvz jaeou keis ladeilostuy maeiopsu nacdefgiknorstuv "
        "oabcdgiklmnoprstuvw paeiloprstu qu racdegilmnorstuvy sacehiklopstuy tacehiloprstuy "
        "uabceilmnprst vaei waeior xpt ynp zaeo",
    )
}


def named_secret(name: str) -> bool:
    """Check whether a variable, header, option or query key has the name of a secret."""
    words = [word.lower() for word in _WORDS.findall(name)]
    while words and words[-1].isdigit():
        words.pop()
    if (
        not words
        or _DESCRIBES.fullmatch(words[-1])
        or _ASIDE.fullmatch(name.lstrip("-"))
    ):
        return False
    return any(map(_SECRET_WORD.fullmatch, words))


def is_issued(value: str) -> bool:
    """Check whether a value is a token with the prefix of an issuer, such as ghp_..."""
    return not value.startswith("<") and bool(_ISSUED.fullmatch(value))


def find_secrets(value: str, name: str = "") -> list[str]:
    """Find the secrets in a value by its `name` (of a variable, header, option or key) and entropy."""
    return [value[start:end] for start, end in find_spans(value, name)]


def find_spans(value: str, name: str = "") -> list[tuple[int, int]]:
    """Find the start and end of each secret in a value, in order and without overlaps."""
    return list(merge_spans(_find(value, name)))


def _find(value: str, name: str, depth: int = 0) -> Iterator[tuple[int, int]]:
    if len(value) > _MOST or _is_secret_whole(value, name):
        scheme = _OF_SCHEME.match(value)
        yield scheme.end() if scheme else 0, len(value)
        return
    yield from (match.span() for match in _ISSUED.finditer(value))
    for pattern in (_PASSWORD, _SCHEMES):
        yield from (
            match.span(match.lastindex or 0) for match in pattern.finditer(value)
        )
    for match in _USER_ALONE.finditer(value):
        if not re.fullmatch(r"[A-Za-z][a-z.-]*", match[1]):
            yield match.span(1)
    if name in ("-u", "--user") and (login := _LOGIN.fullmatch(value)):
        yield login.span(1)
    whole = _ASSIGNED.fullmatch(value) or _HEADER.fullmatch(value)
    if whole and depth < _DEEPEST:
        for start, end in _find(whole[2], whole[1], depth + 1):
            yield whole.start(2) + start, whole.start(2) + end
    for pattern in (_PAIR, _MEMBER, _OPTION):
        for match in pattern.finditer(value):
            if _is_secret_whole(match[2], match[1]):
                yield match.span(2)
    yield from _find_random(value, name)


def _is_secret_whole(value: str, name: str) -> bool:
    if not value or not named_secret(name) or _ABOUT.fullmatch(value):
        return False
    words = [word.lower() for word in _WORDS.findall(name)]
    if "dsn" in words and "://" in value:
        return False
    if value.isdigit() and words[-1] == "tokens":
        return False
    if len(value) < _SHORTEST_PIN and not any(
        map(_SECRET_WORD.fullmatch, {*words} - _PINS)
    ):
        return False
    is_file = _PATH.match(value) and (_exists(value) or _ENDING.search(value))
    return not is_file or any(_find_random(value, ""))


def _find_random(value: str, name: str) -> Iterator[tuple[int, int]]:
    """Find random text in a value."""
    is_path = bool(_PATH.match(value))
    if is_path and _exists(value):
        return
    words = {word.lower() for word in _WORDS.findall(name)}
    for match in _UUID.finditer(value):
        if not words & _IDENTIFIERS:
            yield match.span()
    for match in _LONG.finditer(value):
        if _UUID.search(match[0]):
            continue
        start = match.start()
        segments = list(_find_segments(match[0]))
        if (
            segments
            and _BASE64.fullmatch(match[0])
            and value[start - 1 : start] not in ("/", ".")
        ):
            segments = [(0, len(match[0]))]
        for segment in segments:
            text, place = match[0][slice(*segment)], start + segment[0]
            before = value[max(0, place - _SEEN) : place]
            named = _DIGEST.search(before) or _PSEUDO_VERSION.fullmatch(text)
            if named or (
                _HEX.fullmatch(text) and (is_path or _REVISION.search(before))
            ):
                continue
            yield place, start + segment[1]


def _find_segments(text: str) -> Iterator[tuple[int, int]]:
    """Find random segments between slashes, with neighbours that are not words, as in base64."""
    pieces = [(m.start(), m.end()) for m in re.finditer(r"[^/]+", text)]
    weights = [_weigh(text[start:end]) for start, end in pieces]
    for number, (start, end) in enumerate(pieces):
        if weights[number] >= _RANDOM:
            yield start, end
            for other in (number - 1, number + 1):
                if 0 <= other < len(pieces) and weights[other] > 0:
                    yield pieces[other]


def _weigh(text: str) -> float:
    """Estimate the bits of a text beyond words, numbers and versions."""
    return sum(_weigh_run(run) for run in _RUN.findall(text))


def _weigh_run(run: str) -> float:
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+|\d+", run)
    if run.isdigit():
        return 3.3 * len(run) if len(run) >= 20 else 0
    if run.isalpha():
        shown = len(parts) < 4
        return sum(
            0 if shown and len(part) in (3, 4) else _weigh_letters(part)
            for part in parts
        )
    if len(parts) == 2 and (len(run) <= 8 or any(not _weigh_letters(p) for p in parts)):
        return 0
    return sum(
        3.3 * len(part) if part.isdigit() else _weigh_letters(part) or 1.5 * len(part)
        for part in parts
    )


def _weigh_letters(part: str) -> float:
    """Estimate the bits of letters; 0 if most pairs are those of words."""
    pairs = list(itertools.pairwise(part.lower()))
    usual = sum(second in _USUAL.get(first, ()) for first, second in pairs)
    share = usual / len(pairs) if len(part) >= 4 else 0.0
    return 0 if share >= 0.6 else len(part) * min(4.7, 7.5 * (1 - share))


def _exists(place: str) -> bool:
    try:
        return Path(place).expanduser().exists()
    except (OSError, ValueError, RuntimeError):
        return False


def merge_spans(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Sort spans, and merge those that overlap or touch."""
    last: tuple[int, int] | None = None
    for start, end in sorted(spans):
        if last and start <= last[1]:
            last = last[0], max(end, last[1])
            continue
        if last:
            yield last
        last = start, end
    if last:
        yield last


# Shorter ones are words, such as a placeholder for a key.
_SHORTEST_SECRET = 8
_MARK = re.compile(r"<(?:secret of|text sha256)")
_USER = re.compile(r"(https?://)[^/@\s]*@", re.IGNORECASE)


def mask_secrets(
    value: str, name: str = "", mask: Callable[[str], str] | None = None
) -> str:
    """Replace each secret in a value with three stars, or with the result of `mask`."""
    parts, last = [], 0
    for start, end in find_spans(value, name):
        parts += [value[last:start], mask(value[start:end]) if mask else "***"]
        last = end
    return "".join((*parts, value[last:]))


def name_arguments(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pair each word after the program with the option that it is the value of, or ""."""
    before = ""
    for word in command[1:]:
        yield before, word
        before = word if word.startswith("-") and "=" not in word else ""


_NOT_GIVEN = re.compile(r"[\"']?(?:\$\{?[A-Za-z_]\w*\}?|%\w+%|\*{3})(?![\w-])|op://")
"""A variable, a reference of 1Password, or stars in place of a secret."""


def find_secret_words(command: Sequence[str]) -> Iterator[int]:
    """Find the positions of the words of a command that contain a secret.

    A path, and a random value of an option, count only if the option has the name of a secret.
    """
    for number, (option, word) in enumerate(name_arguments(("", *command))):
        found = find_secrets(word, "" if word.startswith("-") else option)
        given = _ASSIGNED.fullmatch(word)
        name, value = given.groups() if given else (option, word)
        is_sure = named_secret(name) or is_issued(value)
        if not is_sure and (
            _PATH.match(value) or (name and found in ([value], [word]))
        ):
            continue
        if not all(map(_NOT_GIVEN.match, found)):
            yield number


def mask_command(command: Sequence[str]) -> list[str]:
    """Replace each secret in the words of a command with three stars."""
    named = name_arguments(command)
    return [*command[:1], *(mask_secrets(word, option) for option, word in named)]


def show_unseen(value: str) -> str:
    """Show a text on one line so that it cannot be confused with another one or a hidden secret.

    A text with invisible characters, or one that imitates a hidden secret, gets its hash.
    """
    if value.isprintable() and not _MARK.search(value):
        return value
    seen = "".join(s if s.isprintable() else ascii(s)[1:-1] for s in value)
    digest = hashlib.sha256(value.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{seen} <text sha256:{digest}>"


def hide(text: str, secrets: Sequence[str], shortest: int = _SHORTEST_SECRET) -> str:
    """Hide the secrets in a text, in every encoding in which a server may echo them.

    Secrets of fewer than `shortest` characters stay. A secret that the end of the text cuts off
    after eight or more characters is hidden as well.
    """
    for written in _echoes(tuple(secrets), shortest):
        if written[:_SHORTEST_SECRET] not in text:
            continue
        text = text.replace(written, "***")
        for length in range(len(written) - 1, _SHORTEST_SECRET - 1, -1):
            if text.endswith(written[:length]):
                text = f"{text[:-length]}***"
    return text


def without_credentials(value: Any) -> Any:
    """Remove user names, passwords and query strings from the URLs in JSON, such as a recipe."""
    if isinstance(value, dict):
        return {key: without_credentials(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_credentials(part) for part in value]
    if isinstance(value, str) and value.lower().startswith(("http://", "https://")):
        try:
            parts = urlsplit(value)
        except ValueError:
            return "(not a URL)"
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))
    return without_users(value) if isinstance(value, str) else value


def without_users(text: str) -> str:
    """Remove user names and passwords from the URLs in a text."""
    return _USER.sub(r"\1", text)


@cache
def _echoes(secrets: tuple[str, ...], shortest: int) -> tuple[str, ...]:
    """List all encodings of the secrets, the longest first: one may be a part of another."""
    written = {
        echo
        for secret in secrets
        if len(secret) >= shortest
        for echo in (
            secret,
            quote(secret, safe="", errors="replace"),
            json.dumps(secret)[1:-1],
            html.escape(secret),
        )
    }
    return tuple(sorted(written, key=lambda echo: (-len(echo), echo)))
