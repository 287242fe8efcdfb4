"""Write the card of a published dataset: README.md, whose front matter hubs and `datasets` read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolbank.bank.records import Split
from toolbank.datasets.published import ASIDE, MISSING_ROWS
from toolbank.evaluation import TEST_PARTS, VERIFIED, main_k
from toolbank.evaluation.figures import FEWEST, Figure
from toolbank.evaluation.tables import FEW, percent, with_intervals
from toolbank.llm.engines import has_copied_wording
from toolbank.publish.croissant import describe_dataset
from toolbank.publish.data import RowCounts
from toolbank.publish.from_run import MODELS, PublishedRetriever, RunResults
from toolbank.publish.qrels import BEIR_SPLITS, QrelCounts
from toolbank.publish.replies import REPLIES, Reproduction
from toolbank.report.quality import list_figures
from toolbank.system.numbers import count
from toolbank.system.terminal import one_line
from toolbank.system.text import fill_template
from toolbank.system.version import __version__

_LONGEST = 300
# Characters with a meaning in Markdown (structure, links, HTML), which a backslash removes.
_MEANS_SOMETHING = re.compile(r"[\\`*_\[\]#|~$]|:(?=//)|(?<=\w)@(?=\w)|(?<=[wW]{3})\.")
_STARTS_LIST = re.compile(r"^(?:[-+]|\d+(?=[.)]))")
_BRACES = re.compile(r"[{}\\]")
_SPECIAL_IN_TEX = re.compile(r"[&%$#_]")
_USER = re.compile(r"(?<=://)[^/@\s]+@")


def plain(text: str, longest: int = _LONGEST) -> str:
    """Put a text on one line, and escape Markdown, links and HTML in it.

    User names and passwords of URLs are removed.
    """
    line = _USER.sub("", one_line(text, longest))
    line = _MEANS_SOMETHING.sub(r"\\\g<0>", line)
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _STARTS_LIST.sub(lambda match: f"&#{ord(match[0][0])};{match[0][1:]}", line)


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
    """The content of a publication; `licence` is "" if none was stated.

    `date` is that of the bank, such as 2026-11-28. `reproduction` is the result of making the bank
    again of its `replies`, None if they are not published.
    """

    story: RunResults
    rows: RowCounts
    judged: Mapping[Split, QrelCounts]
    retriever: PublishedRetriever | None
    licence: str
    authors: Sequence[str] = ()
    date: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    has_prompts: bool = False
    replies: int = 0
    reproduction: Reproduction | None = None

    @property
    def configs(self) -> list[str]:
        """The names of the configs that have rows, in addition to `queries`."""
        rows = self.rows
        counts = {"tools": 1, "asks": rows.asks, "labels": rows.labels}
        counts |= {ASIDE: rows.aside, MISSING_ROWS: rows.missing}
        counts |= {REPLIES: self.replies}
        return [name for name, n in counts.items() if n]

    @property
    def summary(self) -> str:
        """The content on one line."""
        rows, shown = self.rows, self.retriever
        parts = [
            count(rows.tools, "tool"),
            count(sum(rows.queries.values()), "request"),
            *([f"{rows.aside:,} set aside"] if rows.aside else []),
            *([count(rows.asks, "ask")] if rows.asks else []),
            *([f"{rows.missing:,} that no tool fits"] if rows.missing else []),
            *([count(rows.labels, "verified label")] if rows.labels else []),
            *([count(self.replies, "reply", "replies")] if self.replies else []),
            f"retriever {shown.label}" if shown else "no retriever, as none is fitted",
        ]
        return ", ".join(parts)


def write_card(made: Contents) -> str:
    """Write README.md of a publication; foreign text in it is escaped."""
    story, rows, retriever = made.story, made.rows, made.retriever
    tables = list(_tables(story.figures))
    return fill_template(
        "publish/card.md.j2",
        head=_head(made),
        version=__version__,
        plain=plain,
        count=count,
        number="{:,}".format,
        story=story,
        rows=rows,
        judged=made.judged["test"],
        qrels={
            BEIR_SPLITS[split]: one
            for split, one in made.judged.items()
            if one.requests
        },
        made=made,
        prompts=made.has_prompts,
        few_pairs=FEWEST,
        headline=_headline(tables, retriever),
        citation=_cite(made),
        retriever=retriever,
        models=MODELS,
        aside=ASIDE,
        licence=made.licence,
        copies_wording=has_copied_wording(story.info),
        graders=", ".join(
            f"{count(n, 'request')} {_GRADERS.get(kind, 'by a grader without a name')}"
            for kind, n in rows.graders.items()
        ),
        splits=", ".join(split for split, n in rows.queries.items() if n),
        sources="; ".join(map(plain, story.sources)),
        attempts=story.info.get("counts") or {},
        dataset_type=str((story.info.get("dataset") or {}).get("type", "")),
        quality=list_figures(story.quality) if story.quality else [],
        tables=tables,
    )


def describe_contents(made: Contents, folder: Path) -> dict[str, Any]:
    """Describe a publication in a folder as Croissant metadata."""
    about = {
        "name": made.story.name,
        "description": f"Requests and the tools that each needs: {made.summary}.",
        "version": "1.0.0",
        "datePublished": made.date,
        "citeAs": _cite(made),
        **({"license": made.licence} if made.licence else {}),
        "creator": [{"@type": "sc:Person", "name": name} for name in made.authors],
    }
    return describe_dataset(folder, made.configs, about)


def _cite(made: Contents) -> str:
    """The BibTeX entry of a publication."""
    parts = {
        "title": f"{made.story.name}: requests for tools, and the tools that each needs",
        "author": " and ".join(made.authors),
        "year": made.date[:4],
        "note": f"Tool-retrieval dataset, made by toolbank {__version__}",
    }
    lines = [
        f"  {k} = {{{_escape_tex(value)}}}," for k, value in parts.items() if value
    ]
    return "\n".join([f"@misc{{{made.story.name},", *lines, "}"])


def _escape_tex(text: str) -> str:
    """Put a text on one line for BibTeX: without braces and backslashes, other signs escaped."""
    line = _BRACES.sub("", one_line(text, _LONGEST))
    return _SPECIAL_IN_TEX.sub(r"\\\g<0>", line)


def _headline(
    tables: Sequence[Mapping[str, Any]], retriever: PublishedRetriever | None
) -> dict[str, Any] | None:
    """The figures of the published retriever on the test by the best labels; None without any."""
    by_set = {table["set"]: table for table in tables}
    table = by_set.get(VERIFIED) or by_set.get("test")
    rows = {row[0]: row for row in table["rows"]} if table else {}
    row = rows.get(retriever.label) if retriever else None
    return {**table, "row": row} if table and row else None


def _head(made: Contents) -> dict[str, Any]:
    total = sum(made.rows.queries.values())
    size = next((name for most, name in _SIZES if total < most), "n>10M")
    story = made.story
    language = story.info.get("language") or ("en" if story.is_written else "")
    tags = ["tool-retrieval", "function-calling", *["synthetic"] * story.is_written]
    return {
        **({"license": made.licence} if made.licence else {}),
        **({"language": [language]} if language else {}),
        "pretty_name": story.name,
        "task_categories": ["text-retrieval"],
        "tags": [*tags, "toolbank"],
        "size_categories": [size],
        "configs": list(_list_configs(made)),
    }


def _list_configs(made: Contents) -> Iterator[dict[str, Any]]:
    # `datasets` fails on a listed split without rows.
    queries = [_files(split, split) for split, n in made.rows.queries.items() if n]
    yield {"config_name": "queries", "default": True, "data_files": queries}
    for name in made.configs:
        split = "train" if name == "asks" else name
        yield {"config_name": name, "data_files": [_files(split, name)]}


def _files(split: str, name: str) -> dict[str, str]:
    return {"split": split, "path": f"data/{name}-*.parquet"}


def _tables(figures: Sequence[Figure]) -> Iterator[dict[str, Any]]:
    """List what each retriever finds of each set: rows of its name, recall, nDCG and COMP."""
    k = main_k(figure.k for figure in figures)
    found = {(one.set, one.retriever, one.metric, one.k): one for one in figures}
    sets = {one.set: one.n for one in figures if one.set not in TEST_PARTS and one.n}
    retrievers = list(dict.fromkeys(figure.retriever for figure in figures))
    for name, n in sets.items():
        recall, ndcg, comp = (
            [found.get((name, one, metric, k)) for one in retrievers]
            for metric in ("recall", "ndcg", "comp")
        )
        header, cells = with_intervals(f"R@{k}", recall)
        labels = ""
        if name == VERIFIED:
            labels = ", by its merged labels (`tools`)"
        elif name == "test" and VERIFIED in sets:
            labels = ", by its first labels (`tools_first`)"
        yield {
            "set": name,
            "labels": labels,
            "n": n,
            "few": f" {FEW}" if n < FEWEST else "",
            "k": k,
            "header": " ".join(header.split()),
            "rows": [
                (retriever, cell.strip(), percent(one), percent(other))
                for retriever, cell, one, other in zip(
                    retrievers, cells, ndcg, comp, strict=True
                )
            ],
        }
