"""How much of what the reference pages say does a crawl bring home?

Compares the tools of a crawl with a reading of the pages by other means (html5lib, judged without
the crawler's code), and with a published list of names:

    pip install html5lib beautifulsoup4
    toolbank crawl numpy --base-url http://127.0.0.1:8001/ --out crawls/numpy
    python benchmarks/crawl/quality.py numpy PAGES NAMES.txt crawls/numpy/tools.parquet

PAGES is the folder of the site, or a tar.xz of it. `--verbose` lists every disagreement.
"""

import argparse
import random
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3_page
import numpydoc_page
from compare import Fact, compare
from inventory import Place, read_places
from markup import read_page
from reading import Reading

from toolbank.bank.files import read_tools
from toolbank.bank.records import Tool

_READERS = {
    "numpy": numpydoc_page.read_object,
    "pandas": numpydoc_page.read_object,
    "boto3": boto3_page.read_object,
}


def main() -> None:
    arguments = read_arguments()
    names = arguments.names.read_text(encoding="utf-8").split()
    tools = read_tools(arguments.tools)
    print(names_row(arguments.site, names, tools, tuple(arguments.without)))
    with folder(arguments.pages) as pages:
        places = read_places(pages / "objects.inv", arguments.site == "boto3")
        sample = sample_names(names, places, arguments.sample, arguments.seed)
        print(f"\n{arguments.site}: {len(sample)} objects, seed {arguments.seed}\n")
        facts = read_facts(arguments.site, pages, places, sample, tools)
    print(table([fact for _, fact in facts]))
    print(f"\n{row(arguments.site, [fact for _, fact in facts])}")
    if arguments.verbose:
        for name, fact in facts:
            if not fact.agrees:
                print(
                    f"\n{name} | {fact.kind} | {fact.key}\n"
                    f"  page: {shown(fact.page)}\n  tool: {shown(fact.tool)}"
                )


def names_row(
    site: str, names: list[str], tools: tuple[Tool, ...], without: tuple[str, ...]
) -> str:
    """Recall and precision of the crawl's names against the published ones."""
    published = set(names)
    tools = tuple(t for t in tools if not (without and t.name.startswith(without)))
    leading = {tool.name for tool in tools}
    every = leading | {alias for tool in tools for alias in tool.aliases}
    served = {t.name for t in tools if published & {t.name, *t.aliases}}
    return (
        "| site | published | found | recall | tools | of them published "
        "| all names | of them published |\n|---|---|---|---|---|---|---|---|\n"
        f"| {site} | {len(published)} | {len(published & every)} "
        f"| {len(published & every) / len(published):.3f} "
        f"| {len(leading)} | {len(served)} ({len(served) / len(leading):.3f}) "
        f"| {len(every)} | {len(published & every)} "
        f"({len(published & every) / len(every):.3f}) |"
    )


def sample_names(
    names: list[str], places: dict[str, Place], size: int, seed: int
) -> list[str]:
    """Published names that lie on `size` random pages."""
    pages = sorted({places[name].page for name in names})
    chosen = set(random.Random(seed).sample(pages, min(size, len(pages))))
    return sorted(name for name in names if places[name].page in chosen)


def read_facts(
    site: str,
    pages: Path,
    places: dict[str, Place],
    names: list[str],
    tools: tuple[Tool, ...],
) -> list[tuple[str, Fact]]:
    """Name and fact of everything that the pages or the tools of these names say."""
    by_name = {alias: tool for tool in tools for alias in tool.aliases}
    by_name |= {tool.name: tool for tool in tools}
    facts = []
    for name in names:
        place = places[name]
        reading = _READERS[site](read_page(pages / place.page), place.anchor)
        tool = by_name.get(name)
        facts.append(
            (name, Fact("object", name, reading and name, tool and name, bool(tool)))
        )
        if tool is not None:
            found = compare(reading or Reading(), tool, nested=site == "boto3")
            facts += [(name, fact) for fact in found]
    return facts


def table(facts: list[Fact]) -> str:
    """A row a kind of fact."""
    lines = [
        "| fact | page has | agree | share | missing | different | tool only |",
        "|---|---|---|---|---|---|---|",
    ]
    for kind in dict.fromkeys(fact.kind for fact in facts):
        own = [fact for fact in facts if fact.kind == kind]
        page = [fact for fact in own if fact.page is not None]
        agree = sum(fact.agrees for fact in page)
        missing = sum(fact.tool is None for fact in page)
        share = f"{100 * agree / len(page):.1f} %" if page else "-"
        lines.append(
            f"| {kind} | {len(page)} | {agree} | {share} | {missing} "
            f"| {len(page) - agree - missing} | {len(own) - len(page)} |"
        )
    return "\n".join(lines)


_COLUMNS = {
    "summary": ("summary",),
    "text": ("description", "notes", "other sections"),
    "parameters": ("parameter", "nested parameter"),
    "types": ("parameter: type",),
    "required": ("parameter: required",),
    "defaults, enums": ("parameter: default", "parameter: enum"),
    "their text": ("parameter: description",),
    "returns": ("returns", "returns: type", "returns: description"),
    "response fields": ("response field",),
    "their types": ("response: type",),
    "examples": ("examples",),
    "see also": ("see also",),
    "versions": ("version note",),
    "exceptions": ("raises",),
}


def row(site: str, facts: list[Fact]) -> str:
    """The same in a row a site: of the facts on the pages, how many the tools have alike."""
    cells = [site]
    for kinds in _COLUMNS.values():
        own = [fact for fact in facts if fact.kind in kinds and fact.page is not None]
        cells.append(
            f"{sum(fact.agrees for fact in own)} of {len(own)}" if own else "-"
        )
    heads = ["site", *_COLUMNS]
    return "\n".join(
        f"| {' | '.join(line)} |" for line in (heads, ["---"] * len(heads), cells)
    )


def shown(value: object) -> str:
    text = min(value, key=len) if isinstance(value, frozenset) and value else value
    return str(text)[:1500]


@contextmanager
def folder(pages: Path) -> Iterator[Path]:
    """The folder that objects.inv lies in; a tar is unpacked for the time being."""
    if pages.is_dir():
        yield pages
        return
    with tempfile.TemporaryDirectory() as unpacked, tarfile.open(pages) as archive:
        archive.extractall(unpacked, filter="data")
        yield next(Path(unpacked).rglob("objects.inv")).parent


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", choices=_READERS)
    parser.add_argument("pages", type=Path, help="folder or tar.xz of the site")
    parser.add_argument("names", type=Path, help="published names, one a line")
    parser.add_argument("tools", type=Path, help="tools.parquet of the crawl")
    parser.add_argument("--sample", type=int, default=60, help="pages to read")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--without", nargs="*", default=[], help="names the list never had, such as s3."
    )
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
