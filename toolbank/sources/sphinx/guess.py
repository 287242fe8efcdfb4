"""Rules for a site without a file in crawlers/: which objects can be called."""

import textwrap
from collections import Counter

import yaml

from toolbank.sources.site import ROLES, Domain, Objects, Site, covers
from toolbank.sources.sphinx.inventory import Inventory, SiteScope
from toolbank.system.errors import InputError

# Roles of callable objects, by domain. Data is a tool if its page shows it called, as ufuncs are.
_CALLABLE: dict[Domain, tuple[str, ...]] = {
    "py": (
        *("function", "class", "method", "classmethod", "staticmethod", "data"),
        *("decorator", "decoratormethod"),
    ),
    "js": ("function", "class", "method"),
    "c": ("function", "macro"),
    "cpp": ("function", "class"),
    "http": ROLES["http"],
}
_PRIVATE = ("_*", "*._*")
_SHOWN_PARENTS = 12


def guess_site(inventory: Inventory, base_url: str) -> Site:
    """Return rules for the public callable objects of the domain that has most of them.

    Raises:
        InputError: the inventory lists no callable object.
    """
    places = {(domain, role) for domain, roles in _CALLABLE.items() for role in roles}
    counts = Counter(
        item.domain for item in inventory.objects if (item.domain, item.role) in places
    )
    if not counts:
        listed = Counter(f"{item.domain}:{item.role}" for item in inventory.objects)
        raise InputError(
            f"{base_url}: its inventory lists nothing that can be called "
            f"({_counted(listed) or 'it is empty'}). Give the address of a reference of "
            "functions, methods, classes or HTTP routes; it may be another part of the site."
        )
    domain = max(_CALLABLE, key=lambda one: counts[one])
    own = [item for item in inventory.objects if item.domain == domain]
    present = {item.role for item in own}
    private = any(covers(item.name, _PRIVATE) for item in own)
    return Site(
        base_url=base_url,
        objects=Objects(
            domain=domain,
            roles=tuple(role for role in _CALLABLE[domain] if role in present),
            exclude=_PRIVATE if private and domain in ("py", "js") else (),
        ),
    )


def site_yaml(scope: SiteScope) -> str:
    """Return guessed rules as the text of a crawlers/<site>.yaml, with counts in comments."""
    site, inventory = scope.site, scope.inventory
    rules = site.objects
    own = [item for item in inventory.objects if item.domain == rules.domain]
    roles = Counter(item.role for item in own)
    parents = Counter(entry.name.rpartition(".")[0] for entry in scope.entries.values())
    del parents[""]
    comments = [
        f"{inventory.project} {inventory.version}, {len(scope.entries):,} of "
        f"{len(inventory.objects):,} objects. The inventory has {_counted(roles)}."
    ]
    if parents and rules.domain != "http":
        named = Counter(dict(parents.most_common(_SHOWN_PARENTS)))
        more = " and others" if len(parents) > _SHOWN_PARENTS else ""
        comments.append(
            f"Most are in {_counted(named)}{more}. To take only direct members of some: "
            "parents: [...]"
        )
    lines = [line for text in comments for line in _comment(text)]
    content = site.model_dump(mode="json", exclude_defaults=True)
    return "\n".join([*lines, yaml.safe_dump(content, sort_keys=False)])


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.most_common())


def _comment(text: str) -> list[str]:
    """Lines of comment; unprintable characters, such as line breaks, become blanks."""
    words = "".join(one if one.isprintable() else " " for one in text)
    return textwrap.wrap(words, 88, initial_indent="# ", subsequent_indent="# ")
