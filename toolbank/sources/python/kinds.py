"""What kinds of things a package has, as a recipe calls them."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from toolbank.bank.records import ToolKind
from toolbank.system.numbers import count

Kind = Literal[
    "function",
    "method",
    "class",
    "object",
    "property",
    "module",
    "exception",
    "enum",
    "record",
]

CALLED: frozenset[Kind] = frozenset({"function", "method", "class"})
"""What counts where neither the recipe nor a file of crawlers/ says it: what can be called."""

_OF_ROLES: dict[str, tuple[Kind, ...]] = {
    "function": ("function",),
    "decorator": ("function",),
    "class": ("class", "enum", "record"),
    "exception": ("exception",),
    "data": ("object",),
    "module": ("module",),
    "method": ("method",),
    "classmethod": ("method",),
    "staticmethod": ("method",),
    "decoratormethod": ("method",),
    "attribute": ("property",),
    "property": ("property",),
}
_NAMED = 3
_PLURALS: dict[Kind, str] = {"class": "classes", "property": "properties"}


def kinds_of_roles(roles: Iterable[str]) -> frozenset[Kind]:
    """The kinds that a site's rules take, by what an inventory calls them."""
    return frozenset(kind for role in roles for kind in _OF_ROLES.get(role, ()))


def recipe_kind(value: Any, kind: ToolKind) -> Kind:
    """What a recipe calls an object that would be a tool of this kind: classes are told apart."""
    if kind == "class":
        return _kind_of_class(value)
    return next(one for one in get_args(Kind) if one == kind)


def takes_arguments(cls: type, signature: str, parameters: Mapping[str, Any]) -> bool:
    """Whether a class is made with arguments, as far as can be told.

    A `signature` of "" is one that can't be read; then a constructor of its own is enough.
    """
    if vars(cls).get("_is_protocol"):
        return False
    if signature or parameters:
        return bool(parameters)
    makers = (vars(base) for base in cls.__mro__ if base is not object)
    return any("__init__" in names or "__new__" in names for names in makers)


def describe_left_out(
    left_out: Mapping[Kind, int],
    kinds: Iterable[Kind],
    undocumented: Sequence[str] = (),
    *,
    hidden: int,
    methods: bool,
) -> str:
    """How many of which kind were left out, and the key that takes them; "" where none were.

    `kinds` are those that were taken; `methods` is the key of that name; `undocumented` names what
    is of these kinds and has no docstring; `hidden` counts methods of private classes.
    """
    said = [_describe_kinds(left_out, kinds, methods)] if left_out else []
    if undocumented:
        names = ", ".join(sorted(undocumented)[:_NAMED])
        more = len(undocumented) - _NAMED
        rest = f" and {more:,} more" if more > 0 else ""
        said.append(f"{len(undocumented):,} without a docstring ({names}{rest})")
    if hidden:
        said.append(f"{count(hidden, 'method')} of private classes")
    return f"left out: {'; '.join(said)}" if said else ""


def _describe_kinds(
    left_out: Mapping[Kind, int], kinds: Iterable[Kind], methods: bool
) -> str:
    wanted = {*kinds, *left_out}
    key = f"kinds: [{', '.join(kind for kind in get_args(Kind) if kind in wanted)}]"
    if "method" in left_out and not methods:
        key += " and no methods: false"
    return f"{_counted(left_out)}; {key} takes them too"


def _kind_of_class(cls: type) -> Kind:
    if issubclass(cls, BaseException):
        return "exception"
    if issubclass(cls, enum.Enum):
        return "enum"
    return "record" if any(map(_is_record, cls.__mro__)) else "class"


def _is_record(base: type) -> bool:
    """Whether a class is, or begins, a dataclass, pydantic model, NamedTuple or TypedDict."""
    is_pydantic = base.__module__.partition(".")[0] == "pydantic"
    return (
        "__dataclass_fields__" in vars(base)
        or (is_pydantic and base.__name__ == "BaseModel")
        or (issubclass(base, tuple) and "_fields" in vars(base))
        or type(base).__name__ == "_TypedDictMeta"
    )


def _counted(counts: Mapping[Kind, int]) -> str:
    """Counts in words, the greatest first."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(
        count(number, kind, _PLURALS.get(kind, "")) for kind, number in ranked
    )
