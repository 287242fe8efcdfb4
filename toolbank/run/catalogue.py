"""The tools of a run by version, and the domain that prompts name."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field, ValidationError

from toolbank.bank.files import explain_foreign_file, read_tools, write_tools
from toolbank.bank.records import McpCall
from toolbank.bank.split import Catalogue, CatalogueVersion
from toolbank.llm.accounts import CallCounts
from toolbank.llm.engines import find_engine
from toolbank.llm.journal import Journal
from toolbank.requests.write.config import GenerateConfig
from toolbank.requests.write.write_step import wanted_queries
from toolbank.run.recipe import load_recipe
from toolbank.system.errors import InputError
from toolbank.system.files import read_json, read_text, sha256_file, write_json
from toolbank.system.folders import is_run_folder
from toolbank.system.numbers import count
from toolbank.system.terminal import command

if TYPE_CHECKING:
    from toolbank.bank.records import Tool
    from toolbank.run.folder import RunFolder
    from toolbank.run.recipe import Recipe
    from toolbank.sources.kind import ToolCollection


class _Version(BaseModel):
    file: str = Field(pattern=r"^\d{4,}\.parquet$")
    first_attempt: int = Field(ge=0)


class _Versions(BaseModel):
    versions: tuple[_Version, ...] = Field(min_length=1)


def read_catalogue(folder: RunFolder) -> Catalogue:
    """The tools of a run by version.

    Raises:
        InputError: a file is missing or damaged.
    """
    listed = _read_versions(folder)
    if not listed:
        return Catalogue(read_tools(folder.bank / "tools.parquet"))
    tools = [read_tools(folder.catalogue / one.file) for one in listed]
    earlier = (
        CatalogueVersion(before, after.first_attempt)
        for before, (_, after) in zip(tools, pairwise(listed), strict=False)
    )
    return Catalogue(tools[-1], tuple(earlier))


def depends_on_catalogue(folder: RunFolder) -> dict[str, Any]:
    """What of the earlier versions a result follows from; nothing where there are none."""
    path = _versions_path(folder)
    return {"catalogue": sha256_file(path)} if path.is_file() else {}


def has_begun(folder: RunFolder) -> bool:
    """Whether anything was asked about the tools of a run, so that they are kept by version."""
    return folder.journal.is_file() or _versions_path(folder).is_file()


def count_begun(recipe: Recipe, folder: RunFolder, catalogue: Catalogue) -> int:
    """How many attempts may have been begun: no new version deals one of them.

    Raises:
        ToolbankError: the journal is damaged.
    """
    if not folder.journal.is_file():
        return 0
    steps = GenerateConfig.call_steps
    with Journal(folder.journal, read_only=True) as journal:
        last = max(journal.attempts(steps), default=-1)
        failed = (one.attempt for one in journal.failures() if one.step in steps)
        begun = 1 + max(last, *failed, -1)
        return _count_sent(find_sets(recipe, folder), catalogue, journal, begun)


def add_version(
    folder: RunFolder, catalogue: Catalogue, tools: tuple[Tool, ...], begun: int
) -> None:
    """Keep these tools as the newest version, which deals attempts from number `begun` on.

    Raises:
        ToolbankError: the folder can't be written to.
    """
    grown = catalogue.followed_by(tools, begun)
    first = [0, *(version.until for version in grown.earlier)]
    rows = [
        {"file": f"{number:04d}.parquet", "first_attempt": attempt}
        for number, attempt in enumerate(first, 1)
    ]
    if not catalogue.earlier:
        write_tools(folder.catalogue / "0001.parquet", catalogue.tools)
    write_tools(folder.catalogue / f"{len(rows):04d}.parquet", tools)
    write_json(_versions_path(folder), {"versions": rows})


def _count_sent(
    recipe: Recipe, catalogue: Catalogue, journal: Journal, begun: int
) -> int:
    """As `begun`, with the attempts whose requests are on their way to an engine of rounds."""
    from toolbank.requests.write.sampling import Sampler

    config = recipe.generate
    kind = find_engine(config)
    if kind.fill is None:
        return begun
    filler = kind.fill(config, journal, CallCounts())
    identity = kind.identity(config, recipe.calls_seed)
    sampler = Sampler(catalogue.tools, config, recipe.domain_name, recipe.calls_seed)
    # A round has at most twice as many as queries are missing.
    for number in range(begun, begun + 2 * (wanted_queries(config) or 0)):
        request = sampler.write_request(number)
        if filler.holds(request.key(identity)):
            begun = number + 1
    return begun


def _read_versions(folder: RunFolder) -> tuple[_Version, ...]:
    path = _versions_path(folder)
    if not path.is_file():
        return ()
    try:
        return _Versions.model_validate_json(read_text(path)).versions
    except ValidationError as error:
        raise InputError(explain_foreign_file(path, error)) from error


def _versions_path(folder: RunFolder) -> Path:
    return folder.catalogue / "versions.json"


def explain_loss(folder: RunFolder, collected: ToolCollection) -> str:
    """Which source gives under half of its former tools, and what to do; "" if none does."""
    path = folder.bank / "sources.json"
    if not path.is_file():
        return ""
    former, now = (_count_tools(info) for info in (read_json(path), collected.info))
    if len(former) != len(now):
        # One that could not be read was left out.
        former, now = (
            [("the sources", sum(n for _, n in all_))] for all_ in (former, now)
        )
    lost = [
        f"{label} gives {count(n, 'tool')}, where it gave {had:,}"
        for (_, had), (label, n) in zip(former, now, strict=True)
        if 2 * n < had
    ]
    if not lost:
        return ""
    return f"{folder.path}: {'; '.join(lost)}.\n{advise_to_force(folder.path)}"


def former_tools(folder: RunFolder) -> tuple[Tool, ...]:
    """The tools that a folder has; none where it has none that can be read."""
    path = folder.bank / "tools.parquet"
    try:
        return read_tools(path) if path.is_file() else ()
    except InputError:
        return ()


def keep_labels(folder: RunFolder, collected: ToolCollection) -> ToolCollection:
    """What was read, with the labels that its sources had where nothing else has changed.

    Earlier versions gave other labels, for which no retriever has to be trained again. Sources that
    had one label together are told apart. Before anything was asked, the new labels count.
    """
    former = former_tools(folder) if has_begun(folder) else ()
    told: dict[str, set[str]] = defaultdict(set)
    for before, after in zip(former, collected.tools, strict=False):
        told[_place(before)].add(_place(after))
    is_same = [*map(_without_place, former)] == [
        *map(_without_place, collected.tools)
    ] and all(len(labels) == 1 for labels in told.values())
    return replace(collected, tools=former) if is_same else collected


def advise_to_refresh(run: Path, collected: ToolCollection) -> list[str]:
    """What to do about the parts of sources that could not be read."""
    if collected.complete:
        return []
    return [
        "What could not be read is left as it was, and the run goes on without. To read it again: "
        f"{command('refresh', run)}"
    ]


def advise_to_force(run: Path) -> str:
    """That nothing was changed, and how it is to be all the same."""
    return (
        "Nothing was changed. Where that is as it should be, take it as it is: "
        f"{command('refresh', run)} --force"
    )


def keep_tools(
    recipe: Recipe, folder: RunFolder, collected: ToolCollection
) -> tuple[Path, ...]:
    """Write what was read, and give the files; as a version where anything was asked before.

    From before there is a version until all is written, the stage that reads the sources is not
    done, so that a run after a kill reads them again.

    Raises:
        ToolbankError: the journal is damaged, or the folder can't be written to.
    """
    tools, info = (folder.bank / n for n in ("tools.parquet", "sources.json"))
    if has_begun(folder) and tools.is_file():
        before = read_catalogue(folder)
        if before.tools != collected.tools:
            begun = count_begun(recipe, folder, before)
            folder.forget(tools)
            add_version(folder, before, collected.tools, begun)
    write_tools(tools, collected.tools)
    said = {"notes": collected.notes, "problems": collected.problems}
    write_json(
        info, collected.info | {key: lines for key, lines in said.items() if lines}
    )
    files = [tools, info]
    if collected.crawls:
        files.append(folder.bank / "crawl.json")
        write_json(files[-1], {"sources": collected.crawls})
    return tuple(files)


def _place(tool: Tool) -> str:
    """The source of a tool, and the MCP server."""
    server = tool.call.source if isinstance(tool.call, McpCall) else ""
    return f"{tool.source}\n{server}"


def _without_place(tool: Tool) -> Tool:
    call = tool.call
    if isinstance(call, McpCall):
        call = call.model_copy(update={"source": ""})
    return tool.model_copy(update={"source": "", "call": call})


def _count_tools(info: Any) -> list[tuple[str, int]]:
    """The label of each source, and how many tools it gave."""
    return [
        (str(one.get("source", "a source")), int(one.get("tools", 0)))
        for one in info.get("sources", ())
    ]


def find_sets(recipe: Recipe, folder: RunFolder) -> Recipe:
    """The recipe with the run's copy of a file of candidate sets in place of one that is gone."""
    if (sets := recipe.generate.candidate_sets) is None:
        return recipe
    own = {"candidate_sets": folder.find_copy("generate", sets)}
    return recipe.model_copy(
        update={"generate": recipe.generate.model_copy(update=own)}
    )


def keep_prompts(recipe: Recipe, folder: RunFolder) -> Recipe:
    """The recipe with its domain written out; what it does not say stays as the run began.

    That is its domain, and whether alternatives are offered in one set, as before version 0.8. Else
    the prompts would be others, and every reply in the journal paid for in vain. A dataset asks for
    nothing, and stays as it is.
    """
    if not recipe.sources:
        return recipe
    begun = _begun_with(recipe, folder)
    domain = recipe.domain or (begun and begun.domain) or recipe.domain_name
    changed = recipe.model_copy(update={"domain": domain})
    key = "separate_alternatives"
    is_given = key in recipe.generate.model_fields_set
    if begun is None or is_given or not folder.journal.is_file():
        return changed
    earlier = begun.generate
    kept = key in earlier.model_fields_set and earlier.separate_alternatives
    generate = recipe.generate.model_copy(update={key: kept})
    return changed.model_copy(update={"generate": generate})


def _begun_with(recipe: Recipe, folder: RunFolder) -> Recipe | None:
    """The recipe of the folder's run, if it is of the same name and sources."""
    if not is_run_folder(folder.path):
        return None
    try:
        begun = load_recipe(str(folder.path)).recipe
    except InputError:
        return None
    given, there = ((r.name, [one.label for one in r.sources]) for r in (recipe, begun))
    return begun if given == there else None
