"""Find the tools of a second call: those that the grader names freely, and neighbours of others."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from toolbank.llm.chat import ChatReply, Rejection, find_answer
from toolbank.requests.verify import OTHERS
from toolbank.requests.verify.directions import Directions, fuse, merge_rankings
from toolbank.system.terminal import one_line

if TYPE_CHECKING:
    from toolbank.bank.bank import Bank

_MOST_ANSWERS = 6
_LONGEST = 200
_SAME_NAME = 5
_LIKE = 0.85
_FEWEST_AGREEING = 2
_TOP = 5
_MOST_MATCHED = 3

MatchKind = Literal["name", "description", "none"]


class FreeAnswer(NamedTuple):
    """A tool that a grader misses among the candidates: its name, "" if unknown, and what it does."""

    tool: str
    does: str = ""


def read_free_answers(reply: ChatReply) -> list[FreeAnswer]:
    """Read the free answers of a reply whose grades can be read; others are skipped."""
    answer = find_answer(reply.text, ["needed", "aside"])
    rows = [] if isinstance(answer, Rejection) else answer.get(OTHERS)
    if not isinstance(rows, list):
        return []
    found = dict.fromkeys(map(_read, rows))
    return [one for one in found if one.tool or one.does][:_MOST_ANSWERS]


def _read(row: Any) -> FreeAnswer:
    content = row if isinstance(row, Mapping) else {"tool": row}
    texts = (content.get(key) for key in FreeAnswer._fields)
    return FreeAnswer(
        *(one_line(text, _LONGEST) if isinstance(text, str) else "" for text in texts)
    )


@dataclass(frozen=True)
class FoundTools:
    """The tools of a second call, with the directions that found each, and how answers `matched`."""

    tools: dict[str, tuple[str, ...]]
    matched: dict[MatchKind, int]


class FurtherTools:
    """Finds what a second call grades.

    `directions` fits retrievers, and is called once a reply needs what is not among the `known` of
    an earlier round. `found` has what this round needed. `tools_id` identifies the bank's tools.
    """

    def __init__(
        self,
        bank: Bank,
        directions: Callable[[], Directions],
        tools_id: str = "",
        known: Mapping[str, FoundTools] | None = None,
    ) -> None:
        self.found: dict[str, FoundTools] = {}
        self._tools_id, self._known = tools_id, known or {}
        self._directions = directions
        self._index = bank.index
        self._own = bank.tool_names
        self._last: defaultdict[str, list[str]] = defaultdict(list)
        for name in self._own:
            self._last[_last(name)].append(name)

    def find(
        self,
        needed: Sequence[str],
        labels: Collection[str],
        shown: Collection[str],
        most: int,
        answers: Sequence[FreeAnswer] = (),
    ) -> FoundTools:
        """Find up to `most` tools that were not shown.

        They are the tools that match free answers, then neighbours of the tools that are needed
        and no labels, whose neighbours are no candidates yet. Also counts how answers matched.
        """
        names = [needed, sorted(labels), sorted(shown)]
        content = json.dumps([self._tools_id, *names, most, answers])
        key = hashlib.sha256(content.encode()).hexdigest()[:16]
        if key not in self.found:
            self.found[key] = self._known.get(key) or self._find(
                needed, labels, shown, most, answers
            )
        return self.found[key]

    def _find(
        self,
        needed: Sequence[str],
        labels: Collection[str],
        shown: Collection[str],
        most: int,
        answers: Sequence[FreeAnswer],
    ) -> FoundTools:
        kinds: Counter[MatchKind] = Counter()
        found: dict[str, tuple[str, ...]] = {}
        for answer in answers:
            names, kind = self.match(answer)
            kinds[kind] += 1
            found |= {name: (f"free-{kind}",) for name in names if name not in shown}
        found = dict(list(found.items())[:most])
        beyond = [name for name in needed if name not in labels]
        near = [self._directions().near(name) for name in beyond]
        more = merge_rankings([(1.0, near)], most - len(found), {*shown, *found})
        return FoundTools(found | more, dict(kinds))

    def match(self, answer: FreeAnswer) -> tuple[list[str], MatchKind]:
        """Match a free answer to tools of the catalogue: by name, or else by description."""
        if names := list(self._match_name(answer.tool)):
            return names, "name"
        text = answer.does or (answer.tool if " " in answer.tool else "")
        if names := self._match_description(text):
            return names, "description"
        return [], "none"

    def _match_name(self, said: str) -> Iterator[str]:
        """Match the exact name, or else the same last name, or else one that is spelt alike."""
        said = said.strip("`'\" ").removesuffix("()")
        if said in self._index:
            yield self._own[self._index[said]]
            return
        if not said or " " in said:
            return
        if same := self._last.get(_last(said)):
            yield from sorted(same, key=lambda name: (-_compare(said, name), name))[
                :_SAME_NAME
            ]
            return
        for name in self._directions().find_alike(said)[:_SAME_NAME]:
            if _compare(_last(said), _last(name)) >= _LIKE:
                yield name

    def _match_description(self, text: str) -> list[str]:
        """Match tools that two directions have among their first hits for a text."""
        if not text:
            return []
        [hits] = self._directions().find_hits([text])
        times = Counter(name for one in hits.values() for name in one[:_TOP])
        agreed = [name for name in fuse(hits) if times[name] >= _FEWEST_AGREEING]
        return agreed[:_MOST_MATCHED]


def _last(name: str) -> str:
    return name.rpartition(".")[2].lower()


def _compare(name: str, other: str) -> float:
    return SequenceMatcher(None, name.lower(), other.lower()).ratio()
