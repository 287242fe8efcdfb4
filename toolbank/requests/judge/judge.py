"""Compare a bank's queries pairwise with their drafts or with another dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count as count_from
from pathlib import Path
from typing import Any

from toolbank.bank.bank import Bank
from toolbank.llm.chat import ChatRequest, EngineError, Rejection
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal
from toolbank.llm.pool import Carrier, FailuresInARow, Pool
from toolbank.llm.progress import describe_spent, show_progress
from toolbank.llm.templates import PromptTemplate
from toolbank.requests.judge.judges import (
    NAME,
    READ_BY_EYE,
    TEMPLATE,
    JudgeConfig,
    compare,
    find_judge,
    make_request,
    read_features,
    read_winner,
)
from toolbank.requests.judge.summary import (
    METHOD,
    Judgement,
    Pair,
    Verdict,
    compare_lengths,
    draw_pairs,
    summarise,
)
from toolbank.system import aio
from toolbank.system.errors import Interrupted, ToolbankError
from toolbank.system.numbers import count
from toolbank.system.terminal import command

ORDERS = 2
"""In how many orders a pair is shown: its query first, then second."""

Answer = str | Rejection
"""The winner, "A" (the first text), "B" or "tie"; or why there is none."""


@dataclass(frozen=True)
class Answers:
    """What a model said: answers and keys in the journal by pair, criteria with both orders in turn.

    `failed` counts those without a reply, for which another run may have one. `waiting` says what
    the user has to do before replies come, "" where none are waited for.
    """

    of: Sequence[Sequence[Answer]]
    keys: Sequence[Sequence[str]]
    failed: int
    spent: str
    problems: tuple[str, ...]
    waiting: str


class Asker:
    """Asks for all verdicts through the journal, in any order and as often as is needed."""

    def __init__(
        self, pool: Pool, pairs: Sequence[Pair], config: JudgeConfig, folder: Path
    ) -> None:
        self._pool = pool
        self._pairs = pairs
        self._config = config
        self._folder = folder
        template = PromptTemplate(TEMPLATE)
        self._calls: list[tuple[int, ChatRequest]] = [
            (number, make_request(template, number, criterion, first, second))
            for number, pair in enumerate(pairs)
            if not pair.is_identical
            for criterion in config.criteria
            for first, second in (
                (pair.query.text, pair.other.text),
                (pair.other.text, pair.query.text),
            )
        ]
        self._answers: dict[int, Answer] = {}
        self._failed: dict[int, Rejection] = {}
        self._failures = FailuresInARow(pool)

    async def ask(self) -> Answers:
        """Have every call answered that the journal doesn't hold.

        Raises:
            Interrupted: the user stopped it; every verdict that came is kept.
            ToolbankError: the endpoint is down or refuses, or the journal can't be written.
        """
        pool, total = self._pool, len(self._calls)
        numbers = count_from()

        def begin() -> int | None:
            number = next(numbers)
            return number if number < total else None

        def progress() -> tuple[int, int]:
            return len(self._answers) + len(self._failed), len(self._failed)

        carrier = Carrier(pool, self._ask_one, begin)
        async with pool.working():
            with show_progress("verdicts", progress, pool, total):
                waiting = await carrier.work()
        if pool.stop.cause == "interrupt":
            raise Interrupted(
                "stopped in judge. Every verdict that came is kept; the same command goes on from "
                "there."
            )
        if self._failed and not self._answers and not waiting:
            last = list(self._failed.values())[-1].detail
            raise ToolbankError(
                f"judge: no call was answered ({count(len(self._failed), 'call')}), the last with: "
                f"{last} Run the same command again when the endpoint answers."
            )
        gone = Rejection(pool.stop.cause or "budget")
        answers: list[list[Answer]] = [[] for _ in self._pairs]
        keys: list[list[str]] = [[] for _ in self._pairs]
        for call, (number, request) in enumerate(self._calls):
            found = self._answers.get(call) or self._failed.get(call, gone)
            answers[number].append(found)
            keys[number].append(request.key(pool.engine.identity))
        failed = total - len(self._answers)
        pending = carrier.pending if waiting else 0
        return Answers(
            answers,
            keys,
            failed,
            describe_spent(pool),
            tuple(self._list_problems(failed, pending)),
            waiting,
        )

    async def _ask_one(self, call: int) -> None:
        request = self._calls[call][1]
        try:
            with self._pool.attempt() as ask:
                reply = (await ask(request)).reply
        except EngineError as error:
            if error.fatal:
                raise
            self._failures.add(error)
            self._failed[call] = Rejection(error.reason, str(error))
            return
        self._failures.end()
        self._answers[call] = read_winner(reply)

    def _list_problems(self, failed: int, pending: int) -> Iterator[str]:
        """What the user should know of the verdicts."""
        stop = self._pool.stop
        if stop:
            yield f"stopped early: {stop.message}"
        if pending:
            yield f"{count(pending, 'verdict waits', 'verdicts wait')} for a reply"
        elif failed:
            yield f"verdicts missing: {failed:,}; the next run asks for them again"
        if self._failed:
            yield f"the last failure: {list(self._failed.values())[-1].detail}"
        rejected = Counter(
            one.reason for one in self._answers.values() if isinstance(one, Rejection)
        )
        if rejected:
            counted = sorted(rejected.items(), key=lambda row: (-row[1], row[0]))
            reasons = ", ".join(f"{reason} {n:,}" for reason, n in counted)
            yield (
                f"replies without a verdict: {reasons}. They are in the journal, and are not asked "
                "for again. Those of one query, by its id:\n"
                f"  {command('show', self._folder)} ID"
            )


@dataclass(frozen=True)
class Judged:
    """The content of judge.json, and for people what was done and what went wrong.

    `waiting` is what the user has to do before more replies come, "" where none are waited for.
    """

    content: dict[str, Any]
    message: str
    problems: tuple[str, ...] = ()
    waiting: str = ""


def judge_bank(
    bank: Bank, config: JudgeConfig, *, seed: int, journal: Journal
) -> Judged:
    """Judge pairs in both orders by every criterion.

    Two verdicts that differ by order make a tie. Pairs of the same text twice are counted apart
    and judged by nobody. Keys of the content: `judge`, `heuristic`, `against`, `n` (pairs without
    those), `identical` (those), `method`, `criteria` (a summary each), `calls_failed` (any that a
    new run may mend), `lengths` (wins by how much longer the query is) and `pairs` (ids, texts, the
    verdict of each order and the calls' keys in the journal).

    Raises:
        InputError: the other dataset, the prompt or the engine's settings can't be used.
        ToolbankError: the endpoint is down or refuses.
    """
    pairs = draw_pairs(bank, config, seed)
    kind = find_judge(config)
    asked: Answers | None = None
    if kind is None:
        name = NAME
        answers: Sequence[Sequence[Answer]] = [
            _ask_heuristic(pair, config) for pair in pairs
        ]
    else:
        pool = Pool(kind, config, journal, EngineContext(seed=seed))
        name = pool.engine.model
        asked = aio.run(Asker(pool, pairs, config, journal.path.parent).ask())
        answers = asked.of
    rows = [_read_judgements(config, given) for given in answers]
    identical = sum(pair.is_identical for pair in pairs)
    content: dict[str, Any] = {
        "judge": name,
        "heuristic": kind is None,
        "against": config.against if config.against == "draft" else config.against.name,
        "n": len(pairs) - identical,
        "identical": identical,
        "method": METHOD,
        **({} if kind else {"read_by_eye": READ_BY_EYE}),
        "criteria": {
            criterion: asdict(summarise(row[position] for row in rows if row))
            for position, criterion in enumerate(config.criteria)
        },
        "lengths": [asdict(part) for part in compare_lengths(pairs, rows)],
        "calls_failed": asked.failed if asked else 0,
        "pairs": [
            _describe(pair, row, asked.keys[number] if asked else ())
            for number, (pair, row) in enumerate(zip(pairs, rows, strict=True))
        ],
    }
    message = f"{count(len(pairs) - identical, 'pair')} by {name}"
    if identical:
        message += f", and {identical:,} of the same text twice that nobody judged"
    problems: tuple[str, ...] = ()
    if not pairs:
        problems = (
            "no request has a draft; name with judge.against what to hold the requests against",
        )
    if asked is None:
        return Judged(content, message, problems)
    return Judged(
        content,
        f"{message}; {asked.spent}",
        (*problems, *asked.problems),
        asked.waiting,
    )


def keep_comparisons(
    content: dict[str, Any], earlier: Mapping[str, Any], bank: Bank
) -> dict[str, Any]:
    """The content of judge.json with the comparisons of an earlier one, as `others`.

    A comparison is the same where one judge compared the same texts by the same criteria, and was
    asked the same, with one prompt and seed; then the new one replaces it. `stale` marks those whose requests the bank doesn't have any more.
    """
    before = [earlier, *earlier.get("others", ())] if earlier else []
    new = _identify(content)
    texts = {query.query for query in bank.queries}
    others = [
        {
            **{key: one[key] for key in one if key not in ("others", "calls")},
            "stale": any(pair["query"] not in texts for pair in one["pairs"]),
        }
        for one in before
        if _identify(one) != new
    ]
    return {**content, **({"others": others} if others else {})}


def _identify(content: Mapping[str, Any]) -> tuple[Any, ...]:
    pairs = [
        (pair["query"], pair["other"], *pair.get("requests", ()))
        for pair in content["pairs"]
    ]
    return content["judge"], content["against"], [*content["criteria"]], pairs


def _ask_heuristic(pair: Pair, config: JudgeConfig) -> list[Answer]:
    if pair.is_identical:
        return []
    query, other = (
        read_features(side.text, side.tools) for side in (pair.query, pair.other)
    )
    return [
        compare(criterion, *both)
        for criterion in config.criteria
        for both in ((query, other), (other, query))
    ]


def _read_judgements(config: JudgeConfig, answers: Sequence[Answer]) -> list[Judgement]:
    """Judgements of one pair, one a criterion; none where its texts are the same."""
    if not answers:
        return []
    orders = zip(answers[::ORDERS], answers[1::ORDERS], strict=True)
    return [
        Judgement(
            criterion,
            _verdict(forward, query_is="A"),
            _verdict(backward, query_is="B"),
            tuple(
                one.reason for one in (forward, backward) if isinstance(one, Rejection)
            ),
        )
        for criterion, (forward, backward) in zip(config.criteria, orders, strict=True)
    ]


def _verdict(winner: Answer, query_is: str) -> Verdict | None:
    if isinstance(winner, Rejection):
        return None
    if winner == "tie":
        return "tie"
    return "win" if winner == query_is else "lose"


def _describe(
    pair: Pair, judgements: Sequence[Judgement], requests: Sequence[str]
) -> dict[str, Any]:
    return {
        "query_id": pair.query.id,
        "other_id": pair.other.id,
        "query": pair.query.text,
        "other": pair.other.text,
        "verdicts": {
            row.criterion: {
                "query_first": row.forward,
                "query_second": row.backward,
                "verdict": row.verdict,
            }
            for row in judgements
        },
        "requests": list(requests),
    }
