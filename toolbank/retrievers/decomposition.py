"""Task decomposition: search for each part of the request and interleave the hits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files

import numpy as np

from toolbank.bank.bank import Bank
from toolbank.bank.ranking import Hits, blocks, join
from toolbank.llm.accounts import join_reasons
from toolbank.llm.chat import ChatReply, Rejection, check_finish, find_answer
from toolbank.llm.engines import find_engine
from toolbank.llm.searches import ask_searches, require_replies
from toolbank.llm.templates import PromptTemplate
from toolbank.retrievers.base import ALONE, FitContext
from toolbank.retrievers.llm_settings import (
    DECOMPOSE_TEMPLATE,
    DecomposeConfig,
    DecompositionConfig,
    ask_for_subtasks,
)
from toolbank.retrievers.protip.plans import interleave
from toolbank.retrievers.two_stage import TwoStage
from toolbank.system.numbers import count
from toolbank.system.terminal import print_above_bars

KEY = "subtasks"
"""What an answer holds them under."""


def ask_subtasks(
    texts: Sequence[str], config: DecomposeConfig, template: PromptTemplate
) -> list[list[str]]:
    """Ask the model for the subtasks of each request.

    A request without a usable reply stays whole, and a message counts these requests.

    Raises:
        InputError: the engine or the prompt cannot be used.
        ToolbankError: calls failed or are not answered yet. Replies are kept, and a new search
            asks only for the rest.
    """
    distinct = list(dict.fromkeys(texts))
    requests = [ask_for_subtasks(template, text) for text in distinct]
    answers = ask_searches(requests, lambda _, reply: read_subtasks(reply), config)
    require_replies(answers, config)
    unread: Counter[str] = Counter()
    parts: dict[str, list[str]] = {}
    for text, answer in zip(distinct, answers, strict=True):
        if isinstance(answer.value, Rejection):
            unread[answer.value.reason] += 1
            parts[text] = [text]
        else:
            parts[text] = answer.value
    if unread:
        print_above_bars(
            f"Did not split {unread.total():,} of {count(len(distinct), 'request')}, because the "
            f"model gave no list of subtasks ({join_reasons(unread)})."
        )
    return [parts[text] for text in texts]


def read_subtasks(reply: ChatReply) -> list[str] | Rejection:
    """Read the subtasks of a reply, or why there are none."""
    answer = check_finish(reply) or find_answer(reply.text, [KEY])
    if isinstance(answer, Rejection):
        return answer
    found = answer[KEY]
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        return Rejection("wrong-schema", f"{KEY} is no list of texts")
    subtasks = [item.strip() for item in found if item.strip()]
    return subtasks or Rejection("empty")


# The verbs that an order begins with.
_VERBS = "|".join(
    files(__package__)
    .joinpath("decomposition_verbs.txt")
    .read_text(encoding="utf-8")
    .split()
)
_OBJECTS = (
    "a|an|the|this|that|these|those|my|our|your|his|her|its|their|me|us|it|them|him|you|"
    "all|any|both|each|every|some|another|one|two|three|in|on|up|off|out|for|to|with|from|at|by|"
    "about|if|whether|what|which|when|where|who|how"
)
_AFTER = r"after\s+that|afterwards?|subsequently|finally|lastly"
_CONDITION = re.compile(r"(?:if|when|once|unless|whenever|as soon as)\b", re.IGNORECASE)
_NO_END = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|st|no|vs|e\.g|i\.e|approx|[a-z])|(?:^|\n)\s*\d{1,2})\.$",
    re.IGNORECASE,
)

_GAP = re.compile(r"\s{20,}")
_SENTENCE = re.compile(r"(?<=[.!?])[ \t]+(?=[\"'(\[]?[A-Z0-9])")
_CONNECTIVE = re.compile(
    rf"(?:,|\s)\s*and\s+(?:then|also|next|{_AFTER})\b,?\s+"
    rf"|,\s*(?:then|next|{_AFTER})\b,?\s+",
    re.IGNORECASE,
)
_COORDINATED = re.compile(
    rf"(?:,\s+and|,|\s+and)\s+(?=(?:{_VERBS})\s+(?:{_OBJECTS})\b)", re.IGNORECASE
)
_PLAIN = re.compile(
    r"\s*\n\s*(?:(?:\(?\d{1,2}[.)]|[-*\u2022])\s+)?"
    r"|\s*;\s*"
    r"|(?<=[\s:,])\(?\d{1,2}\)\s+"
)
_OPENING = re.compile(
    rf"\s*(?:(?:\(?\d{{1,2}}[.)]|[-*\u2022])\s+)?"
    rf"(?:(?:and|then|also|next|{_AFTER})\b,?\s*)*",
    re.IGNORECASE,
)
_TASK = re.compile(
    rf"(?:^|\b(?:to|please|me|you|then|also|and|just)\s+)(?:{_VERBS})\b|\?",
    re.IGNORECASE,
)


def split_request(text: str) -> list[str]:
    """Split a request into the parts that ask for something, in their order; at least one.

    It is cut at the ends of sentences, lines and list items, at semicolons, at connectives such as
    ", then" and "after that", and before a further order ("and send it to ..."). A part that asks
    for nothing, such as "My number is 7.", stays with the part before it. Only connectives and the
    numbers of list items are dropped.
    """
    # The patterns would scan a long gap from each of its characters.
    text = _GAP.sub(lambda gap: "\n" if "\n" in gap[0] else " ", text)
    parts: list[tuple[int, int]] = []
    for start, end in _pieces(text):
        asks = _TASK.search(text[start:end])
        if parts and not (asks and _TASK.search(text[slice(*parts[-1])])):
            parts[-1] = (parts[-1][0], end)
        else:
            parts.append((start, end))
    split = [text[start:end].strip(" \t\n,;") for start, end in parts]
    return [part for part in split if part] or [text]


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans between the cuts, without the connectives that they start with."""
    start = 0
    for cut_start, cut_end in [*_cuts(text), (len(text), len(text))]:
        opening = _OPENING.match(text, start, cut_start)
        begin = opening.end() if opening else start
        if begin < cut_start:
            yield begin, cut_start
        start = cut_end


def _cuts(text: str) -> list[tuple[int, int]]:
    """Return the spans between pieces, in their order and without overlap."""
    plain = {match.span() for match in _PLAIN.finditer(text)}
    ends = {
        match.span()
        for match in _SENTENCE.finditer(text)
        if not _NO_END.search(text, 0, match.start())
    }
    joints = {m.span() for p in (_CONNECTIVE, _COORDINATED) for m in p.finditer(text)}
    cuts: list[tuple[int, int]] = []
    for start, end in sorted(
        plain | ends | joints, key=lambda span: (span[0], -span[1])
    ):
        begin = cuts[-1][1] if cuts else 0
        if start < begin:
            continue
        # "If it rains, then cancel it" is one order.
        if (start, end) in joints and _CONDITION.match(text[begin:start].lstrip()):
            continue
        cuts.append((start, end))
    return cuts


class DecompositionRetriever(TwoStage):
    """The hits of a request's subtasks, interleaved: ProTIP's baseline (arXiv 2312.10332, 4.2)."""

    config: DecompositionConfig

    def fit(self, bank: Bank, context: FitContext = ALONE) -> None:  # noqa: ARG002
        """Take the first stage; nothing is trained, and no request is split.

        Raises:
            InputError: the engine that splits requests cannot be used.
        """
        if asks := self.config.asks:
            kind = find_engine(asks)
            kind.check(asks)
            kind.check_access(asks)
            self.prompt = PromptTemplate(DECOMPOSE_TEMPLATE)
        self.take_stages(context.fitted)

    def search(self, queries: Sequence[str], k: int) -> Hits:
        """Return indices and scores of the best min(k, n_tools) tools: two arrays [n_queries, k].

        A score is the reciprocal of the rank.

        Raises:
            ToolbankError: the language model that splits the requests gave no answer.
        """
        n_tools = len(self.tools)
        k = min(k, n_tools)
        split = self.split(queries)
        most = max(map(len, split), default=1)
        parts = []
        for block in blocks(len(queries), n_tools + k * most):
            rows = split[block]
            texts = [text for row in rows for text in row]
            hits, _ = self.first.search(texts, k)
            lengths = np.array([len(row) for row in rows])
            lists = np.zeros((len(rows), most, k), np.int64)
            lists[np.arange(most) < lengths[:, None]] = hits
            parts.append(interleave(lists, lengths, n_tools, k))
        return join(parts, k)

    def split(self, queries: Sequence[str]) -> list[list[str]]:
        """The subtasks of each request, at least one.

        Raises:
            ToolbankError: the language model that splits the requests gave no answer.
        """
        if not self.config.asks:
            return [split_request(query) for query in queries]

        return ask_subtasks(queries, self.config.asks, self.prompt)
