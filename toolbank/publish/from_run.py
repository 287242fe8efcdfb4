"""Read a run for a publication: its recipe, its retriever, and how the bank was made."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import BaseModel

from toolbank.config.base import is_in_file, is_transport
from toolbank.config.explain import read_checked
from toolbank.evaluation.figures import Figure
from toolbank.report.content import Judge, WrittenTexts
from toolbank.report.sections import Verification
from toolbank.requests.profile.copies import Copies
from toolbank.requests.quality.measure import Quality
from toolbank.sources.collect import source_licences
from toolbank.system.errors import InputError
from toolbank.system.files import json_text, read_text, write_text
from toolbank.system.secrets import mask_command, without_credentials, without_users
from toolbank.system.text import fill_template
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.run.folder import RunFolder
    from toolbank.run.recipe import Recipe


T = TypeVar("T")

_FITTED = "retrievers/"


@dataclass(frozen=True)
class RunResults:
    """The results of finished stages; `stale` names stages whose results are outdated.

    `info` is bank.json; `licences` has a text for each source (`source_licences`).
    """

    name: str
    info: Mapping[str, Any]
    figures: tuple[Figure, ...] = ()
    judge: Judge | None = None
    verification: Verification | None = None
    quality: Quality | None = None
    asks: WrittenTexts | None = None
    missing: WrittenTexts | None = None
    copies: Copies | None = None
    licences: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()

    @property
    def stale_models(self) -> frozenset[str]:
        """The labels of retrievers that were fitted on an earlier bank."""
        fitted = (name for name in self.stale if name.startswith(_FITTED))
        return frozenset(name.removeprefix(_FITTED) for name in fitted)

    @property
    def is_written(self) -> bool:
        """Whether the run wrote the requests; else they are from a dataset."""
        return "generate" in self.info

    @property
    def writer(self) -> str:
        """The engine and the model that wrote the requests; "" without."""
        made = self.info.get("generate")
        if not isinstance(made, dict):
            return ""
        return " ".join(str(made[k]) for k in ("engine", "model") if made.get(k))

    @property
    def sources(self) -> list[str]:
        """The sources of the tools."""
        found = self.info.get("sources")
        listed = found.get("sources") if isinstance(found, dict) else None
        named = [one.get("source") for one in listed or () if isinstance(one, dict)]
        return [str(name) for name in named if name]


def read_story(recipe: Recipe, run: RunFolder) -> RunResults:
    """Read the results of a run that belong to its current bank.

    Raises:
        InputError: a file is missing or damaged.
    """
    from toolbank.run.stages import make_stages

    stages = {stage.name: stage for stage in make_stages(recipe, run)}
    stale = [
        name
        for name, stage in stages.items()
        if name.startswith(_FITTED)
        and any(
            run.is_left_by(path, [name])
            for path in (run.models / name.removeprefix(_FITTED)).rglob("*")
        )
        and not stage.is_done
    ]

    def read(stage: str, path: Path, kind: type[T]) -> T | None:
        if stage not in stages or not path.is_file():
            return None
        if not stages[stage].is_current:
            stale.append(stage)
            return None
        return read_checked(path, kind)

    return RunResults(
        name=recipe.name,
        info=read_checked(run.bank / "bank.json", dict[str, Any]),
        figures=read("evaluate", run.metrics, tuple[Figure, ...]) or (),
        judge=read("judge", run.judge, Judge),
        verification=read("verify", run.verified, Verification),
        quality=read("report", run.quality, Quality),
        asks=read("asks", run.bank / "asks.json", WrittenTexts),
        missing=read("missing", run.bank / "missing.json", WrittenTexts),
        copies=read("profile", run.copies, Copies),
        licences=source_licences(recipe.sources),
        stale=tuple(stale),
    )


def write_recipe(recipe: Recipe) -> str:
    """Write the recipe as YAML, with every key that shapes its result.

    Addresses of models and other transport keys are removed, and so are user names, passwords and
    query strings of URLs. Paths are reduced to their last name, and secrets in commands are masked.
    """
    unused = set(recipe.unused_keys)
    settings = {key: value for key, value in _dump(recipe).items() if key not in unused}
    for source in settings.get("sources", ()):
        if isinstance(command := source.get("command"), list):
            source["command"] = mask_command(command)
    text = yaml.safe_dump(
        without_credentials(settings), sort_keys=False, allow_unicode=True, width=88
    )
    return (
        f"# What toolbank {__version__} made this dataset by. Paths are names alone, and what says "
        f"only how a model\n# is reached is left out.\n{text}"
    )


def write_prompts(recipe: Recipe, run: RunFolder, folder: Path) -> None:
    """Copy the templates, examples, reply schemas and rules that a run was made with.

    Engines that read no prompts have none. For a stage that will run again, these are the files of
    its current results.

    Raises:
        ToolbankError: the folder can't be written to.
    """
    from toolbank.run.stages import make_stages

    noted = run.read_assets()
    for stage in make_stages(recipe, run):
        if not stage.reads_assets or stage.name not in noted:
            continue
        used, is_done = noted[stage.name] or {}, stage.is_done
        for asset in stage.all_assets():
            if is_done or used.get(asset.title) == asset.sha256:
                target = folder / asset.kind / asset.name
                write_text(target, without_users(read_text(asset.path)))


def find_date(path: Path) -> str:
    """The day on which a file was written, such as 2026-11-28, in UTC."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()


def without_places(value: Any) -> Any:
    """Replace each path of this machine in JSON with its last name."""
    if isinstance(value, dict):
        return {key: without_places(part) for key, part in value.items()}
    if isinstance(value, list):
        return [without_places(part) for part in value]
    return Path(value).name if isinstance(value, str) and _is_place(value) else value


def _dump(config: BaseModel) -> dict[str, Any]:
    as_json = config.model_dump(mode="json")
    return {
        name: _publish(value, as_json[name])
        for name, value in config
        if not is_transport(config, name)
    }


def _publish(value: Any, as_json: Any) -> Any:
    if isinstance(value, Path):
        return value.name
    if isinstance(value, BaseModel):
        # An encoder may be given as its name only.
        return _dump(value) if isinstance(as_json, dict) else without_places(as_json)
    if isinstance(value, tuple | list):
        pairs = zip(value, as_json, strict=True)
        return [_publish(one, one_as_json) for one, one_as_json in pairs]
    if isinstance(value, dict):
        entries = zip(value.values(), as_json.items(), strict=True)
        return {key: _publish(one, json) for one, (key, json) in entries}
    return without_places(as_json)


def _is_place(text: str) -> bool:
    """Check whether a text is a path on this machine, or in a folder that exists here."""
    if not text.startswith(os.sep) or len(text) > 4096 or "\0" in text:
        return False
    path = Path(text)
    return len(path.parts) > 2 and (path.exists() or path.parent.is_dir())


MODELS = "models"

_MOST_SETTINGS = 1_000_000


@dataclass(frozen=True)
class PublishedRetriever:
    """A published retriever: why it was chosen, those it builds on, and which have an encoder."""

    label: str
    why: str
    beside: tuple[str, ...] = ()
    encoders: tuple[str, ...] = ()


def write_retriever(
    recipe: Recipe,
    run: RunFolder,
    folder: Path,
    label: str = "",
    stale: Collection[str] = (),
) -> PublishedRetriever | None:
    """Copy a fitted retriever and those it builds on to models/ in a folder.

    Without a label, it is the default retriever of `toolbank search`. None if nothing is fitted;
    `stale` retrievers, fitted on an earlier bank, do not count.

    Raises:
        InputError: no retriever of that name is fitted, or its class is in a file.
    """
    from toolbank.run.choice import choose_retriever

    fitted = [
        one
        for one in recipe.retrievers
        if one.label not in stale and (run.models / one.label).is_dir()
    ]
    named = [config.label for config in fitted]
    if label and label not in named:
        there = ", ".join(named) or "none"
        raise InputError(
            f"--retriever {label}: not fitted in {run.path}. Choose one of: {there}."
        )
    if not fitted:
        return None
    chosen = choose_retriever(run, fitted)
    why = "named by its publisher" if label else chosen.why
    label = label or chosen.label
    needs = {config.label: config.needs for config in recipe.retrievers}
    wanted = [label]
    for one in wanted:
        wanted += [need for need in needs[one] if need not in wanted]
    kinds = {config.label: config.type for config in fitted}
    if own := next((one for one in wanted if is_in_file(kinds[one])), ""):
        raise InputError(
            f"{own}: cannot be published, because its class is in {kinds[own]}. Choose another with "
            "--retriever, or make the class a package (docs/developing.md)."
        )
    for one in wanted:
        target = folder / MODELS / one
        shutil.copytree(run.models / one, target, copy_function=shutil.copyfile)
        _strip(target)
        if not (target / "README.md").is_file():
            text = fill_template("publish/retriever.md.j2", label=one, kind=kinds[one])
            (target / "README.md").write_text(text, encoding="utf-8")
    encoders = [one for one in wanted if (folder / MODELS / one / "encoder").is_dir()]
    return PublishedRetriever(label, why, tuple(wanted[1:]), tuple(encoders))


def _strip(folder: Path) -> None:
    """Remove paths of this machine and credentials in URLs from settings and cards."""
    replaced: dict[str, str] = {}
    for path in sorted(folder.rglob("*.json")):
        if "config" in path.name and path.stat().st_size <= _MOST_SETTINGS:
            try:
                content = json.loads(read_text(path))
            except ValueError:
                continue
            clean = without_places(without_credentials(content))
            if clean != content:
                _compare(content, clean, replaced)
                path.write_text(json_text(clean), encoding="utf-8")
    for card in sorted(folder.rglob("README.md")):
        text = read_text(card)
        for old in sorted(replaced, key=len, reverse=True):
            text = text.replace(old, replaced[old])
        card.write_text(text, encoding="utf-8")


def _compare(old: Any, new: Any, replaced: dict[str, str]) -> None:
    """Collect the texts that were replaced."""
    if isinstance(old, dict):
        for key in old:
            _compare(old[key], new[key], replaced)
    elif isinstance(old, list):
        for before, after in zip(old, new, strict=True):
            _compare(before, after, replaced)
    elif old != new:
        replaced[old] = new
