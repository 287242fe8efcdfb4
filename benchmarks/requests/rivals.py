"""Which share of known rivals is among the tools that `verify` grades, by direction and by budget.

    python benchmarks/requests/rivals.py TOOLS RIVALS --requests REQUESTS... [--asks ASKS] [--few 60]
        [--free ANSWERS]

No model is called. TOOLS is a tools.parquet, or a JSONL file of tools. REQUESTS are JSONL files with
id, query, tools and explanation, or a queries.parquet; ASKS has tool and asks. RIVALS has a line a
request: query, needed and may_stand_in (as graded), and the rivals that a reader of the whole
catalogue names: better, as_good and missing. Each request is left out of the Tool2Vec vectors that
rank for it, except from those of its own labels.

The second call is that of a grader who finds needed what RIVALS says. `--few` keeps so many
requests, those with rivals first, and no asks: what a new user has. ANSWERS has a line a request:
query and others, the answers to the free question, which no figure has without this file.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from development import read_rows

from toolbank.bank.bank import Bank
from toolbank.bank.files import read_queries, read_tools
from toolbank.bank.ranking import wilson_interval
from toolbank.bank.records import Ask, Query, Tool
from toolbank.llm.chat import estimate_tokens
from toolbank.requests.verify import VerifyConfig
from toolbank.requests.verify.candidates import pool_requests
from toolbank.requests.verify.directions import (
    Directions,
    Group,
    own_labels,
    share_out,
)
from toolbank.requests.verify.further import FreeAnswer, FurtherTools
from toolbank.requests.verify.grade_step import VerifyPrompts

KINDS = ("better", "as_good", "missing")
BUDGETS = (20, 40, 60, 80)
BEFORE = 20
DEFAULTS = VerifyConfig()


def read_bank(given: argparse.Namespace) -> Bank:
    """The tools, requests and asks."""
    if given.tools.suffix == ".jsonl":
        tools = tuple(Tool.model_validate(row) for row in read_rows(given.tools))
    else:
        tools = read_tools(given.tools)
    index = Bank(tools).index
    queries: list[Query] = []
    for path in given.requests:
        if path.suffix == ".parquet":
            queries += read_queries(path)
            continue
        queries += [
            Query(
                id=row["id"],
                query=row["query"],
                tools=tuple(row["tools"]),
                explanation=row["explanation"],
            )
            for row in read_rows(path)
            if row["query"] and all(name in index for name in row["tools"])
        ]
    asks = [
        Ask(tool=row["tool"], kind="plain", ask=ask)
        for row in (read_rows(given.asks) if given.asks else ())
        if row["tool"] in index
        for ask in row["asks"]
    ]
    return Bank(tools, tuple(queries), asks=tuple(asks))


def describe(found: int, of: int) -> str:
    """A share in percent, and its 95 % Wilson interval."""
    if not of:
        return "-"
    low, high = wilson_interval(found, of)
    return f"{100 * found / of:5.1f} ({100 * low:.0f} to {100 * high:.0f})"


class Rivals:
    """The rivals of each request, by its id."""

    def __init__(self, bank: Bank, rows: list[dict]) -> None:
        ids = {query.query: query.id for query in bank.queries}
        self.rows = {ids[row["query"]]: row for row in rows if row["query"] in ids}
        own = {tool.name for tool in bank.tools}
        self.of = {
            query: {
                kind: {
                    bank.tools[bank.index[name]].name
                    for name in row[kind]
                    if name in bank.index
                }
                for kind in KINDS
            }
            for query, row in self.rows.items()
        }
        assert all(names <= own for of in self.of.values() for names in of.values())

    def recall(self, pools: dict[str, set[str]], kinds: tuple[str, ...] = KINDS) -> str:
        """The share of rivals in the pools."""
        pairs = [
            (names, pools[q])
            for q, of in self.of.items()
            for k in kinds
            for names in [of[k]]
        ]
        found = sum(len(names & pool) for names, pool in pairs)
        return describe(found, sum(len(names) for names, _ in pairs))


def report(bank: Bank, rows: list[dict], answers: dict[str, list]) -> None:
    """Print all figures of a bank."""
    rivals = Rivals(bank, rows)
    queries = [q for q in bank.queries if q.id in rivals.of]
    directions = Directions(bank)
    n = {kind: sum(len(of[kind]) for of in rivals.of.values()) for kind in KINDS}
    print(
        f"\n{len(bank.tools):,} tools, {len(bank.queries)} requests, {len(bank.asks):,} asks; "
        f"{len(queries)} requests read, rivals: {n}"
    )
    labels = {query.id: own_labels(bank, query) for query in queries}
    groups = dict(zip(labels, directions.group(queries), strict=True))

    print(f"{'each direction alone':24s}" + "".join(f"{b:>20d}" for b in BUDGETS))
    for direction, of in rank_alone(groups, labels).items():
        shares = [
            rivals.recall({q: {*of.get(q, ())[:b]} for q in labels}) for b in BUDGETS
        ]
        print(f"  {direction:22s}" + "".join(f"{share:>20s}" for share in shares))

    prompts = VerifyPrompts(bank, "this API", 0)
    before: dict[str, set[str]] = {}
    tokens = 0
    for query in queries:
        [whole] = groups[query.id][-1][1]
        both = (*whole["bm25"][:BEFORE], *whole["tool2vec"][:BEFORE])
        before[query.id] = {*labels[query.id], *both}
        tokens += estimate_tokens(
            prompts.ask(query, sorted(before[query.id]), again=True).prompt
        )
    print("pooled: recall of all; of missing; mean candidates; tokens of prompts")
    size = sum(map(len, before.values())) / len(queries)
    print(
        f"  20 of bm25, 20 of tool2vec  {rivals.recall(before)}  "
        f"{rivals.recall(before, ('missing',))}  {size:.1f} candidates, "
        f"{tokens / len(queries):,.0f} tokens"
    )
    share = DEFAULTS.second_call / (DEFAULTS.candidates + DEFAULTS.second_call)
    for total in BUDGETS:
        for second in (0, round(total * share)):
            pool(directions, rivals, queries, (total - second, second), tokens, answers)


def rank_alone(
    groups: dict[str, list[Group]], labels: dict[str, tuple[str, ...]]
) -> dict[str, dict[str, list[str]]]:
    """The tools that each direction alone finds for each request, best first."""
    ranked: dict[str, dict[str, list[str]]] = {}
    for query, of in groups.items():
        lists: dict[str, list[Sequence[str]]] = {}
        for rankings in (one for _, sources in of for one in sources):
            for direction, ranking in rankings.items():
                lists.setdefault(direction, []).append(ranking)
        for direction, own in lists.items():
            found = share_out([(1, own)], BUDGETS[-1], labels[query])
            ranked.setdefault(direction, {})[query] = found
    return ranked


def pool(
    directions: Directions,
    rivals: Rivals,
    queries: list[Query],
    budget: tuple[int, int],
    before: int,
    answers: dict[str, list],
) -> None:
    """Print the recall of pools with a budget for each round."""
    bank, further = directions.bank, FurtherTools(directions.bank, lambda: directions)
    prompts = VerifyPrompts(bank, "this API", 0)
    first, second = budget
    shown = pool_requests(directions, queries, first)
    pools: dict[str, set[str]] = {}
    told: dict[str, set[str]] = {}
    sizes, tokens, rounds = 0, 0, 0
    for query in queries:
        row, one = rivals.rows[query.id], [c.tool for c in shown[query.id]]
        # A grader can grade only what is shown.
        needed = [name for name in row["needed"] if name in one]
        graded = [*needed, *(name for name in row["may_stand_in"] if name in one)]
        find = partial(further.find, needed, own_labels(bank, query), one, second)
        more = find().tools
        texts = [prompts.ask(query, one).prompt]
        if more:
            texts.append(prompts.ask(query, [*graded, *more], again=True).prompt)
        pools[query.id] = {*one, *more}
        free = [FreeAnswer(**answer) for answer in answers.get(query.query, ())]
        told[query.id] = {*one, *find(free).tools}
        sizes += len(pools[query.id])
        tokens += sum(map(estimate_tokens, texts))
        rounds += bool(more)
    n = len(queries)
    print(
        f"  {first:2d} + {second:2d}  {rivals.recall(pools)}  {rivals.recall(pools, ('missing',))}"
        f"  {sizes / n:.1f} candidates, {tokens / n:,.0f} tokens ({tokens / before:.2f} times), "
        f"{100 * rounds / n:.0f} % with a second call"
    )
    if answers and second:
        print(f"           with free answers {rivals.recall(told)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tools", type=Path)
    parser.add_argument("rivals", type=Path)
    parser.add_argument("--requests", type=Path, nargs="+", required=True)
    parser.add_argument("--asks", type=Path)
    parser.add_argument("--few", type=int, default=60)
    parser.add_argument("--free", type=Path)
    given = parser.parse_args()
    bank, rows = read_bank(given), read_rows(given.rivals)
    answers = {
        row["query"]: row["others"]
        for row in (read_rows(given.free) if given.free else ())
    }
    report(bank, rows, answers)
    texts = {row["query"] for row in rows}
    queries = sorted(
        bank.queries, key=lambda query: (query.query not in texts, query.id)
    )
    if len(queries) > given.few:
        few = tuple(queries[: max(given.few, len(texts))])
        report(replace(bank, queries=few, asks=()), rows, answers)


if __name__ == "__main__":
    main()
