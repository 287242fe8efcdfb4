"""Compare a bank's queries pairwise with their drafts or with another dataset's."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from toolbank.bank.bank import Bank
from toolbank.chat.chat import EngineError
from toolbank.journal import Journal
from toolbank.judge import heuristic
from toolbank.judge.config import Criterion, JudgeConfig
from toolbank.judge.engine import find_judge
from toolbank.judge.model import TEMPLATE, make_request, read_winner
from toolbank.judge.pairs import Pair, Side, draw_pairs
from toolbank.judge.summary import METHOD, Judgement, Verdict, summarise
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.json_answer import Rejection
from toolbank.llm.limits.stop import Stopped
from toolbank.llm.pool import Pool
from toolbank.llm.templates import PromptTemplate
from toolbank.system import aio
from toolbank.system.errors import Interrupted
from toolbank.system.numbers import count
from toolbank.system.shell import command

# The winner, "A" (the first text), "B" or "tie"; or why there is none.
_Answer = str | Rejection
_Ask = Callable[[int, Criterion, Side, Side], Awaitable[_Answer]]


@dataclass(frozen=True)
class Judged:
    """The content of judge.json, and for people what was done and what went wrong."""

    content: dict[str, Any]
    message: str
    problems: tuple[str, ...] = ()


def judge_bank(
    bank: Bank, config: JudgeConfig, *, seed: int, journal: Journal
) -> Judged:
    """Judge pairs in both orders by every criterion.

    Two verdicts that differ by order make a tie. Pairs of the same text twice are counted apart
    and judged by nobody. Keys of the content: `judge`, `heuristic`, `against`, `n` (pairs without
    those), `identical` (those), `method`, `criteria` (a summary each), `calls_failed` (any that a
    new run may mend) and `pairs` (ids, texts, the verdict of each order and the calls' keys in the
    journal).

    Raises:
        InputError: the other dataset, the prompt or the engine's settings can't be used.
        ToolbankError: the endpoint is down or refuses.
    """
    pairs = draw_pairs(bank, config, seed)
    return aio.run(_judge(pairs, config, seed, journal))


async def _judge(
    pairs: Sequence[Pair], config: JudgeConfig, seed: int, journal: Journal
) -> Judged:
    model: _ModelAsker | None = None
    kind = find_judge(config)
    if kind is None:
        name = heuristic.NAME
        rows = [
            await _judge_pair(number, pair, config, _ask_heuristic)
            for number, pair in enumerate(pairs)
        ]
        requests: Mapping[int, Sequence[str]] = {}
    else:
        pool = Pool(kind, config, journal, EngineContext(seed=seed))
        name = pool.engine.model
        rows, model = await _ask_model(pairs, config, pool, journal.path.parent)
        requests = model.requests
    identical = sum(pair.is_identical for pair in pairs)
    content: dict[str, Any] = {
        "judge": name,
        "heuristic": kind is None,
        "against": config.against if config.against == "draft" else config.against.name,
        "n": len(pairs) - identical,
        "identical": identical,
        "method": METHOD,
        **({} if kind else {"read_by_eye": heuristic.READ_BY_EYE}),
        "criteria": {
            criterion: asdict(summarise(row[position] for row in rows if row))
            for position, criterion in enumerate(config.criteria)
        },
        "calls_failed": model.calls_failed if model else 0,
        "pairs": [
            _describe(pair, row, requests.get(number, ()))
            for number, (pair, row) in enumerate(zip(pairs, rows, strict=True))
        ],
    }
    message = f"{count(len(pairs) - identical, 'pair')} by {name}"
    if identical:
        message += f", and {identical:,} of the same text twice that nobody judged"
    if model is None:
        return Judged(content, message)
    return Judged(content, f"{message}; {model.calls}", tuple(model.list_problems()))


async def _ask_model(
    pairs: Sequence[Pair], config: JudgeConfig, pool: Pool, folder: Path
) -> tuple[list[list[Judgement]], _ModelAsker]:
    """A model's judgements of each pair, and what asking it came to."""
    model = _ModelAsker(pool, folder)
    rows: list[list[Judgement]] = [[] for _ in pairs]
    with tqdm(total=len(pairs), desc="judge", unit="pair", disable=None) as bar:

        async def judge(number: int, pair: Pair) -> None:
            rows[number] = await _judge_pair(number, pair, config, model.ask)
            bar.update()

        waiting = (judge(number, pair) for number, pair in enumerate(pairs))
        async with pool.working():
            await pool.carry(lambda: next(waiting, None))
    if pool.stop.cause == "interrupt":
        raise Interrupted(
            "stopped in judge. Every verdict that came is kept; the same command goes on from "
            "there."
        )
    return rows, model


async def _judge_pair(
    number: int, pair: Pair, config: JudgeConfig, ask: _Ask
) -> list[Judgement]:
    """Judgements of one pair, one a criterion; none where its texts are the same."""
    if pair.is_identical:
        return []
    return [
        await _judge_by(criterion, number, pair, ask) for criterion in config.criteria
    ]


async def _judge_by(
    criterion: Criterion, number: int, pair: Pair, ask: _Ask
) -> Judgement:
    forward = await ask(number, criterion, pair.query, pair.other)
    backward = await ask(number, criterion, pair.other, pair.query)
    return Judgement(
        criterion,
        _verdict(forward, query_is="A"),
        _verdict(backward, query_is="B"),
        tuple(one.reason for one in (forward, backward) if isinstance(one, Rejection)),
    )


def _verdict(winner: _Answer, query_is: str) -> Verdict | None:
    if isinstance(winner, Rejection):
        return None
    if winner == "tie":
        return "tie"
    return "win" if winner == query_is else "lose"


async def _ask_heuristic(
    _: int, criterion: Criterion, first: Side, second: Side
) -> _Answer:
    features = (
        heuristic.read_features(first.text, first.tools),
        heuristic.read_features(second.text, second.tools),
    )
    return heuristic.compare(criterion, *features)


class _ModelAsker:
    """Asks a model through the journal and counts the calls that failed or were not made."""

    def __init__(self, pool: Pool, folder: Path) -> None:
        self.calls_failed = 0
        self.requests: defaultdict[int, list[str]] = defaultdict(list)
        self._pool = pool
        self._folder = folder
        self._template = PromptTemplate(TEMPLATE)
        self._last_failure = ""
        self._rejected: Counter[str] = Counter()

    @property
    def calls(self) -> str:
        """The counts of the calls in a line."""
        dollars = self._pool.dollars
        spent = "" if dollars is None else f", ${dollars:,.2f} in all"
        return f"{self._pool.counts.summary()}{spent}"

    def list_problems(self) -> Iterator[str]:
        """What the user should know of the verdicts."""
        stop = self._pool.stop
        if stop:
            yield f"stopped early: {stop.message}"
        if self.calls_failed:
            yield f"verdicts missing: {self.calls_failed:,}; the next run asks for them again"
        if self._last_failure:
            yield f"the last failure: {self._last_failure}"
        if self._rejected:
            counted = sorted(self._rejected.items(), key=lambda row: (-row[1], row[0]))
            reasons = ", ".join(f"{reason} {n:,}" for reason, n in counted)
            yield (
                f"replies without a verdict: {reasons}. They are in the journal, and are not asked "
                "for again. Those of one query, by its id:\n"
                f"  {command('show', self._folder)} ID"
            )

    async def ask(
        self, number: int, criterion: Criterion, first: Side, second: Side
    ) -> _Answer:
        request = make_request(
            self._template, number, criterion, first.text, second.text
        )
        self.requests[number].append(request.key(self._pool.engine.identity))
        try:
            with self._pool.attempt() as ask:
                reply = (await ask(request)).reply
        except EngineError as error:
            self.calls_failed += 1
            self._last_failure = str(error)
            return Rejection(error.reason, str(error))
        except Stopped:
            self.calls_failed += 1
            return Rejection(self._pool.stop.cause or "budget")
        winner = read_winner(reply)
        if isinstance(winner, Rejection):
            self._rejected[winner.reason] += 1
        return winner


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
