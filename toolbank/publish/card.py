"""The card of a published dataset: README.md, whose head the hub and `datasets` read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from toolbank.datasets.published import ASIDE
from toolbank.evaluation import TEST_PARTS, VERIFIED, main_k
from toolbank.evaluation.figures import FEWEST, Figure
from toolbank.evaluation.tables import FEW, percent, with_intervals
from toolbank.llm.engines import has_copied_wording
from toolbank.publish.data import ALTERNATIVE, NEEDED, Judged, RowCounts
from toolbank.publish.from_run import MODELS, Shown, Story
from toolbank.report.quality import QualityFigure, list_figures
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line
from toolbank.system.version import __version__

_LONGEST = 300
# What makes structure, links (also bare ones) and HTML; a backslash before it makes it a sign.
_MEANS_SOMETHING = re.compile(r"[\\`*_\[\]#|~$]|:(?=//)|(?<=\w)@(?=\w)|(?<=[wW]{3})\.")
_STARTS_LIST = re.compile(r"^(?:[-+]|\d+(?=[.)]))")
_USER = re.compile(r"(?<=://)[^/@\s]+@")


def plain(text: str, longest: int = _LONGEST) -> str:
    """The text on one line, so that it can't become Markdown's structure, a link or HTML.

    What stands before the host of a URL is left out.
    """
    line = _USER.sub("", one_line(text, longest))
    line = _MEANS_SOMETHING.sub(r"\\\g<0>", line)
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _STARTS_LIST.sub(lambda match: f"&#{ord(match[0][0])};{match[0][1:]}", line)


def row(*cells: str) -> str:
    """A row of a table, of cells that are Markdown."""
    return f"| {' | '.join(cells)} |"


_SIZES = (
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
)


_GRADERS = {"person": "by people", "model": "by a model", "check": "by checks"}


@dataclass(frozen=True)
class Contents:
    """What a publication holds, as its card says it; `licence` is "" where none was stated."""

    story: Story
    rows: RowCounts
    judged: Judged
    retriever: Shown | None
    licence: str

    @property
    def summary(self) -> str:
        """What there is of it, in a line."""
        rows, shown = self.rows, self.retriever
        parts = [
            count(rows.tools, "tool"),
            count(sum(rows.queries.values()), "request"),
            *([f"{rows.aside:,} set aside"] if rows.aside else []),
            *([count(rows.asks, "ask")] if rows.asks else []),
            *([count(rows.labels, "verified label")] if rows.labels else []),
            f"retriever {shown.label}" if shown else "no retriever, as none is fitted",
        ]
        return ", ".join(parts)


def write_card(made: Contents) -> str:
    """README.md of a publication; foreign text in it is text and no Markdown."""
    blocks = [
        f"# {plain(made.story.name)}",
        _opening(made),
        "## What is in it",
        *_contents(made),
        "## Loading",
        _loading(made),
        "## How it was made",
        *_making(made),
        "## How good it is",
        *_quality(made),
        "## Limits",
        "\n".join(f"- {limit}" for limit in _limits(made)),
        "## Licence",
        _licence(made.licence),
    ]
    head = yaml.safe_dump(_head(made), sort_keys=False, allow_unicode=True)
    return f"---\n{head}---\n\n" + "\n\n".join(blocks) + "\n"


def _head(made: Contents) -> dict[str, Any]:
    total = sum(made.rows.queries.values())
    size = next((name for most, name in _SIZES if total < most), "n>10M")
    story = made.story
    tags = ["tool-retrieval", "function-calling", *["synthetic"] * story.is_written]
    return {
        **({"license": made.licence} if made.licence else {}),
        **({"language": ["en"]} if story.is_written else {}),
        "pretty_name": story.name,
        "task_categories": ["text-retrieval"],
        "tags": [*tags, "toolbank"],
        "size_categories": [size],
        "configs": list(_configs(made.rows)),
    }


def _configs(rows: RowCounts) -> Iterator[dict[str, Any]]:
    # `datasets` can't load a split without rows: one that is listed here would be in its way.
    queries = [_files(split, split) for split, n in rows.queries.items() if n]
    yield {"config_name": "queries", "default": True, "data_files": queries}
    others = {"tools": 1, "asks": rows.asks, "labels": rows.labels, ASIDE: rows.aside}
    for name, n in others.items():
        if n:
            split = "train" if name == "asks" else name
            yield {"config_name": name, "data_files": [_files(split, name)]}


def _files(split: str, name: str) -> dict[str, str]:
    return {"split": split, "path": f"data/{name}-*.parquet"}


def _opening(made: Contents) -> str:
    ordered = ", in the order of their calls" if made.story.info.get("ordered") else ""
    whose = (
        "made of the reference's"
        if has_copied_wording(made.story.info)
        else "in people's"
    )
    return (
        f"Requests {whose} words, and the tools of an API that each needs"
        f"{ordered}: to train and to test what finds the right tools for a request. Made by "
        f"toolbank {__version__}."
    )


def _contents(made: Contents) -> Iterator[str]:
    rows = made.rows
    yield "\n".join(
        [
            row("config", "split", "rows", "a row is"),
            row("---", "---", "---", "---"),
            *(
                row("queries", split, f"{n:,}", "a request")
                for split, n in rows.queries.items()
            ),
            row("tools", "tools", f"{rows.tools:,}", "a tool of the API"),
            *_more(rows),
        ]
    )
    yield (
        "A request has `id`, `query`, `draft` (before it was polished, where it was), `tools` and "
        "`tools_first` (names of the tools that it needs), `explanation`, `domain`, `split`, and "
        "`provenance` (attempt, engine, model, prompt hash and seed, where it was written). A tool "
        "has `name`, `summary`, `description`, `signature`, `parameters` (JSON Schema, as text), and "
        "what else its reference says."
    )
    yield _describe_columns(rows)
    judged = made.judged
    grades = " and ".join(
        f"{judged.grades.get(grade, 0):,} of grade {grade} ({meaning})"
        for grade, meaning in (
            (NEEDED, "needed"),
            (ALTERNATIVE, "would serve in place of a needed one"),
        )
    )
    left = ""
    if judged.unknown:
        left = f"{count(judged.unknown, 'label names', 'labels name')} no tool of it"
    first = "by first labels, which know needed tools alone"
    by = first
    if judged.verified:
        by = f"by verified labels of {count(judged.verified, 'request')}"
        by += f", and else {first}" if judged.verified < judged.requests else ""
    besides = f" Left out there: {left}." if left else ""
    yield (
        "The test requests are also in the layout of BEIR (`corpus.jsonl`, `queries.jsonl`, "
        f"`qrels/test.tsv`) and of TREC (`qrels/test.trec`): {count(judged.requests, 'request')}, "
        f"with tools {grades}. Grades are {by}. Ids have blanks, `%` and quotes percent-encoded."
        f"{besides}"
    )


def _describe_columns(rows: RowCounts) -> str:
    """Which labels `tools` and `tools_first` hold."""
    first = (
        "`tools_first` has the first labels: the tools that a request was written for, or had in "
        "its dataset."
    )
    if not rows.labels:
        return f"{first} Nobody verified them: `tools` has the same."
    who = ", ".join(
        f"{count(n, 'request')} {_GRADERS.get(kind, 'by a grader without a name')}"
        for kind, n in rows.graders.items()
    )
    aside = (
        f" {count(rows.aside, 'request is', 'requests are')} set aside, since a grade or a check "
        f"says that the labels can't be trusted: in `data/{ASIDE}-*.parquet`, and in no split."
        if rows.aside
        else ""
    )
    return (
        "`tools` has the merged labels: people's where people graded the request, else a model's, "
        f"else those of checks, else the first ones ({who}). {first} The two differ for "
        f"{count(rows.relabelled, 'request')}.{aside}"
    )


def _more(rows: RowCounts) -> Iterator[str]:
    if rows.asks:
        yield row(
            "asks", "train", f"{rows.asks:,}", "a request for one tool, to train on"
        )
    if rows.labels:
        yield row(
            "labels",
            "labels",
            f"{rows.labels:,}",
            "a merged label of a request, and who gave it",
        )
    if rows.aside:
        yield row(ASIDE, ASIDE, f"{rows.aside:,}", "a request that was set aside")


def _loading(made: Contents) -> str:
    shown = made.retriever
    encoder = ""
    if shown and shown.encoders:
        folder = f"{MODELS}/{shown.encoders[0]}/encoder"
        encoder = f"""

from sentence_transformers import SentenceTransformer

encoder = SentenceTransformer("FOLDER/{folder}")"""
    splits = ", ".join(split for split, n in made.rows.queries.items() if n)
    return f"""`FOLDER` is this folder, or what `huggingface_hub.snapshot_download(NAME, repo_type="dataset")`
gives; `load_dataset` takes the NAME on a hub as well.

```python
from datasets import load_dataset

queries = load_dataset("FOLDER")  # {splits}
tools = load_dataset("FOLDER", "tools", split="tools")

# The columns of ToolBank (arXiv 2409.02141), as a view: nothing is copied.
names = {{"query": "refined_instruction", "tools": "functions"}}
toolbank = queries.rename_columns(names).select_columns([*names.values(), "explanation"])

import polars as pl

train = pl.read_parquet("FOLDER/data/train-*.parquet")

from beir.datasets.data_loader import GenericDataLoader

corpus, texts, qrels = GenericDataLoader("FOLDER").load(split="test"){encoder}
```

`dataset: {{type: published, path: FOLDER}}` in a recipe of toolbank takes it as a bank again."""


def _making(made: Contents) -> Iterator[str]:
    story, shown = made.story, made.retriever
    if story.sources:
        yield f"Tools were read from: {'; '.join(map(plain, story.sources))}."
    if story.is_written:
        who = " ".join(filter(None, (story.engine, story.model)))
        kept = story.info.get("counts") or {}
        attempts, accepted = kept.get("attempts"), kept.get("accepted")
        of = (
            f" Of {attempts:,} attempts, {accepted:,} were accepted by checks without a model."
            if isinstance(attempts, int) and isinstance(accepted, int)
            else ""
        )
        yield f"Requests were written by {plain(who) or 'an engine without a name'}.{of}"
    else:
        origin = story.info.get("dataset") or {}
        kind = plain(str(origin.get("type", ""))) or "another's"
        yield f"Requests and tools are of a dataset of others (type: {kind})."
    yield f"The recipe is `recipe.yaml`; its seed is {plain(str(story.info.get('seed', 0)))}."
    if shown:
        beside = ", ".join(f"`{MODELS}/{plain(one)}`" for one in shown.beside)
        more = f" It builds on {beside}." if beside else ""
        yield (
            f"A retriever that was fitted on it is in `{MODELS}/{plain(shown.label)}`, with a card "
            f"of its own: {plain(shown.why)}.{more}"
        )


def _quality(made: Contents) -> Iterator[str]:
    story = made.story
    if story.quality:
        yield "\n".join(
            [
                row("of the bank", "", "what it says"),
                row("---", "---", "---"),
                *(
                    row(one.label, _figure(one), one.told)
                    for one in list_figures(story.quality)
                ),
            ]
        )
    checked = story.verification
    if checked and checked.counts.requests:
        who = ", ".join(checked.name_graders())
        yield (
            f"Labels were verified by {plain(who)}: {count(checked.counts.requests, 'request')}, "
            f"{checked.counts.needed:,} needed tools, "
            f"{count(checked.counts.alternative, 'alternative')}, "
            f"{checked.counts.aside:,} set aside."
        )
        if found := checked.agreement:
            yield (
                f"Of {count(found.labels, 'first label')}, {found.confirmed:,} were confirmed, "
                f"{found.alternative:,} found to be an alternative, {found.refuted:,} refuted; "
                f"{found.added:,} were added."
            )
        if both := checked.people_and_models:
            yield (
                f"People and models graded the same {count(both.requests, 'request')}: of "
                f"{count(both.labels, 'tool')} that models found to be needed, people confirmed "
                f"{both.confirmed:,}, and added {both.added:,}."
            )
    for judged in story.judge.comparisons if story.judge else ():
        other = "its draft"
        if judged.against != "draft":
            other = f"one of {plain(judged.against)}"
        yield "\n".join(
            [
                f"{judged.n:,} pairs of a request and {other}, judged by "
                f"{plain(judged.judge)}, in percent:",
                "",
                row("criterion", "n", "better", "as good", "worse"),
                row("---", "---", "---", "---", "---"),
                *(
                    row(
                        plain(name),
                        f"{one.n:,}",
                        *(_share(part.share) for part in (one.win, one.tie, one.lose)),
                    )
                    for name, one in judged.criteria.items()
                ),
            ]
        )
    yield from _tables(story.figures)
    if story.stale:
        yield (
            "Left out, since they are of an earlier state of the run: results of "
            f"{', '.join(story.stale)}."
        )
    if not (checked or story.judge or story.figures or story.quality or story.stale):
        yield "Nothing of it was measured."


def _figure(one: QualityFigure) -> str:
    return f"{100 * one.value:.1f} %" if one.is_share else f"{one.value:.2f}"


def _share(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def _tables(figures: Sequence[Figure]) -> Iterator[str]:
    """What each retriever finds, a table a set that has requests."""
    k = main_k(figure.k for figure in figures)
    found = {(one.set, one.retriever, one.metric, one.k): one for one in figures}
    sets = {one.set: one.n for one in figures if one.set not in TEST_PARTS and one.n}
    has_two = VERIFIED in sets
    retrievers = list(dict.fromkeys(figure.retriever for figure in figures))
    for name, n in sets.items():
        columns = [
            (metric, [found.get((name, one, metric, k)) for one in retrievers])
            for metric in ("recall", "ndcg", "comp")
        ]
        header, cells = with_intervals(f"R@{k}", columns[0][1])
        rows = zip(retrievers, cells, *(c for _, c in columns[1:]), strict=True)
        few = f" {FEW}" if n < FEWEST else ""
        by = (
            ", by its first labels (`tools_first`)"
            if has_two and name == "test"
            else ""
        )
        if name == VERIFIED:
            by = ", by its merged labels (`tools`)"
        yield "\n".join(
            [
                f"What retrievers that were trained on it find on {plain(name)}{by} (n = {n:,}), "
                f"in percent.{few}",
                "",
                row("retriever", " ".join(header.split()), f"nDCG@{k}", f"COMP@{k}"),
                row("---", "---", "---", "---"),
                *(
                    row(plain(one), cell.strip(), percent(ndcg), percent(comp))
                    for one, cell, ndcg, comp in rows
                ),
            ]
        )
    if sets:
        yield (
            f"R@{k}: of a request's tools, those among the first {k} found. COMP@{k}: of the "
            "requests, those with all of their tools there. In brackets, the 95 % interval of a "
            "bootstrap."
        )


def _limits(made: Contents) -> Iterator[str]:
    story, rows = made.story, made.rows
    if story.is_written and has_copied_wording(story.info):
        yield (
            "The requests are of the reference's own words, as people's are not: what finds tools "
            "by words looks better on them than it is."
        )
    elif story.is_written:
        yield (
            "The requests were written by a language model and read by no person. The test "
            "requests were made as those of training were: on real requests, expect less."
        )
    if not made.judged.verified:
        yield (
            "Labels are first ones: what a request was written for, or was given. Another tool may "
            "serve it as well, and counts as wrong."
        )
    elif rows.graders.get("model"):
        yield (
            f"The labels of {count(rows.graders['model'], 'request')} are a language model's, and "
            "no person's."
        )
    if rows.left_out:
        yield (
            f"{count(rows.left_out, 'request')} of the bank {'is' if rows.left_out == 1 else 'are'} "
            "in no split, and not here: they need tools that are held back or gone."
        )
    yield (
        "Names and descriptions of tools are those of the API's reference, mistakes included; "
        "nothing was called."
    )


def _licence(licence: str) -> str:
    stated = (
        f"Published under `{licence}`."
        if licence
        else "No licence was stated: ask who published it before you use it."
    )
    return f"{stated} The texts of tools come from the API's reference, which has a licence of its own."
