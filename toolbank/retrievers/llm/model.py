"""What a model is asked of a first stage's hits, and how its answer is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from toolbank.llm.chat import (
    ChatReply,
    EngineError,
    Rejection,
    check_finish,
    find_answer,
)
from toolbank.llm.searches import ask_all
from toolbank.retrievers.llm.prompt import KEY, Shown, make_request
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line, print_above_bars

if TYPE_CHECKING:
    from toolbank.llm.templates import PromptTemplate
    from toolbank.retrievers.llm.config import LlmConfig

_EXCERPT = 100


def ask_orders(
    shown: Mapping[str, Shown], config: LlmConfig, template: PromptTemplate
) -> dict[str, list[int]]:
    """For each request, the positions of the tools that the model chooses of those shown, best first.

    A request that it gave no usable answer for is not among them. How many there are and why,
    and what was passed over in the other answers, is told.

    Raises:
        InputError: the engine or the prompt can't be used.
        ToolbankError: as `ask_all` does.
    """
    requests = [make_request(template, *pair) for pair in shown.items()]
    orders: dict[str, list[int]] = {}
    unread: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    replies = ask_all(requests, config) if requests else []
    for (text, tools), reply in zip(shown.items(), replies, strict=True):
        if isinstance(reply, EngineError):
            unread[reply.reason] += 1
            continue
        read = read_order(reply, [name for name, _ in tools])
        if isinstance(read, Rejection):
            unread[read.reason] += 1
        else:
            orders[text] = read[0]
            passed += read[1]
    if unread:
        keep = "keeps" if unread.total() == 1 else "keep"
        print_above_bars(
            f"{config.label}: {unread.total():,} of {count(len(shown), 'request')} {keep} the "
            f"order of {config.first_stage}, because the model gave none ({_list(unread)})."
        )
    if passed:
        print_above_bars(
            f"{config.label}: {count(passed.total(), 'entry', 'entries')} of the model's lists "
            f"passed over ({_list(passed)})."
        )
    return orders


def read_order(
    reply: ChatReply, names: Sequence[str]
) -> tuple[list[int], Counter[str]] | Rejection:
    """The positions of the tools that a reply lists, and what in it was passed over, by reason.

    A tool is named by its number, from 1, or its name. Passed over is what is no tool that was
    shown (`unknown`), and what was listed before (`repeated`). A list of nothing else is rejected,
    an empty one is not: it drops all. Nothing that a reply can hold raises.
    """
    answer = check_finish(reply) or find_answer(reply.text, [KEY])
    if isinstance(answer, Rejection):
        return answer
    listed = answer[KEY]
    if not isinstance(listed, list):
        said = one_line(str(listed), _EXCERPT)
        return Rejection("wrong-schema", f"{KEY} is no list: {said}")
    places = {name: place for place, name in enumerate(names)}
    places |= {str(place + 1): place for place in range(len(names))}
    order: dict[int, None] = {}
    passed: Counter[str] = Counter()
    for item in listed:
        place = places.get(str(item).strip())
        if place is None:
            passed["unknown"] += 1
        elif place in order:
            passed["repeated"] += 1
        else:
            order[place] = None
    if listed and not order:
        return Rejection("unknown", one_line(str(listed), _EXCERPT))
    return list(order), passed


def _list(reasons: Counter[str]) -> str:
    return ", ".join(f"{reason} {number:,}" for reason, number in reasons.items())
