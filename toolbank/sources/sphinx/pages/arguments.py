"""A signature's parameters put together with what the field list says of them."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from toolbank.sources.schema.parameters import Parameter, is_optional
from toolbank.sources.sphinx.pages.heading import GROUP


def combined(
    signature: Iterable[Parameter], documented: Iterable[Parameter]
) -> list[Parameter]:
    """The signature's parameters in its order with the documented words.

    One that is only documented comes last if the signature takes any, or there is none; then
    a `**kwargs` of which nothing is said stands for these, and none of them is required unless
    the signature says nothing else.
    """
    signature = list(signature)
    documented = list(documented)
    described = _placed(signature, documented)
    found: list[Parameter] = []
    for item in signature:
        words = described.pop(item.name.lstrip("*"), None)
        found.append(item if words is None else _described(item, words))
    takes_any = [item for item in found if item.name.startswith("*")]
    if not takes_any and found:
        return found
    keywords = [item for item in takes_any if item.name.startswith("**")]
    needed = _needed(documented) if _is_bare(signature) else []
    for item in described.values():
        is_open = item.required is None and bool(keywords) and item not in needed
        found.append(replace(item, required=False) if is_open else item)
    unsaid = [item for item in keywords if not item.description]
    return [item for item in found if not (described and item in unsaid)]


def sent(
    path: Iterable[Parameter], documented: Iterable[Parameter]
) -> Iterator[Parameter]:
    """What a request sends: the parameters in its path, which are required, and all others."""
    described = {item.name: item for item in documented}
    for item in path:
        words = described.pop(item.name, None)
        yield item if words is None else _described(item, words)
    for item in described.values():
        yield replace(item, required=bool(item.required))


def _described(item: Parameter, words: Parameter) -> Parameter:
    """A parameter of a signature with what the field list says of it."""
    is_open = item.required and is_optional(words.classifier)
    return replace(
        item,
        classifier=words.classifier or item.classifier,
        description=words.description,
        required=False if is_open else item.required,
        schema=words.schema or item.schema,
    )


def _placed(
    signature: Sequence[Parameter], documented: Sequence[Parameter]
) -> dict[str, Parameter]:
    """What is said of the parameters, by the signature's names.

    Words of other names belong to the arguments that must be given and of which nothing is said, if
    these are as many. Words of "a1, a2, ..." belong to the sequence "a" of the signature.
    """
    described = {item.name.lstrip("*"): item for item in documented}
    names = {item.name.lstrip("*") for item in signature}
    for item in signature:
        if item.classifier == GROUP and item.name not in described:
            pattern = re.compile(re.escape(item.name) + r"(?:\d+|n)")
            members = [name for name in described if pattern.fullmatch(name)]
            found = [described.pop(name) for name in members if name not in names]
            if found:
                described[item.name] = found[0]
    unsaid = [item.name for item in signature if item.required]
    unsaid = [name for name in unsaid if name not in described]
    unknown = [name for name in described if name not in names]
    if any(is_optional(described[name].classifier) for name in unknown):
        return described
    takes_any = any(item.name.startswith("*") for item in signature)
    if unsaid and len(unsaid) == len(unknown) and not takes_any:
        for name, other in zip(unsaid, unknown, strict=True):
            described[name] = described.pop(other)
    return described


def _is_bare(signature: Sequence[Parameter]) -> bool:
    """Whether a signature is "(*args, **kwargs)", which says nothing of what must be given."""
    return [item.name[: item.name.count("*")] for item in signature] == ["*", "**"]


def _needed(documented: Sequence[Parameter]) -> list[Parameter]:
    """The parameters that come first and are marked as neither optional nor with a default.

    None where others of this kind follow: the author does not mark what may be left out.
    """
    unmarked = [
        item
        for item in documented
        if not item.name.startswith("*") and not is_optional(item.classifier)
    ]
    is_told = all(item.classifier for item in unmarked)
    return unmarked if is_told and list(documented[: len(unmarked)]) == unmarked else []
