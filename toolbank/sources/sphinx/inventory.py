"""objects.inv: the objects that a Sphinx site documents, and which of them can be tools."""

import posixpath
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from toolbank.sources.site import Objects, Site, covers, matches
from toolbank.system.errors import InputError

INVENTORY_HEAD = b"# Sphinx inventory version 2"
_MAX_BYTES = 64 * 1024 * 1024
_MAX_LINES = 500_000
_MAX_LINE = 4096
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class InventoryObject:
    """An object of the inventory; `page` and `anchor` lead to its documentation.

    Objects that are `is_hidden` have another name on their page, which is also listed.
    """

    domain: str
    role: str
    name: str
    page: str
    anchor: str
    is_hidden: bool = False

    def __str__(self) -> str:
        return f"{self.domain}:{self.role} {self.name}".removeprefix(": ")


@dataclass(frozen=True)
class Inventory:
    """The content of an objects.inv."""

    project: str
    version: str
    objects: tuple[InventoryObject, ...]


@dataclass(frozen=True)
class InventoryEntry:
    """An object that can be a tool, with its place and its other names.

    `objects` are its lines in the inventory: itself first, then one for each other name.
    """

    name: str
    role: str
    page: str
    anchor: str
    aliases: tuple[str, ...] = ()
    objects: tuple[InventoryObject, ...] = ()


@dataclass(frozen=True)
class SiteScope:
    """Which objects of an inventory can be tools under a site's rules.

    `entries` are by (page, anchor); `left_out` has the other objects by reason. `table_pages` are
    the pages whose tables list tools.
    """

    site: Site
    inventory: Inventory
    entries: dict[tuple[str, str], InventoryEntry]
    table_pages: tuple[str, ...]
    left_out: dict[str, list[InventoryObject]] = field(default_factory=dict)


def read_inventory(data: bytes, url: str) -> Inventory:
    """Read the bytes of an objects.inv from `url`.

    A line that is not understood becomes an object without domain and role. sphobjinv is not used,
    as it takes minutes for a line of many blanks and drops such lines.

    Raises:
        InputError: it is no Sphinx inventory of version 2, or too large: 64 MiB unpacked,
            500,000 lines.
    """
    try:
        head, body = _unpack(data)
        lines = body.split("\n")
        if len(lines) > _MAX_LINES:
            raise ValueError(f"it lists more than {_MAX_LINES:,} objects")
    except (ValueError, zlib.error) as error:
        raise InputError(
            f"{url}: not a Sphinx inventory ({error}). Give the "
            "address of the folder with the site's objects.inv."
        ) from error
    objects = tuple(_listed(line) for line in lines if line.strip())
    return Inventory(head[0], head[1], objects)


def select(inventory: Inventory, site: Site) -> SiteScope:
    """Select the objects that can be tools by the site's rules."""
    found: dict[tuple[str, str], list[tuple[str, InventoryObject]]] = {}
    left_out: dict[str, list[InventoryObject]] = {}
    taken: set[str] = set()
    for item in inventory.objects:
        name = tool_name(item, site)
        reason = _refusal(item, name, site.objects)
        if not reason and name in taken:
            reason = "name repeated in the inventory"
        if reason:
            left_out.setdefault(reason, []).append(item)
            continue
        taken.add(name)
        found.setdefault((item.page, item.anchor), []).append((name, item))
    pages = {
        item.page
        for item in inventory.objects
        if (item.domain, item.role) == ("std", "doc")
        and matches(item.page, site.tables)
    }
    return SiteScope(
        site=site,
        inventory=inventory,
        entries={place: _merged(members) for place, members in found.items()},
        table_pages=tuple(sorted(pages)),
        left_out=left_out,
    )


def _unpack(data: bytes) -> tuple[list[str], str]:
    """Project and version, and the unpacked lines, at most 64 MiB."""
    lines = data.split(b"\n", 4)
    if len(lines) < 5 or not lines[0].startswith(INVENTORY_HEAD):
        raise ValueError("it does not begin as one")
    unpacker = zlib.decompressobj()
    body = unpacker.decompress(lines[4], _MAX_BYTES)
    if unpacker.unconsumed_tail:
        raise ValueError(f"it unpacks to more than {_MAX_BYTES:,} bytes")
    if not unpacker.eof:
        raise ValueError("it ends too early")
    head = [line.decode("utf-8", "replace").partition(":")[2] for line in lines[1:3]]
    return [" ".join(text.split()) for text in head], body.decode("utf-8", "replace")


def _listed(line: str) -> InventoryObject:
    """The object of a line "name domain:role priority uri title"; a name may have blanks."""
    words = line[:_MAX_LINE].split()
    for position in range(1, len(words) - 2):
        domain, colon, role = words[position].partition(":")
        priority = words[position + 1]
        if domain and colon and role and re.fullmatch(r"-?\d+", priority):
            name = " ".join(words[:position])
            uri = words[position + 2]
            if uri.endswith("$"):
                uri = uri[:-1] + name
            return InventoryObject(
                domain, role, name, *_place(uri), is_hidden=priority == "-1"
            )
    return InventoryObject("", "", " ".join(words)[:_SHOWN], "", "")


def _place(uri: str) -> tuple[str, str]:
    """Page and anchor of an URI; in a single-page site it is `#document-api#name`."""
    page, _, anchor = uri.partition("#")
    return unquote(page) or "index.html", unquote(anchor.rpartition("#")[2])


def tool_name(item: InventoryObject, site: Site) -> str:
    """Return the name of an object's tool; an HTTP route begins with its method."""
    name = f"{item.role.upper()} {item.name}" if item.domain == "http" else item.name
    return name.lower() if site.lowercase else name


def _refusal(item: InventoryObject, name: str, rules: Objects) -> str:
    if not item.domain:
        return "line not understood"
    if item.domain != rules.domain:
        return f"not of the {rules.domain} domain"
    if item.role not in rules.roles:
        return f"role {item.role}"
    if covers(name, rules.exclude):
        return "excluded"
    if rules.include and not covers(name, rules.include):
        return "not included"
    if rules.parents and name.rpartition(".")[0] not in rules.parents:
        return "parent not listed"
    page = item.page
    if urlsplit(page).scheme or page.startswith("/") or ".." in page.split("/"):
        return "page outside the site"
    if rules.pages and not matches(page, rules.pages):
        return "page not listed"
    return ""


def _merged(members: Iterable[tuple[str, InventoryObject]]) -> InventoryEntry:
    """Merge objects of one anchor; names on the page, of the anchor and short ones rank first."""
    ranked = sorted(
        members,
        key=lambda member: (
            member[1].is_hidden,
            member[1].name != member[1].anchor,
            len(member[0]),
            member[0],
        ),
    )
    name, first = ranked[0]
    return InventoryEntry(
        name=name,
        role=first.role,
        page=first.page,
        anchor=first.anchor,
        aliases=tuple(sorted(alias for alias, _ in ranked[1:])),
        objects=tuple(item for _, item in ranked),
    )


def resolve(page: str, href: str) -> tuple[str, str]:
    """Return page and anchor of a link on `page`, or ("", "") if it leaves the site."""
    if urlsplit(href).scheme or href.startswith("/"):
        return "", ""
    target, _, anchor = href.partition("#")
    if not target:
        return page, unquote(anchor)
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(target)))
    if path.startswith(".."):
        return "", ""
    return (f"{path}/" if target.endswith("/") else path), unquote(anchor)
