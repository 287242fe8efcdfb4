"""Verify the labels of a bank by checks and by the grades of people and models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from toolbank.bank.bank import Bank, GraderKind, Label
from toolbank.bank.files import read_records, write_records
from toolbank.bank.records import Query, Tool
from toolbank.config.assets import find_asset
from toolbank.llm.accounts import join_reasons
from toolbank.llm.chat import (
    ChatReply,
    ChatRequest,
    Engine,
    Rejection,
    VerifyTask,
    number_from_text,
)
from toolbank.llm.engines import find_model
from toolbank.llm.engines.kind import EngineContext
from toolbank.llm.journal import Journal
from toolbank.llm.step import (
    SAMPLE_SIZE,
    SampleCalls,
    Step,
    StepResult,
    StepRun,
    StepSample,
    run_step,
)
from toolbank.llm.templates import PromptTemplate
from toolbank.requests.engines import read_grades_file
from toolbank.requests.verify import CHECKS_ALONE, VerifyConfig
from toolbank.requests.verify.candidates import (
    Candidate,
    Finding,
    check_labels,
    pool_candidates,
    select_findings,
)
from toolbank.requests.verify.gradings import (
    GRADES,
    Grading,
    add_gradings,
    choose_gradings,
    compare_graders,
    fold_labels,
    grade_by_dataset,
    is_of_checks,
    last_of_sources,
    make_grading,
    measure_agreement,
    read_grades,
    read_gradings,
    write_gradings,
)
from toolbank.requests.write.prompts import SAMPLE_REASON, brief, sample_drafts
from toolbank.system.numbers import count

TEMPLATE = "verify.j2"


class VerifyPrompts:
    """The prompts of one run. `hash` is the hash of their template."""

    def __init__(self, bank: Bank, domain: str, seed: int) -> None:
        self.hash = find_asset("prompts", TEMPLATE).sha256
        self._bank = bank
        self._domain = domain
        self._seed = seed
        self._template = PromptTemplate(TEMPLATE)

    def ask(self, query: Query, candidates: Sequence[Candidate]) -> ChatRequest:
        """Make the request that grades a request's candidates, shuffled and without its labels.

        Raises:
            InputError: the user's own template is broken.
        """
        names = [row.tool for row in candidates]
        Random(f"{self._seed}:verify:{query.id}").shuffle(names)
        tools = [self._bank.tools[self._bank.index[name]] for name in names]
        request = self._template.request(
            number_from_text(query.query),
            "verify",
            VerifyTask(query.id, tuple(names)),
            domain=self._domain,
            request=query.query,
            tools=[brief(tool) for tool in tools],
        )
        return replace(request, stricter=_name_tools(request.schema, names))


def _name_tools(schema: Any, names: Sequence[str]) -> Any:
    """Allow only the candidates' names where the schema asks for a tool."""
    if isinstance(schema, list):
        return [_name_tools(one, names) for one in schema]
    if not isinstance(schema, dict):
        return schema
    named = {key: _name_tools(value, names) for key, value in schema.items()}
    for key in ("tool", "for"):
        if isinstance(named.get(key), dict):
            named[key] = {**named[key], "enum": list(names)}
    return named


def sample_grades(
    tools: Sequence[Tool], config: VerifyConfig, domain: str, seed: int, queries: int
) -> StepSample:
    """Sample gradings of drafts over random tools, as many as there are candidates at most.

    Raises:
        InputError: the prompt or an example can't be used.
    """
    prompts = VerifyPrompts(Bank(tuple(tools)), domain, seed)
    most = min(2 * config.candidates, len(tools))
    requests = []
    for number, draft in enumerate(sample_drafts(domain)[:SAMPLE_SIZE]):
        shown = Random(f"{seed}:plan:{number}").sample(range(len(tools)), most)
        candidates = [
            Candidate(query="", key="", tool=tools[place].name, found_by=())
            for place in shown
        ]
        query = Query(id=str(number), query=draft.draft, tools=())
        requests.append(prompts.ask(query, candidates))
    label = {"tool": "module.function", "for": "module.function", "why": SAMPLE_REASON}
    answer = {"needed": [label] * 3, "alternatives": [label] * 2, "aside": ""}
    calls = SampleCalls("verify", requests, [answer], "verify")
    return StepSample(queries, (calls,))


@dataclass(frozen=True)
class Grades:
    """The gradings by an engine, and their part of verify.json."""

    gradings: Sequence[Grading] = ()
    content: Mapping[str, Any] = field(default_factory=dict)


class GradeStep(Step[tuple[Label, ...], Grades]):
    """Grade requests independently of each other; `by` is the kind of grader.

    An engine with its own `queries` grades only these, and may name any tool of the bank.

    Raises:
        InputError: the prompt isn't there.
    """

    done = "graded"

    def __init__(
        self,
        bank: Bank,
        candidates: Mapping[str, Sequence[Candidate]],
        config: VerifyConfig,
        domain: str,
        seed: int,
        engine: Engine,
        by: GraderKind,
    ) -> None:
        brought: Collection[str] | None = getattr(engine, "queries", None)
        self._queries = [
            query for query in bank.queries if brought is None or query.id in brought
        ]
        super().__init__(config, len(self._queries))
        self._by = by
        self._source = engine.model
        self._tools = bank.index.keys() if brought is not None else None
        self._prompts = VerifyPrompts(bank, domain, seed)
        self._candidates = candidates
        self._dropped: Counter[str] = Counter()

    def request(self, number: int) -> ChatRequest:
        """Make the request that grades a request."""
        query = self._queries[number]
        return self._prompts.ask(query, self._candidates[query.id])

    def read(self, number: int, reply: ChatReply) -> tuple[Label, ...] | Rejection:
        """Read the labels of a request."""
        query = self._queries[number]
        tools = self._tools or {row.tool for row in self._candidates[query.id]}
        graded = read_grades(reply, query.id, tools)
        if isinstance(graded, Rejection):
            return graded
        labels, dropped = graded
        self._dropped.update(one.reason for one in dropped)
        return labels

    def fold(self, run: StepRun) -> StepResult[Grades]:  # noqa: ARG002
        """Make a grading of each request whose reply can be read."""
        gradings: list[Grading] = []
        lost: list[dict[str, str]] = []
        for number, answer in sorted(self.answers.items()):
            query, value = self._queries[number], answer.value
            if isinstance(value, Rejection):
                lost.append({"query": query.id, **asdict(value)})
                continue
            key = next((row.key for row in self._candidates[query.id]), "")
            gradings.append(
                make_grading(query.id, query.query, self._by, self._source, value, key)
            )
        content = {
            "model": self._source,
            "prompt_hash": self._prompts.hash,
            "not_graded": lost,
            "dropped_alternatives": dict(sorted(self._dropped.items())),
        }
        gone = self.total - len(self.answers) + self.failures.total()
        why = join_reasons(Counter(row["reason"] for row in lost))
        problems = [f"not graded, their labels are unchanged: {why}"] if why else []
        if self._dropped:
            problems.append(f"alternatives dropped: {join_reasons(self._dropped)}")
        return StepResult(
            Grades(gradings, content),
            "",
            f"grades of {gone:,} of {count(self.total, 'request')}" if gone else "",
            tuple(problems),
            join_reasons(self.failures),
        )


CANDIDATES, FINDINGS = "candidates.parquet", "findings.parquet"


@dataclass(frozen=True)
class LabelVerification:
    """The labels in the order of queries, and the content of verify.json."""

    labels: Sequence[Label]
    content: dict[str, Any]


def verify_bank(
    bank: Bank,
    config: VerifyConfig | None,
    *,
    folder: Path,
    tools_id: str,
    domain: str,
    seed: int,
    journal: Journal,
    earlier: Mapping[str, Any] | None = None,
) -> StepResult[LabelVerification]:
    """Pool candidates, check the labels, grade them by an engine if one is set, and merge all grades.

    `folder` stores candidates.parquet, which is on disk before the first call, grades.parquet with
    every grade ever given, and in the end findings.parquet. Without `config`, only the stored
    grades are merged with the findings of the previous verification, whose content is `earlier`.
    `tools_id` identifies the bank's tools. Labels of the bank are from its dataset and count as
    grades.

    Keys of the content: `engine`, `candidates` and `set_aside` as configured; `findings`, how many
    labels and requests each check found, with examples; with an engine `model`, `prompt_hash`, and
    `not_graded`, a row with the reason for each request; with grades `agreement` of all merged
    grades (as of `measure_agreement`), `graders`, a row for each source, and `people_and_models`;
    `unused`, the stored grades that do not apply, by reason; `counts` of labels.

    Raises:
        InputError: the encoder, the engine, its file or the prompt can't be used.
        ToolbankError: the endpoint is down or refuses, or the run was interrupted. Every received
            reply is in the journal.
    """
    given = grade_by_dataset(bank.labels, bank)
    bank = replace(bank, labels=())
    stored = read_gradings(folder / GRADES)
    kind = find_model(config) if config else None
    if config and kind and kind.plays_back and config.replies:
        read_grades_file(config.replies, bank.tools, {q.id for q in bank.queries})
    graded, findings, shown = StepResult(Grades(), ""), list[Finding](), 0
    before: Mapping[str, Any] = earlier or {} if config is None else {}
    set_aside = config.set_aside if config else before.get("set_aside", ())
    has_findings = bool(before) and (folder / FINDINGS).is_file()
    if has_findings:
        findings = select_findings(bank, read_records(folder / FINDINGS, Finding))
    if config is not None:
        graded_keys = {one.candidates for one in stored}
        path = folder / CANDIDATES
        pooled = pool_candidates(bank, config.candidates, path, tools_id, graded_keys)
        findings = list(check_labels(bank, pooled))
        shown = sum(map(len, pooled.values()))
        if kind is not None:
            context = EngineContext(bank.tools, seed, journal.path.parent)
            by: GraderKind = config.grader if kind.plays_back else "model"
            make_step = partial(GradeStep, bank, pooled, config, domain, seed, by=by)
            graded = run_step(config, journal, context, make_step)
    if not graded.waiting:
        stored = add_gradings(stored, graded.value.gradings)
        if graded.value.gradings:
            write_gradings(folder / GRADES, stored)
        if not has_findings:
            write_records(folder / FINDINGS, Finding, findings)
    chosen = choose_gradings(bank, [*given, *stored])
    labels = tuple(fold_labels(bank, chosen.of, findings, set_aside))
    content = {
        "engine": config.engine if config else CHECKS_ALONE,
        "candidates": before.get("candidates")
        or {
            "requests": len(bank.queries),
            "mean": shown / len(bank.queries) if bank.queries else 0,
        },
        "set_aside": list(set_aside),
        "findings": _describe_findings(findings),
        **graded.value.content,
        **_describe_graders(bank, chosen.of, [*given, *stored]),
        "unused": dict(chosen.unused),
        "counts": _count(labels),
    }
    said = (_summarise(content) if not graded.waiting else "", graded.message)
    return StepResult(
        LabelVerification(labels, content),
        "; ".join(filter(None, said)),
        graded.lacks,
        (
            *graded.problems,
            *_list_graders(content),
            *_list_findings(content["findings"]),
        ),
        waiting=graded.waiting,
        ended_early=graded.ended_early,
    )


def _describe_graders(
    bank: Bank, merged: Mapping[str, Sequence[Label]], gradings: Sequence[Grading]
) -> dict[str, Any]:
    """The agreement of merged grades, and of each source, with first labels and each other."""
    by_hand = {
        query: labels for query, labels in merged.items() if not is_of_checks(labels)
    }
    if not by_hand:
        return {}
    rows = [
        {
            "kind": kind,
            "source": source,
            "requests": len(of),
            "used": sum(merged[query] == labels for query, labels in of.items()),
            "agreement": measure_agreement(bank, of),
        }
        for (kind, source), of in last_of_sources(bank, gradings).items()
        if kind != "check" and of
    ]
    people, models = (
        choose_gradings(bank, [one for one in gradings if one.kind == kind]).of
        for kind in ("person", "model")
    )
    both = compare_graders(models, people)
    return {
        "agreement": measure_agreement(bank, by_hand),
        "graders": rows,
        **({"people_and_models": both} if both["requests"] else {}),
    }


def _list_graders(content: Mapping[str, Any]) -> Iterator[str]:
    """List how much each of several graders graded, and how many grades do not apply."""
    graders = content.get("graders", ())
    if len(graders) > 1:
        for one in graders:
            yield (
                f"grades of the {one['kind']} {one['source']}: "
                f"{count(one['requests'], 'request')}, {one['used']:,} of them in use"
            )
    if both := content.get("people_and_models"):
        yield (
            f"people and models graded the same {count(both['requests'], 'request')}: "
            f"{both['same']:,} with the same needed tools"
        )
    if unused := content["unused"]:
        said = ", ".join(f"{why} {n:,}" for why, n in unused.items())
        yield f"stored grades that do not apply to this bank: {said}"


def _describe_findings(findings: Sequence[Finding]) -> dict[str, Any]:
    """Count labels and requests by check, and how often each tool was found."""
    found: dict[str, Any] = {}
    for check in sorted({one.check for one in findings}):
        rows = [one for one in findings if one.check == check]
        tools = Counter(one.tool for one in rows)
        found[check] = {
            "labels": len(rows),
            "requests": len({one.query for one in rows}),
            "tools": dict(sorted(tools.items(), key=lambda row: (-row[1], row[0]))),
        }
    return found


def _list_findings(found: Mapping[str, Any]) -> Iterator[str]:
    for check, one in found.items():
        first = ", ".join(list(one["tools"])[:3])
        yield (
            f"{check}: {count(one['labels'], 'label')} of {count(one['requests'], 'request')}, "
            f"such as of {first}"
        )


def _count(labels: Sequence[Label]) -> dict[str, int]:
    grades = Counter(label.grade for label in labels)
    return {
        "requests": len({label.query for label in labels}),
        **{grade: grades[grade] for grade in ("needed", "alternative", "aside")},
    }


def _summarise(content: Mapping[str, Any]) -> str:
    counts = content["counts"]
    return (
        f"{count(counts['requests'], 'request')} with verified labels: "
        f"{counts['needed']:,} needed, {count(counts['alternative'], 'alternative')}, "
        f"{counts['aside']:,} excluded"
    )
