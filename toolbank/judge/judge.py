"""Compare a bank's queries pairwise with their drafts or with another dataset's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from toolbank.bank.bank import Bank
from toolbank.judge import heuristic
from toolbank.judge.asker import ORDERS, Answer, Answers, Asker
from toolbank.judge.config import JudgeConfig
from toolbank.judge.engine import find_judge
from toolbank.judge.lengths import compare_lengths
from toolbank.judge.pairs import Pair, draw_pairs
from toolbank.judge.summary import METHOD, Judgement, Verdict, summarise
from toolbank.llm.chat import Rejection
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal
from toolbank.llm.pool import Pool
from toolbank.system import aio
from toolbank.system.numbers import count


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
        name = heuristic.NAME
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
        **({} if kind else {"read_by_eye": heuristic.READ_BY_EYE}),
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
        heuristic.read_features(side.text, side.tools)
        for side in (pair.query, pair.other)
    )
    return [
        heuristic.compare(criterion, *both)
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
