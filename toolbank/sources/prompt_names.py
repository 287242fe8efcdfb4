"""Neutral names for prompts, from what a tool does and not from what it is called."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from toolbank.bank.records import Tool

_MAX_WORDS = 5
_STOP = frozenset(
    re.findall(
        r"\w+",
        """
        a an all and any are as at be been but by can do does each else for from given has have if in into is
        it its like may much not of on one only or other over own per same self so some such than
        that the their them then there these they this those to two up used using via was way we
        none should when where whether which while will with within without would you your
        also calculate calculates class compute computed computes element elementwise function
        get gets method module note object provide provided provides return returned returns
        see specified wise
        """,
    )
)
_KIND_WORDS = {"property": "attribute", "object": "index_helper"}


def with_prompt_names(tools: Sequence[Tool]) -> list[Tool]:
    """Give every tool a `prompt_name`, unique in the list, of two to five words.

    The words are content words of the summary (then of the description and the parameters),
    in their order and without those of the tool's own name where others are left. Names that
    are alike take further words before they take a number. A pure function of the list.
    """
    taken: set[str] = set()
    named: list[Tool] = []
    numbers: Counter[str] = Counter()
    for tool in tools:
        names = _candidates(tool, numbers)
        name = next(name for name in names if name not in taken)
        taken.add(name)
        named.append(tool.model_copy(update={"prompt_name": name}))
    return named


def _candidates(tool: Tool, numbers: Counter[str]) -> Iterator[str]:
    """Ever longer names, then numbered ones, without end.

    `numbers` counts those given so far by the words before the number, so that a thousand tools
    that say the same are not each counted from the first.
    """
    own = _own_words(tool)
    words = _content(tool.summary, own)
    more = _content(_first_words(tool), own)
    further = [word for word in more if word not in words]
    if len(words) == 1 and re.search("element-?wise", tool.summary, re.I):
        words.append("elementwise")
    elif len(words) < 2:
        words, further = [*words, *further][:2], further[max(0, 2 - len(words)) :]
    if not words:
        words = [_KIND_WORDS.get(tool.kind, tool.kind)]
    base = words[:_MAX_WORDS]
    yield "_".join(base)
    for word in [*words[_MAX_WORDS:], *further][:8]:
        yield "_".join([*base[: _MAX_WORDS - 1], word])
    stem = "_".join(base)
    while True:
        numbers[stem] += 1
        yield f"{stem}_{numbers[stem] + 1}"


def _first_words(tool: Tool) -> str:
    """The first words of all else that is said of a tool, the outcome first."""
    parts = [value.description[:120] for value in tool.returns]
    properties = tool.parameters.get("properties", {}).values()
    parts.extend(str(schema.get("description", ""))[:120] for schema in properties)
    return " ".join([*parts, tool.description[:600]])


def _own_words(tool: Tool) -> set[str]:
    """The words that would give the identifier away, whole and in its parts."""
    own = {tool.name.partition(".")[0].lower()}
    for name in (tool.name, *tool.aliases):
        last = name.rpartition(".")[2]
        own.add(re.sub(r"[^a-z0-9]", "", last.lower()))
        if last != last.lower() or "_" in last:
            own.update(_split_identifier(last))
    return {word for word in own if len(word) > 1}


def _split_identifier(name: str) -> Iterable[str]:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return (part.lower() for part in spaced.split("_"))


def _content(text: str, own: set[str]) -> list[str]:
    """Content words in order, each once, without the tool's own."""
    words: list[str] = []
    for word in re.findall(r"[a-z][a-z0-9]*", _without_names(text).lower()):
        stem = word.removesuffix("s")
        if (
            len(word) < 2
            or word in _STOP
            or word in own
            or stem in own
            or word in words
        ):
            continue
        words.append(word)
    return words


def _without_names(text: str) -> str:
    """The text without identifiers and code: dotted, underscored, called, or in capitals."""
    text = re.sub(r"(?i)\b(?:1|one)-d(?:imensional)?\b", "onedimensional", text)
    text = re.sub(r"(?i)\b(?:2|two)-d(?:imensional)?\b", "twodimensional", text)
    text = re.sub(r"(?i)\bn-d(?:imensional)?\b", "multidimensional", text)
    text = re.sub(r"(?i)\b(non|sub|multi|pre|re)-(?=\w)", r"\1", text)
    text = re.sub(r"\w*[(\[][^()\[\]]*[)\]]", " ", text)
    text = re.sub(r"\b\w+(?:\.\w+)+|\b\w*_\w*|\b[a-z]+[A-Z]\w*|\w*\d\w*", " ", text)
    return re.sub(r"'s\b", "", text)
