"""objects.inv: what a Sphinx site documents, and which of it can be a tool."""

import posixpath
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from toolbank.errors import InputError
from toolbank.sources.sphinx.site import Objects, Site, matches

INVENTORY_HEAD = b"# Sphinx inventory version 2"
_MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Entry:
    """An object that can be a tool: where it is documented, and its other names."""

    name: str
    role: str
    page: str
    anchor: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inventory:
    """What an inventory says.

    `entries` are the objects that fit the site's rules, by (page, anchor); `skipped` counts
    those that don't, by reason; `table_pages` are the pages whose tables list tools.
    `total` objects = entries + their aliases + skipped.
    """

    project: str
    version: str
    total: int
    entries: dict[tuple[str, str], Entry]
    table_pages: tuple[str, ...]
    skipped: Counter[str] = field(default_factory=Counter)


def read_inventory(data: bytes, url: str, site: Site) -> Inventory:
    """Read the bytes of an objects.inv that came from `url`.

    Raises:
        InputError: it is no Sphinx inventory of version 2, or unpacks to more than 64 MiB.
    """
    import sphobjinv

    try:
        text = _unpack(data)
        inventory = sphobjinv.Inventory(plaintext=text)
    except Exception as error:  # the library documents no set of exceptions
        raise InputError(
            f"{url}: not a Sphinx inventory ({str(error) or type(error).__name__}). Give the "
            "address of the folder that the site's objects.inv lies in."
        ) from error
    found: dict[tuple[str, str], list[Entry]] = {}
    skipped: Counter[str] = Counter()
    names: set[str] = set()
    pages: set[str] = set()
    for item in inventory.objects:
        page, anchor = _place(item.uri_expanded)
        if item.domain == "std" and item.role == "doc" and matches(page, site.tables):
            pages.add(page)
        reason = _refusal(item.domain, item.role, item.name, page, site.objects)
        if not reason and item.name in names:
            reason = "name repeated in the inventory"
        if reason:
            skipped[reason] += 1
            continue
        names.add(item.name)
        entry = Entry(item.name, item.role, page, anchor)
        found.setdefault((page, anchor), []).append(entry)
    return Inventory(
        project=inventory.project,
        version=inventory.version,
        total=len(inventory.objects),
        entries={place: _merged(anchored) for place, anchored in found.items()},
        table_pages=tuple(sorted(pages)),
        skipped=skipped,
    )


def _unpack(data: bytes) -> bytes:
    """The inventory as plain text: four lines of header, then what zlib holds, at most 64 MiB."""
    lines = data.split(b"\n", 4)
    if len(lines) < 5 or not lines[0].startswith(INVENTORY_HEAD):
        raise ValueError("it does not begin as one")
    unpacker = zlib.decompressobj()
    body = unpacker.decompress(lines[4], _MAX_BYTES)
    if unpacker.unconsumed_tail:
        raise ValueError(f"it unpacks to more than {_MAX_BYTES:,} bytes")
    if not unpacker.eof:
        raise ValueError("it ends too early")
    return b"\n".join([*lines[:4], body])


def _place(uri: str) -> tuple[str, str]:
    page, _, anchor = uri.partition("#")
    return unquote(page), unquote(anchor)


def _refusal(domain: str, role: str, name: str, page: str, rules: Objects) -> str:
    if domain != "py":
        return "not of the py domain"
    if role not in rules.roles:
        return f"role {role}"
    if any(name == left or name.startswith(f"{left}.") for left in rules.exclude):
        return "excluded"
    if rules.parents and name.rpartition(".")[0] not in rules.parents:
        return "parent not listed"
    if urlsplit(page).scheme or page.startswith("/") or ".." in page.split("/"):
        return "page outside the site"
    return ""


def _merged(entries: Iterable[Entry]) -> Entry:
    """Entries of one anchor as one: the name that is the anchor, or the shortest, leads."""
    first, *others = sorted(
        entries,
        key=lambda entry: (entry.name != entry.anchor, len(entry.name), entry.name),
    )
    aliases = tuple(sorted(entry.name for entry in others))
    return Entry(first.name, first.role, first.page, first.anchor, aliases)


def resolve(page: str, href: str) -> tuple[str, str]:
    """Page and anchor that a link on `page` leads to; ("", "") where it leads off the site."""
    if urlsplit(href).scheme or href.startswith("/"):
        return "", ""
    target, anchor = _place(href)
    folder = posixpath.dirname(page)
    path = posixpath.normpath(posixpath.join(folder, target)) if target else page
    return ("", "") if path.startswith("..") else (path, anchor)
