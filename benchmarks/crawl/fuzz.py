"""Feeds damaged inventories, pages and types to the readers, and says what they didn't stand.

python benchmarks/crawl/fuzz.py FOLDER... [--seconds 60] [--seed 0] [--only page inventory]

FOLDERs hold pages and inventories of real sites, from which the cases are made. A fault is an
exception that a reader does not promise, a result that is no tool, or more than 5 seconds for a
case; each is kept in --keep, once for each place in the code. Exit status 1: there were faults.
"""

import argparse
import json
import random
import re
import signal
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from toolbank.sources.site import ROLES, Objects, Site
from toolbank.sources.sphinx.inventory import INVENTORY_HEAD, read_inventory, select
from toolbank.sources.sphinx.pages.fields import read_syntax
from toolbank.sources.sphinx.pages.page import Page
from toolbank.sources.typetext import schema_of
from toolbank.system.errors import InputError

_LIMIT = 5  # seconds
_MAX_PAGE = 300_000  # characters
_HEAD = INVENTORY_HEAD + b"\n# Project: x\n# Version: 1\n# zlib\n"
_SITE = Site(base_url="https://x.example/", objects=Objects(roles=ROLES["py"]))
_TAG = re.compile(r"<[^>]*>")
_ATTRIBUTE = re.compile(r'\s[\w-]+="[^"]*"')
_TYPE = re.compile(r'<span class="classifier">(.*?)</span>|\(<em>(.*?)</em>\)')
_SYNTAX = re.compile(r"<pre>(.{0,4000}?)</pre>", re.S)
_PIECES = (
    *("<p>", "</p>", "<ul><li>", "</li>", "</ul>", "<dl>", "<dt>", "<dd>", "</dl>"),
    *(
        "<div>",
        "</div>",
        "<em>",
        "<strong>",
        "</strong>",
        "(",
        ")",
        "[",
        "]",
        " \u2013 ",
    ),
    *('<dl class="field-list"><dt>Parameters</dt><dd>', "<dt>Returns<dd>", "<table>"),
    *("&#0;", "&#xD800;", "\x00", "\ufffd", "\u2028", "=", "*", "**", ",", "$", "<!--"),
    *('<span class="sig-paren">)</span>', '<p class="rubric">Examples</p>', "<pre>"),
    *('<div class="versionadded"><p>New in version ', "<h3>Request Syntax</h3>", "'"),
)


def check_inventory(data: bytes) -> None:
    try:
        inventory = read_inventory(data, "https://x.example/objects.inv")
    except InputError:
        return
    scope = select(inventory, _SITE)
    parted = sum(len(entry.objects) for entry in scope.entries.values())
    parted += sum(map(len, scope.left_out.values()))
    assert parted == len(inventory.objects), "objects don't add up"


def check_page(html: str) -> None:
    try:
        page = Page(html, "reference/p.html")
        page.table_targets()
        anchors = dict.fromkeys(re.findall(r'<dt[^>]*\bid="([^"]*)"', html))
        for number, anchor in enumerate([*list(anchors)[:40], "absent"]):
            role = ROLES["py"][number % len(ROLES["py"])]
            found = page.read(anchor, role)
            if found is None or found.kind is None:
                continue
            documented = found.documented
            tool = documented.as_tool(
                "x", found.kind, found.signature, documented.parameters
            )
            Draft202012Validator.check_schema(tool.parameters)
            text = tool.model_dump_json()
            assert "\\u0000" not in text, "a NUL in a tool"
            assert "\n" not in tool.summary, "a summary of two lines"
    except RecursionError:  # a crawl says of such a page that it is nested too deeply
        return


def check_type(text: str) -> None:
    Draft202012Validator.check_schema(schema_of(text))


def check_syntax(text: str) -> None:
    Draft202012Validator.check_schema(read_syntax(text))


class _Mutator:
    """Damages text and bytes at random places."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self, text: str, others: Sequence[str]) -> str:
        for _ in range(self.random.choice((1, 1, 2, 4, 16, 64))):
            text = self._once(text, others)
        return text

    def data(self, data: bytes) -> bytes:
        found = bytearray(data)
        for _ in range(self.random.choice((1, 2, 8))):
            start, end = self._span(len(found))
            match self.random.randrange(4):
                case 0:
                    found[start:end] = b""
                case 1:
                    found[start:start] = self.random.randbytes(end - start)
                case 2:
                    found[start:start] = found[start:end] * self.random.choice((1, 50))
                case _:
                    found[start : start + 1] = bytes([self.random.randrange(256)])
        return bytes(found)

    def _once(self, text: str, others: Sequence[str]) -> str:
        start, end = self._span(len(text))
        match self.random.randrange(8):
            case 0:
                return text[:start] + text[end:]
            case 1:
                times = self.random.choice((1, 3, 200))
                return text[:end] + text[start:end] * times + text[end:]
            case 2:
                return text[:start] + self.random.choice(_PIECES) + text[start:]
            case 3:
                piece = self.random.choice(_PIECES)
                return (
                    text[:start] + piece * self.random.choice((5, 900)) + text[start:]
                )
            case 4:
                return self._without(_TAG, text, start)
            case 5:
                return self._without(_ATTRIBUTE, text, start)
            case 6:
                other = self.random.choice(others)
                left, right = self._span(len(other))
                return text[:start] + other[left:right] + text[end:]
            case _:
                return text[:start] + chr(self.random.randrange(0x3000)) + text[start:]

    def _without(self, pattern: re.Pattern[str], text: str, start: int) -> str:
        match = pattern.search(text, start)
        return text[: match.start()] + text[match.end() :] if match else text

    def _span(self, length: int) -> tuple[int, int]:
        start = self.random.randrange(length + 1)
        return start, min(length, start + int(self.random.expovariate(1 / 60)))


def cases(name: str, folders: Sequence[Path], mutator: _Mutator) -> Iterator[Any]:
    """Endless cases for one of the readers, made of what the folders hold."""
    chosen = mutator.random
    if name == "inventory":
        packed = [path.read_bytes() for path in _files(folders, "objects.inv")]
        bodies = [zlib.decompress(data.split(b"\n", 4)[4])[:40_000] for data in packed]
        while True:
            if chosen.random() < 0.3:
                yield mutator.data(chosen.choice(packed)[:20_000])
            else:
                yield _HEAD + zlib.compress(mutator.data(chosen.choice(bodies)))
    paths = _files(folders, "*.html")
    chosen.shuffle(paths)
    pages = [_excerpt(path, chosen) for path in paths[:400]]
    if name != "page":
        pattern = _TYPE if name == "type" else _SYNTAX
        found = [
            _TAG.sub("", "".join(match.groups(default="")))
            for page in pages
            for match in pattern.finditer(page)
        ]
        pages = found or ["int or None, optional", "f(A='string', B=[1|2])"]
    while True:
        yield mutator.text(chosen.choice(pages), pages)


def _files(folders: Sequence[Path], pattern: str) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob(pattern))


def _excerpt(path: Path, chosen: random.Random) -> str:
    """A page, or of a large one the part from some object on."""
    text = path.read_text(encoding="utf-8", errors="replace")
    if len(text) <= _MAX_PAGE:
        return text
    starts = [match.start() for match in re.finditer(r"<dl class", text)]
    start = chosen.choice(starts or [0])
    return text[start : start + _MAX_PAGE // 4]


class _TooSlow(BaseException):
    """A case took too long; no reader may catch it."""


def _stop(*_: object) -> None:
    raise _TooSlow


def _fault(check: Callable[[Any], None], case: object) -> str:
    """What went wrong with a case, and where; "" if nothing did."""
    signal.setitimer(signal.ITIMER_REAL, _LIMIT)
    start = time.monotonic()
    try:
        check(case)
    except (Exception, _TooSlow) as error:
        own = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if "toolbank" in frame.filename or "fuzz" in frame.filename
        ]
        place = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "?"
        message = str(error).partition("\n")[0][:90]
        return f"{type(error).__name__} at {place}: {message}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    # time in a library's own code is not cut short by the alarm
    return "too slow in a library" if time.monotonic() - start > _LIMIT else ""


_CHECKS: dict[str, Callable[[Any], None]] = {
    "inventory": check_inventory,
    "page": check_page,
    "type": check_type,
    "syntax": check_syntax,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument(
        "--seconds", type=float, default=60, help="for each of the readers"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=_CHECKS, default=list(_CHECKS))
    parser.add_argument("--keep", type=Path, default=Path("faults"))
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _stop)
    found_any = False
    for name in options.only:
        number, faults, slowest = 0, {}, 0.0
        end = time.monotonic() + options.seconds
        for case in cases(name, options.folders, _Mutator(options.seed)):
            start = time.monotonic()
            fault = _fault(_CHECKS[name], case)
            slowest = max(slowest, time.monotonic() - start)
            number += 1
            place = fault.partition(": ")[0]
            if fault and place not in faults:
                faults[place] = fault
                options.keep.mkdir(parents=True, exist_ok=True)
                data = (
                    case if isinstance(case, bytes) else case.encode(errors="replace")
                )
                (options.keep / f"{name}-{len(faults)}").write_bytes(data)
            if time.monotonic() > end:
                break
        found_any |= bool(faults)
        print(
            json.dumps(
                {
                    "reader": name,
                    "cases": number,
                    "slowest": round(slowest, 2),
                    "faults": list(faults.values()),
                }
            ),
            flush=True,
        )
    return int(found_any)


if __name__ == "__main__":
    sys.exit(main())
