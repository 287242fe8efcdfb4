"""What of a package's source is public, and under which names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import griffe

from toolbank.sources.python.folder.files import is_api
from toolbank.sources.python.scope import Scope
from toolbank.sources.site import covers

Found = griffe.Class | griffe.Function


def find_public(
    root: griffe.Module, scope: Scope
) -> dict[str, tuple[Found, list[str]]]:
    """The public classes and functions of a package or module, each with its names, best first.

    A name is public as in a package that is imported: where a module's `__all__` has it, or, if
    there is none, where it has no leading underscore and is defined there (in a package: anywhere
    in it). The best name is the shortest, and of those the one nearest to where it is defined.
    """
    names: defaultdict[str, list[str]] = defaultdict(list)
    found: dict[str, Found] = {}
    for name, value in _walk(root, scope):
        found[value.path] = value
        if name not in names[value.path]:
            names[value.path].append(name)
    return {
        path: (value, sorted(names[path], key=partial(_rank, path)))
        for path, value in sorted(found.items())
    }


def _rank(path: str, name: str) -> tuple[int, bool, bool, int, str]:
    parent, _, last = name.rpartition(".")
    is_far = not path.startswith(f"{parent}.")
    return name.count("."), last != path.rpartition(".")[2], is_far, len(name), name


def _walk(root: griffe.Module, scope: Scope) -> Iterator[tuple[str, Found]]:
    """What each module names, those with the shortest paths first; each file counts once."""
    waiting = [(root.path, root)]
    seen: set[str] = set()
    while waiting:
        path, module = waiting.pop(0)
        # A link may show a folder within itself.
        place = str(module.filepath)
        if isinstance(module.filepath, Path):
            place = str(module.filepath.resolve())
        if place in seen:
            continue
        seen.add(place)
        for name, member in sorted(module.members.items()):
            full, value = f"{path}.{name}", _resolve(member)
            if value is None or not f"{value.path}.".startswith(f"{root.path}."):
                continue
            if isinstance(value, griffe.Module):
                is_in = scope.looks_into(full) and not covers(full, scope.exclude)
                if is_in and _is_public(member, name, module):
                    waiting.append((full, value))
            elif (
                isinstance(value, griffe.Class | griffe.Function)
                and _is_public(member, name, module)
                and not scope.leaves_out(full)
            ):
                yield full, value


def _resolve(member: griffe.Object | griffe.Alias) -> griffe.Object | None:
    """What a name stands for; None where that is of another package, or not there."""
    try:
        return member.final_target if isinstance(member, griffe.Alias) else member
    except (griffe.AliasResolutionError, griffe.CyclicAliasError):
        return None


def _is_public(
    member: griffe.Object | griffe.Alias,
    name: str,
    module: griffe.Module,
) -> bool:
    is_named = module.exports is not None and name in map(str, module.exports)
    if isinstance(member, griffe.Module):
        return is_named or is_api(name)
    if module.exports is not None:
        return is_named and not name.startswith("__")
    is_own = not isinstance(member, griffe.Alias) or module.is_init_module
    return is_own and not name.startswith("_")
