"""A language model as last stage: it reranks a first stage's best hits or rejects them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, by_rank
from toolbank.bank.records import Tool
from toolbank.llm.accounts import join_reasons
from toolbank.llm.chat import ChatReply, Rejection, check_finish, find_answer
from toolbank.llm.engines import find_engine
from toolbank.llm.searches import ask_searches
from toolbank.llm.templates import PromptTemplate
from toolbank.retrievers.base import ALONE, FitContext
from toolbank.retrievers.llm_settings import (
    ORDER_KEY,
    RANK_TEMPLATE,
    LlmConfig,
    Shown,
    ask_for_order,
    summarise,
)
from toolbank.retrievers.stored import Arrays, Texts, integers
from toolbank.retrievers.two_stage import TwoStage
from toolbank.system.numbers import count, unsigned
from toolbank.system.terminal import one_line, print_above_bars

_EXCERPT = 100


def ask_orders(
    shown: Mapping[str, Shown], config: LlmConfig, template: PromptTemplate
) -> dict[str, list[int]]:
    """Ask the model for the order of the shown tools: their positions by request, best first.

    Requests without a usable answer are missing, and so are those of fewer than two tools, about
    which the model is not asked. Messages count these, and the skipped entries of the answers.

    Raises:
        InputError: the engine or the prompt cannot be used.
        ToolbankError: as `ask_searches` does.
    """
    asked = {text: tools for text, tools in shown.items() if len(tools) > 1}
    requests = [ask_for_order(template, *pair) for pair in asked.items()]
    names = [[name for name, _ in tools] for tools in asked.values()]

    def read(
        number: int, reply: ChatReply
    ) -> tuple[list[int], Counter[str]] | Rejection:
        return read_order(reply, names[number])

    orders: dict[str, list[int]] = {}
    unread = Counter({"fewer-than-two-tools": len(shown) - len(asked)})
    passed: Counter[str] = Counter()
    answers = ask_searches(requests, read, config) if requests else []
    for text, answer in zip(asked, answers, strict=True):
        if isinstance(answer.value, Rejection):
            unread[answer.value.reason] += 1
        else:
            orders[text] = answer.value[0]
            passed += answer.value[1]
    if unread := +unread:
        print_above_bars(
            f"{config.label}: kept the order of {config.first_stage} for {unread.total():,} of "
            f"{count(len(shown), 'request')} ({join_reasons(unread)})."
        )
    if passed:
        print_above_bars(
            f"{config.label}: skipped {count(passed.total(), 'entry', 'entries')} of the model's "
            f"lists ({join_reasons(passed)})."
        )
    return orders


def read_order(
    reply: ChatReply, names: Sequence[str]
) -> tuple[list[int], Counter[str]] | Rejection:
    """Read the positions of the listed tools, and count the skipped entries by reason.

    A tool is given by its number, from 1, or its name. Skipped are entries that are no shown tool
    (`unknown`), and repetitions (`repeated`). A list with no other entries is rejected. An empty
    list is valid: it drops all tools. No reply raises.
    """
    answer = check_finish(reply) or find_answer(reply.text, [ORDER_KEY])
    if isinstance(answer, Rejection):
        return answer
    listed = answer[ORDER_KEY]
    if not isinstance(listed, list):
        said = one_line(str(listed), _EXCERPT)
        return Rejection("wrong-schema", f"{ORDER_KEY} is no list: {said}")
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


_SEED_BITS = 16


class LlmRetriever(TwoStage):
    """The candidates that a model chooses, in its order; then the first stage's other hits.

    The model reads all candidates of a request at once (listwise, as RankGPT, arXiv 2304.09542).
    Their order is drawn from the seed, the request and the tools' names, so a tool's place does not
    reveal its rank in the first stage. Dropped tools follow the chosen ones. Nothing is trained,
    and no train query is sent to the model.
    """

    config: LlmConfig
    summaries: tuple[str, ...]
    seed: int

    arrays: ClassVar[Arrays] = {"seed": integers(low=0, high=2**_SEED_BITS)}
    texts: ClassVar[Texts] = {"summaries": "tools"}

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:
        """Take the first stage, and the tools' summaries.

        Raises:
            InputError: the engine cannot be used.
        """
        kind = find_engine(self.config)
        kind.check(self.config)
        kind.check_access(self.config)
        self.take_stages(context.fitted)
        self.summaries = tuple(map(summarise, bank.tools))
        self.seed = unsigned(context.seed, _SEED_BITS)
        self.prompt = PromptTemplate(RANK_TEMPLATE)

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Return indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k].

        A score is the reciprocal of the rank. A request without a usable answer keeps the first
        stage's order, and a message counts such requests.

        Raises:
            ToolbankError: the model did not answer for all queries; its answers are kept.
        """
        most = self.config.candidates
        found, _ = self.first.search(queries, max(k, most))
        shown = {
            text: self._draw_order(text, row[:most])
            for text, row in zip(queries, found, strict=True)
        }
        orders = ask_orders(
            {
                text: [(self.tools[tool], self.summaries[tool]) for tool in tools]
                for text, tools in shown.items()
            },
            self.config,
            self.prompt,
        )
        for row, text in enumerate(queries):
            if text in orders:
                chosen = np.array(shown[text], np.int64)[orders[text]]
                others = found[row][~np.isin(found[row], chosen)]
                found[row] = np.concatenate([chosen, others])
        return by_rank(found[:, :k])

    def search_train(self, bank: Bank, k: int, context: FitContext = ALONE) -> Hits:
        """The first stage's hits in its own order: train queries cost no calls."""
        return by_rank(self.first.search_train(bank, k, context)[0])

    def extend(self, tools: Sequence[Tool]) -> None:
        """Add tools to the first stage, and their summaries."""
        super().extend(tools)
        self.summaries = (*self.summaries, *map(summarise, tools))

    def _draw_order(self, text: str, hits: Sequence[int]) -> list[int]:
        """The tools of some hits in an order that does not depend on their ranks."""

        def lot(tool: int) -> bytes:
            drawn = f"{self.seed}\n{text}\n{self.tools[tool]}"
            return hashlib.sha256(drawn.encode("utf-8", "surrogatepass")).digest()

        return sorted((int(hit) for hit in hits if hit >= 0), key=lot)
