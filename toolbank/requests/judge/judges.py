"""Judge pairs of texts by a language model or a heuristic; settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from toolbank.config.base import UnionChoice
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    Rejection,
    check_finish,
    find_answer,
)
from toolbank.llm.config import EngineConfig
from toolbank.llm.templates import PromptTemplate
from toolbank.system.terminal import one_line


class JudgeConfig(EngineConfig):
    """Compare queries with their drafts, or with the queries of another dataset."""

    section: ClassVar[str] = "judge"
    call_steps: ClassVar[tuple[str, ...]] = ("judge",)
    by_rules: ClassVar[bool] = True

    engine: str = Field(
        default="rules",
        description="rules: a heuristic; or openai, vllm, batch, a plug-in",
    )
    temperature: float | None = Field(
        default=0.0, ge=0, le=2, description="sampling temperature; null: not sent"
    )
    pairs: int = Field(
        default=100, ge=1, le=1_000_000, description="number of pairs to compare"
    )
    against: Annotated[
        Literal["draft"] | Path, UnionChoice("should be 'draft', or the path of a file")
    ] = Field(
        default="draft",
        description=(
            "draft, a run folder, a dataset folder, or a JSONL file whose lines have "
            "`query`"
        ),
    )
    criteria: tuple[str, ...] = Field(
        default=("naturalness", "fluency", "coherence"),
        min_length=1,
        description="each pair is judged by each, in both orders: naturalness, fluency, coherence, or "
        "a key of `meanings`",
    )
    meanings: dict[str, str] = Field(
        default={},
        description="criteria of your own for a model, by name: a sentence that says which request "
        "is better",
    )

    @property
    def explained(self) -> dict[str, str]:
        """The criteria, each with the user's text of it; "" for those that the prompt explains."""
        return {one: self.meanings.get(one, "") for one in self.criteria}

    @model_validator(mode="after")
    def _know_criteria(self) -> Self:
        known = [*WEIGHTS, *self.meanings]
        if unknown := [one for one in self.criteria if one not in known]:
            raise ValueError(
                f"criteria: there is no {unknown[0]!r}, only {', '.join(known)}; say under `meanings` "
                "which request is better by it"
            )
        own = [one for one in self.criteria if one not in WEIGHTS]
        if own and self.engine == "rules":
            raise ValueError(
                f"criteria: {own[0]} needs a model; set judge.engine, or remove it"
            )
        return self


NAME = "rules (heuristic)"

# How many of 30 pairs a reader and this heuristic judge differently (tests/requests/judge/read_by_eye.jsonl).
READ_BY_EYE: Mapping[str, Any] = {
    "pairs": 30,
    "disagree": {"naturalness": 11, "fluency": 13, "coherence": 9},
}

# Texts whose scores differ by less are a tie.
MARGIN = 1.0


@dataclass(frozen=True)
class Features:
    """The counts of the heuristic in one text.

    chained_commands: imperative clauses beyond the first ("load ..., sort ..., then plot ...").
    sequence_words: then, next, finally, after that, afterwards, "step 2".
    sentences: sentences of the text.
    command_sentences: sentences beyond the first that open with a command.
    conditionals: if, unless, otherwise, in case, whether.
    tool_words: share of the tools' names whose words are all in the text, 0 to 1.
    repeated_openings: sentences that open with the same word as an earlier one.
    """

    chained_commands: int
    sequence_words: int
    sentences: int
    command_sentences: int
    conditionals: int
    tool_words: float
    repeated_openings: int


# The penalty of each count. Sentences count from the third on.
WEIGHTS: Mapping[str, Mapping[str, float]] = {
    "naturalness": {"chained_commands": 1.0, "sequence_words": 1.0, "tool_words": 2.0},
    "fluency": {
        "chained_commands": 0.5,
        "sequence_words": 1.0,
        "sentences": 1.0,
        "repeated_openings": 1.0,
    },
    "coherence": {
        "command_sentences": 1.0,
        "conditionals": 1.0,
        "repeated_openings": 1.0,
        "chained_commands": 0.5,
    },
}
_FREE_SENTENCES = 2


def read_features(text: str, tools: Sequence[str] = ()) -> Features:
    """Count the features of a request that needs `tools` (names; may be unknown)."""
    sentences = [part for part in _SENTENCE_END.split(text) if _WORD.search(part)]
    openings = [_opening(sentence) for sentence in sentences]
    commands = sum(
        _opening(clause) in _COMMANDS
        for sentence in sentences
        for clause in _CLAUSE_START.split(sentence)
    )
    return Features(
        chained_commands=max(0, commands - 1),
        sequence_words=len(_SEQUENCE.findall(text)),
        sentences=len(sentences),
        command_sentences=sum(opening in _COMMANDS for opening in openings[1:]),
        conditionals=len(_CONDITIONAL.findall(text)),
        tool_words=_tool_words(text, tools),
        repeated_openings=len(openings) - len(set(openings)),
    )


def score(criterion: str, features: Features) -> float:
    """Score a text: minus the weighted sum of its counts, at best 0."""
    counts = {name: float(getattr(features, name)) for name in WEIGHTS[criterion]}
    if "sentences" in counts:
        counts["sentences"] = max(0.0, counts["sentences"] - _FREE_SENTENCES)
    return -sum(WEIGHTS[criterion][name] * count for name, count in counts.items())


def compare(criterion: str, first: Features, second: Features) -> str:
    """Compare two texts: "A" (the first is better), "B" or "tie".

    The verdict does not depend on the order, so a consistency of 100 % means nothing here.
    """
    difference = score(criterion, first) - score(criterion, second)
    if abs(difference) < MARGIN:
        return "tie"
    return "A" if difference > 0 else "B"


_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+")
# A clause that may hold a command begins after a comma, semicolon, colon, dash or "and".
_CLAUSE_START = re.compile(
    r"[,;:]\s|\s[-\u2013\u2014]\s|\band\b|\bbut\b", re.IGNORECASE
)
_SEQUENCE = re.compile(
    r"\b(?:then|next|finally|lastly|afterwards?|after (?:that|which|this)|subsequently"
    r"|first(?:ly)?,|second(?:ly)?,|third(?:ly)?,|step \d+)\b",
    re.IGNORECASE,
)
_CONDITIONAL = re.compile(r"\b(?:if|unless|otherwise|in case|whether)\b", re.IGNORECASE)
# Words that may stand before a command without changing it.
_LEAD_IN_WORDS = """
then next finally lastly first firstly second secondly third also and afterwards
please now subsequently after that which this kindly
"""
_COMMAND_WORDS = """
add adjust align allocate append apply arrange assemble assert assign attach average
broadcast build calculate cast change check choose clean clip collapse collect combine
compare compress compute concatenate configure confirm construct convert copy correct
count create cut decide decode define delete deploy derive describe determine disable
display divide download draw drop duplicate enable encode ensure enter establish
estimate evaluate exclude expand export express extend extract fetch fill filter find
fit fix flag flatten flip format gather generate get give group hide identify import
include index insert interpolate inverse invert join keep label launch list load locate
look make map mark mask match measure merge mirror modify move multiply name normalise
normalize obtain open order output pad pair partition pick place plot prepare print
produce project pull put query raise rank read rearrange record reduce register remove
rename reorder repeat replace report represent resample reset reshape resize restore
retrieve return reverse roll rotate round run sample save scale search select send
separate set shift show shuffle sketch slice smooth solve sort split square stack start
stop store strip subtract sum swap switch take tell test tile total track transform
translate transpose trim truncate try turn undo unpack update upload use validate verify
view weight widen wrap write zero
"""
_LEAD_INS = frozenset(_LEAD_IN_WORDS.split())
_COMMANDS = frozenset(_COMMAND_WORDS.split())


def _opening(text: str) -> str:
    for word in _WORD.findall(text.lower()):
        if word not in _LEAD_INS:
            return str(word)
    return ""


def _tool_words(text: str, tools: Sequence[str]) -> float:
    if not tools:
        return 0.0
    words = set(_WORD.findall(text.lower()))
    named = 0
    for tool in tools:
        parts = _WORD.findall(tool.rpartition(".")[2].lower().replace("_", " "))
        named += bool(parts) and words.issuperset(parts)
    return named / len(tools)


TEMPLATE = "judge.j2"
_WINNERS = {"a": "A", "b": "B", "tie": "tie"}
_EXCERPT = 40


def make_request(
    template: PromptTemplate,
    number: int,
    criterion: str,
    first: str,
    second: str,
    meaning: str = "",
) -> ChatRequest:
    """Make the request that compares two texts by one criterion, for pair `number`.

    `meaning` says which text is better by a criterion of the user.

    Raises:
        InputError: the user's prompts/judge.j2 is broken.
    """
    return template.request(
        number,
        "judge",
        criterion=criterion,
        meaning=meaning,
        first=first,
        second=second,
    )


def read_winner(reply: ChatReply) -> str | Rejection:
    """Read "A", "B" or "tie" from a reply, or why it has none."""
    answer = check_finish(reply) or find_answer(reply.text, ["winner"])
    if isinstance(answer, Rejection):
        return answer
    said = str(answer["winner"]).strip()
    winner = _WINNERS.get(said.lower())
    return winner or Rejection(
        "wrong-schema", f"the winner is {one_line(said, _EXCERPT)!r}"
    )
