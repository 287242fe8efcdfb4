"""Write asks for every tool: many calls at once, folded in a fixed order."""

from __future__ import annotations

import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from toolbank.bank.records import Ask, Provenance, Tool, group_siblings
from toolbank.bank.split import CatalogueVersion
from toolbank.config.assets import find_asset
from toolbank.llm.accounts import join_reasons
from toolbank.llm.chat import (
    AskTask,
    ChatReply,
    ChatRequest,
    Engine,
    Rejection,
    check_finish,
    find_answer,
    find_objects,
    number_from_text,
)
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal
from toolbank.llm.step import (
    StepAnswer,
    StepResult,
    StepRun,
    run_step,
)
from toolbank.llm.templates import PromptTemplate
from toolbank.requests.asks import FEWEST_WORDS, AsksConfig, Kind
from toolbank.requests.write.bank_builder import Losses, describe_writer
from toolbank.requests.write.checks import TextChecker
from toolbank.requests.write.language import ask_in_language
from toolbank.requests.write.near_duplicates import NearDuplicates
from toolbank.requests.write.prompts import TYPICAL, brief
from toolbank.requests.write.text_step import TextLoss, TextStep, read_text
from toolbank.retrievers.lexical import LexicalIndex
from toolbank.system.errors import ToolbankError
from toolbank.system.numbers import count

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATOR = re.compile(r"[\W_]+")


class Neighbours:
    """The most similar tools by BM25 over name, summary and names of parameters.

    The first tool of each sibling group represents the group. Ties are ordered by name.
    """

    def __init__(self, groups: Sequence[Sequence[Tool]]) -> None:
        groups = sorted(groups, key=lambda group: group[0].name)
        self._tools = [group[0] for group in groups]
        self._places = {
            tool.name: place for place, group in enumerate(groups) for tool in group
        }
        self._index = LexicalIndex.of([_describe(tool) for tool in self._tools])

    def find(self, tool: Tool, k: int) -> list[Tool]:
        """Find up to `k` other groups that share a word, the most similar first."""
        own = self._places[tool.name]
        [scores] = self._index.scores([_describe(tool)])
        # They are ordered by name, which a stable sort keeps among ties.
        order = np.argsort(-scores, kind="stable")[: k + 1].tolist()
        return [
            self._tools[place] for place in order if place != own and scores[place] > 0
        ][:k]


def _describe(tool: Tool) -> str:
    parameters = tool.parameters.get("properties", {})
    text = "\n".join([tool.name, tool.summary or tool.description, *parameters])
    return _SEPARATOR.sub(" ", _HUMP.sub(" ", text))


TEMPLATE = "asks.j2"

_DESCRIPTION_CHARACTERS = 500


class AskPrompts:
    """The prompts of one run, one for each sibling group. `hash` is the hash of their template.

    All tools of the bank may be neighbours. A group that has not changed since an `earlier` version
    of the catalogue keeps its prompt, with the neighbours of that version.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        config: AsksConfig,
        domain: str,
        withheld: Collection[str] = (),
        earlier: Sequence[CatalogueVersion] = (),
    ) -> None:
        self.hash = find_asset("prompts", TEMPLATE).sha256
        self._config = config
        self._domain = domain
        self._template = PromptTemplate(TEMPLATE)
        self._newest = _Edition(tools, withheld)
        before = [_Edition(version.tools, withheld) for version in earlier]
        self._before = before[::-1]

    def ask(self, group: Sequence[Tool]) -> ChatRequest:
        """Make the request for the asks of a sibling group.

        Raises:
            InputError: the user's own template is broken.
        """
        config, shown = self._config, _show(group)
        edition, tool = self._newest, group[0]
        for before in self._before:
            former = before.groups.get(tool.name)
            if former is None or _show(former) != shown:
                break
            edition, tool = before, former[0]
        neighbours = edition.neighbours.find(tool, config.neighbours)
        request = self._template.request(
            number_from_text(tool.name),
            "ask",
            AskTask(group[0], config.keys),
            domain=self._domain,
            tool=shown,
            neighbours=[
                {"name": other.name, "summary": brief(other)["summary"]}
                for other in neighbours
            ],
            asks=[{"key": key, "kind": kind} for key, kind in config.keys.items()],
            instructions=config.instructions.strip(),
        )
        keys = list(config.keys)
        properties = {key: {"type": "string"} for key in keys}
        schema = {**request.schema, "properties": properties, "required": keys}
        return ask_in_language(replace(request, schema=schema), self._config.language)


def _drop_withheld(
    groups: Iterable[Sequence[Tool]], withheld: Collection[str]
) -> Iterator[tuple[Tool, ...]]:
    for group in groups:
        if left := tuple(tool for tool in group if tool.name not in withheld):
            yield left


class _Edition:
    """The sibling groups of one version, by their first tools, and their neighbours."""

    def __init__(self, tools: Sequence[Tool], withheld: Collection[str]) -> None:
        self._siblings = group_siblings(tools)
        groups = _drop_withheld(self._siblings, withheld)
        self.groups = {group[0].name: group for group in groups}

    @cached_property
    def neighbours(self) -> Neighbours:
        """The neighbours among all tools, withheld ones included."""
        return Neighbours(self._siblings)


def _show(group: Sequence[Tool]) -> dict[str, Any]:
    """What a prompt shows of a tool and its siblings."""
    tool = group[0]
    description = tool.description if tool.summary else ""
    return {
        "name": tool.name,
        "kind": tool.kind,
        **brief(tool),
        "siblings": [sibling.name for sibling in group[1:]],
        "description": textwrap.shorten(
            description, _DESCRIPTION_CHARACTERS, placeholder=" ..."
        ),
    }


_FEWEST_WORDS_TERSE = 3

Outcomes = Mapping[str, str | TextLoss]
"""What became of each ask of a reply, by its key: a text, or why there is none."""


def read_asks(reply: ChatReply, config: AsksConfig, checker: TextChecker) -> Outcomes:
    """Read the asks of a reply by their keys, or why each was not accepted.

    If the reply can't be read, all are rejected as `check_finish` and `find_answer` do. A single ask
    is rejected as `missing`, as `wrong-schema` if it is no text, or by the checks; an empty one is
    declined. No reply raises an error.
    """
    answer = check_finish(reply) or find_answer(reply.text, config.keys)
    if isinstance(answer, Rejection):
        lost = TextLoss("rejected", answer.reason, answer.detail)
        return dict.fromkeys(config.keys, lost)
    return {key: _read(answer, key, config, checker) for key in config.keys}


def _read(
    answer: Mapping[str, object], key: str, config: AsksConfig, checker: TextChecker
) -> str | TextLoss:
    if key not in answer:
        return TextLoss("rejected", "missing")
    least = _FEWEST_WORDS_TERSE if config.keys[key] == "terse" else FEWEST_WORDS
    return read_text(answer[key], checker, least, config.max_words)


@dataclass(frozen=True)
class AskSet:
    """The asks in the order of tools, and the content of asks.json."""

    asks: Sequence[Ask]
    content: dict[str, Any]


@dataclass
class AskBuilder:
    """The asks, tool by tool, and counts of how the texts of each kind ended.

    A text that siblings share counts once.
    """

    asks: list[Ask] = field(default_factory=list)
    not_accepted: list[dict[str, str]] = field(default_factory=list)
    losses: Losses = field(default_factory=Losses)
    by_kind: dict[str, Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )

    @property
    def accepted(self) -> int:
        """How many texts are accepted."""
        return sum(ended["accepted"] for ended in self.by_kind.values())

    @property
    def tools(self) -> int:
        """How many tools have an ask."""
        return len({ask.tool for ask in self.asks})


class AskStep(TextStep[str, AskSet]):
    """Request the asks of each sibling group in one call, independent of the others.

    `groups` are those of the bank's tools that are not withheld, or those that the engine provides.
    `earlier` are the versions of the catalogue before `tools`, as of `AskPrompts`. `fold` rejects
    near-duplicates of asks that were accepted before.

    Raises:
        InputError: the prompt isn't there.
    """

    config: AsksConfig
    what = "tools"
    done = "asked for"

    def __init__(
        self,
        tools: Sequence[Tool],
        config: AsksConfig,
        domain: str,
        seed: int,
        withheld: Collection[str] = (),
        earlier: Sequence[CatalogueVersion] = (),
        engine: Engine | None = None,
    ) -> None:
        groups: Sequence[Sequence[Tool]] = group_siblings(tools)
        if (own := getattr(engine, "groups", None)) is not None:
            by_name = {tool.name: tool for tool in tools}
            groups = [[by_name[name] for name in names] for names in own]
        self.groups = list(_drop_withheld(groups, withheld))
        super().__init__(config, len(self.groups), list(config.keys))
        self._n_tools = len(tools) - len(withheld)
        self._prompts = AskPrompts(tools, config, domain, withheld, earlier)
        self._checker = TextChecker(tools, self._find_examples(), config.language)
        self._seed = seed

    def _find_examples(self) -> list[str]:
        """Find the asks that the template gives as examples, as JSON."""
        if not self.groups:
            return []
        objects = find_objects(self.request(0).prompt)
        return [
            text for one in objects for text in map(str, one.values()) if " " in text
        ]

    def request(self, number: int) -> ChatRequest:
        """Make the request of a group."""
        return self._prompts.ask(self.groups[number])

    def read(self, number: int, reply: ChatReply) -> Outcomes:  # noqa: ARG002
        """Read the asks under their keys, and why others are missing."""
        return read_asks(reply, self.config, self._checker)

    def describe_text(self, text: str) -> str:
        """The ask."""
        return text

    def sample_answer(self) -> Mapping[str, Any]:
        """Make texts as long as a draft."""
        return dict.fromkeys(self.config.keys, TYPICAL.draft)

    def title(self, number: int) -> str:
        """Such as "asks for shop.find_orders"."""
        return f"asks for {self.groups[number][0].name}"

    def fold(self, run: StepRun) -> StepResult[AskSet]:
        """Collect the asks in the order of tools.

        Raises:
            ToolbankError: there is none.
        """
        engine = run.pool.engine
        built, groups = self._build(engine), len(self.answers)
        if not (built.accepted or run.waiting):
            look = (
                f"Look at what {engine.name} is asked and answers: toolbank show RUN with the name "
                "of a tool, toolbank preview RECIPE for what would be asked."
            )
            tried = count(groups, "reply", "replies")
            reasons = built.losses.list_reasons()
            raise ToolbankError(run.explain_nothing("an ask", tried, reasons, [look]))
        failed = built.losses.of["failed"]
        gone = self.total - groups + failed.total() // len(self.config.keys)
        kinds = [
            kind for kind in dict.fromkeys(self.config.kinds) if built.by_kind[kind]
        ]
        # Accepted + declined + rejected + failed = `per_tool` for each group.
        counts = {
            "groups": groups,
            "tools": built.tools,
            "accepted": built.accepted,
            **built.losses.counts(),
            "by_kind": {
                kind: dict(sorted(built.by_kind[kind].items())) for kind in kinds
            },
        }
        content = {
            **describe_writer(engine, self._prompts.hash),
            "counts": counts,
            "not_accepted": built.not_accepted,
        }
        message = f"{count(built.accepted, 'ask')} for {count(built.tools, 'tool')}"
        if built.tools > groups:
            message += f" ({groups:,} requested; siblings share theirs)"
        return StepResult(
            AskSet(built.asks, content),
            message,
            lacks=f"asks for {gone:,} of {self.total:,} tools" if gone else "",
            problems=tuple(self._list_problems(built, engine)),
            failed=join_reasons(failed),
        )

    def _build(self, engine: Engine) -> AskBuilder:
        built = AskBuilder()
        texts: list[str] = []
        seen = NearDuplicates(self.config.near_duplicate, texts.__getitem__)
        writers: list[str] = []
        for number, answer in sorted(self.answers.items()):
            group, kept = self.groups[number], list[tuple[Kind, str]]()
            first = group[0].name
            for key, one in self.outcomes(answer).items():
                kind = self.config.keys[key]
                if isinstance(one, str) and (like := seen.find_like(one)) is not None:
                    detail = f"like one of {writers[like]}: {texts[like]}"
                    one = TextLoss("rejected", "near-duplicate", detail)
                if isinstance(one, TextLoss):
                    built.by_kind[kind][one.outcome] += 1
                    built.losses.add(one.outcome, one.reason, one.detail)
                    lost = {"tool": first, "kind": kind, **asdict(one)}
                    built.not_accepted.append({**lost, "request": answer.keys[0]})
                else:
                    built.by_kind[kind]["accepted"] += 1
                    texts.append(one)
                    writers.append(first)
                    seen.add(one)
                    kept.append((kind, one))
            provenance = self._trace(group, answer, engine)
            built.asks += [
                Ask(tool=tool.name, kind=kind, ask=text, provenance=provenance)
                for tool in group
                for kind, text in kept
            ]
        return built

    def _trace(
        self, group: Sequence[Tool], answer: StepAnswer[Outcomes], engine: Engine
    ) -> Provenance:
        """Where the asks of a reply came from."""
        return Provenance(
            attempt=number_from_text(group[0].name),
            engine=engine.name,
            model=answer.model,
            prompt_hash=self._prompts.hash,
            seed=self._seed,
            requests=answer.keys,
        )

    def _list_problems(self, built: AskBuilder, engine: Engine) -> Iterator[str]:
        """What the user should know of asks that were made."""
        if said := built.losses.describe("rejected"):
            yield f"not accepted: {said}"
        declined = Counter({kind: n["declined"] for kind, n in built.by_kind.items()})
        if said := join_reasons(+declined):
            yield f"not written by {engine.name}: {said}"
        if without := self._n_tools - built.tools:
            yield f"without an ask: {count(without, 'tool')} of {self._n_tools:,}"
        missing: dict[str, int] = getattr(engine, "missing", {})
        if missing:
            yield (
                f"not in the bank: {count(len(missing), 'tool that has', 'tools that have')} "
                f"recorded asks, such as {min(missing)}; all are in asks.json"
            )
        unused: dict[str, int] = getattr(engine, "unused", {})
        if unused:
            asks = count(sum(unused.values()), "recorded ask")
            yield (
                f"not used: {asks} of {count(len(unused), 'tool')}, such as {next(iter(unused))}. "
                "Only the first line of a tool counts, up to asks.per_tool and of asks.kinds"
            )


def ask_for_tools(
    tools: Sequence[Tool],
    config: AsksConfig,
    *,
    domain: str,
    seed: int,
    journal: Journal,
    withheld: Collection[str] = (),
    earlier: Sequence[CatalogueVersion] = (),
) -> StepResult[AskSet]:
    """Generate asks for every tool that is not withheld, one call for each sibling group.

    A tool that did not change since an `earlier` version of the catalogue keeps its prompt. The
    result depends on the arguments and the journal alone, whatever the concurrency. Keys of the
    content: the writer (`engine`, `model`, `prompt_hash`, `missing_tools`), `counts`, and
    `not_accepted`, a row with the reason for each missing ask.

    Raises:
        InputError: the engine, its file or the prompt can't be used.
        ToolbankError: nothing that it writes can be used, the endpoint is down or refuses, or the
            run was interrupted. What was in flight has finished, and every reply is in the journal.
    """
    context = EngineContext(tools, seed, journal.path.parent)
    make_step = partial(AskStep, tools, config, domain, seed, withheld, earlier)
    return run_step(config, journal, context, make_step)
