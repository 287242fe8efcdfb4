"""Classes whose instances hang on those of another, as the invoices on a client do."""

import functools
import inspect
import sys
from collections.abc import Iterator
from typing import Any

from toolbank.sources.python.attributes import Attribute, attributes_of
from toolbank.sources.python.kinds import recipe_kind
from toolbank.sources.python.ownership import NO_API, is_within
from toolbank.sources.python.walk import PublicObject, Walk

_LOST = "can't be told what it holds"


def take_parts(walk: Walk) -> None:
    """Take the classes that hang on those taken, and on these in turn.

    A public one goes by its own name. A private one has methods that are public where an instance
    of it is a public attribute; it goes by the shortest path to that. One from which a public
    class derives is left to that, which has its methods.
    """
    waiting = [item for item in walk.objects.values() if item.kind == "class"]
    seen = {id(item.value) for item in waiting}
    holders = {"class", *walk.scope.kinds}
    for owner in waiting:
        attributes: list[Attribute] = []
        if recipe_kind(owner.value, "class") in holders:
            attributes += attributes_of(owner.value, walk.is_listed)
        held = (
            one.cls for one in attributes if one.cls is not None and one.is_instance
        )
        for part in (*_named_by(owner.value), *held):
            full = f"{part.__module__}.{part.__qualname__}"
            is_inside = full.startswith(f"{walk.root.__name__}.")
            if id(part) in seen or not is_inside or not _is_public(part):
                continue
            seen.add(id(part))
            if not walk.scope.leaves_out(full):
                walk.take(full, part)
                if item := walk.objects.get(id(part)):
                    waiting.append(item)
        waiting += _private_parts(walk, owner, attributes)
    bases = {
        id(base)
        for item in waiting
        if not item.is_private
        for base in item.value.__mro__
    }
    for key in bases:
        if key in walk.objects and walk.objects[key].is_private:
            del walk.objects[key]
    for key in bases | walk.objects.keys():
        walk.hidden.pop(key, None)


def _private_parts(
    walk: Walk, owner: PublicObject, attributes: list[Attribute]
) -> Iterator[PublicObject]:
    """Take private classes by the attributes that hold them; give those not met before."""
    for one in attributes:
        key, full = id(one.cls), f"{owner.name}.{one.name}"
        if walk.scope.leaves_out(full):
            continue
        if one.cls is None:
            if "method" in walk.scope.kinds:
                walk.skip(full, _LOST)
            continue
        if (
            walk.is_listed(one.cls)
            or _is_public(one.cls)
            or not _is_inside(one.cls, walk.root.__name__)
        ):
            continue
        is_descriptor = inspect.getattr_static(one.cls, "__get__", None) is not None
        if is_descriptor or not one.is_only:
            walk.hidden[key] = one.cls
            continue
        if key not in walk.objects:
            walk.objects[key] = PublicObject(
                one.cls, "class", is_documented=False, is_private=True
            )
            yield walk.objects[key]
        walk.objects[key].names[full] = ""


def _named_by(cls: type) -> Iterator[type]:
    """The classes of the same package that `__init__` and the properties of a class name.

    Read off their code; none of it is called.
    """
    for base in cls.__mro__:
        if not is_within(base.__module__ or "", cls.__module__ or ""):
            continue
        for name, value in vars(base).items():
            function = _maker(name, value)
            if not inspect.isfunction(function):
                continue
            for word in function.__code__.co_names:
                part = function.__globals__.get(word)
                if isinstance(part, type) and is_within(
                    part.__module__ or "", cls.__module__ or ""
                ):
                    yield part


def _maker(name: str, value: Any) -> Any:
    if isinstance(value, property):
        return value.fget
    if isinstance(value, functools.cached_property):
        return value.func
    return value if name == "__init__" else None


def _is_public(cls: type) -> bool:
    """Whether a class is found in its module by its own name, which is not private."""
    words = f"{cls.__module__}.{cls.__qualname__}".split(".")
    module = sys.modules.get(cls.__module__)
    return (
        NO_API.isdisjoint(words)
        and not any(word.startswith("_") for word in words)
        and inspect.getattr_static(module, cls.__qualname__, None) is cls
    )


def _is_inside(cls: type, package: str) -> bool:
    """Whether a class is defined in a package, or in the private twin of one at the top."""
    home = cls.__module__ or ""
    is_top = "." not in package
    return f"{home}.".startswith(f"{package}.") or (is_top and is_within(home, package))
