"""The run folder: its files, its lock, and which stages are done."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ValidationError

from toolbank.config.assets import AssetKind
from toolbank.config.explain import find_adapter
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import (
    atomic_path,
    sha256_file,
    write_error,
    write_json,
    write_text,
)
from toolbank.system.folders import (
    ORIGIN,
    OWNER,
    RUN,
    STAGES,
    check_folder,
    check_inside,
    check_no_link,
    claim_folder,
    hash_files,
    remove_files,
    set_aside,
)

# How many changes an explanation names, and how long a value in it may be.
_MOST_DIFFERENCES, _LONGEST_VALUE = 3, 40

KEPT_KINDS: tuple[AssetKind, ...] = ("prompts", "crawlers")
"""Kinds of files of which a run keeps a copy."""


class _PathInRun:
    """A path in a run folder, such as `bank` of `RunFolder(path)`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, folder: RunFolder, owner: type[RunFolder]) -> Path:
        return folder.path / self.name


@dataclass(frozen=True)
class RunFolder:
    """The paths of one run, and which stages are done: those whose stamp fits their files."""

    path: Path

    recipe = _PathInRun("recipe.yaml")
    """The resolved recipe."""
    origin = _PathInRun(ORIGIN)
    """Which recipe the folder belongs to."""
    bank = _PathInRun("bank")
    """tools.parquet, queries.parquet, bank.json, and while it is made sources.json."""
    catalogue = _PathInRun("catalogue")
    """The versions of the tools, if they have changed since the first call of a model."""
    journal = _PathInRun("journal.sqlite")
    """Every model reply."""
    cache = _PathInRun("cache")
    """Crawled pages."""
    models = _PathInRun("models")
    """One folder per retriever."""
    finders = _PathInRun("finders")
    """Packed copies of retrievers, one folder each, which `toolbank search` reads."""
    checkpoints = _PathInRun("checkpoints")
    """Checkpoints of unfinished trainings."""
    logs = _PathInRun("logs")
    """TensorBoard logs of trainings."""
    metrics = _PathInRun("metrics.json")
    """Figures, as a list of records."""
    comparisons = _PathInRun("comparisons.json")
    """Differences between retrievers, as a list of records."""
    validation = _PathInRun("validation.json")
    """Figures on the validation queries, by which a retriever is chosen."""
    warnings = _PathInRun("warnings.json")
    """Why methods that learn from requests fall behind, as sentences."""
    calibration = _PathInRun("calibration.json")
    """How good the probabilities of each retriever are, as a list of records."""
    refusals = _PathInRun("refusals.json")
    """How each retriever treats requests that no tool fits, if there are any."""
    searches = _PathInRun("searches.json")
    """Calls of retrievers that use a model, if there are any."""
    hits = _PathInRun("hits")
    """The hits of each retriever on each query, one file per retriever."""
    copies = _PathInRun("copies.json")
    """Copies of requests between splits, in the prompts and in other sets."""
    labels = _PathInRun("labels.json")
    """Which labels of each evaluated set could not count."""
    judge = _PathInRun("judge.json")
    """Verdicts and their summary."""
    verify = _PathInRun("verify")
    """The graded candidates, and the results of the checks."""
    dataset_labels = _PathInRun("bank/labels_of_dataset.parquet")
    """The labels of a dataset, if `verify` merges them with grades."""
    candidates = _PathInRun("verify/candidates.parquet")
    grades = _PathInRun("verify/grades.parquet")
    """Every grade that people and models gave to requests, once there is one."""
    verified = _PathInRun("verify.json")
    """The summary of the verification."""
    planner = _PathInRun("planner")
    """One folder per trained planner, and the plans of each setting."""
    planner_figures = _PathInRun("planner.json")
    """Figures of the planner's settings."""
    quality = _PathInRun("quality.json")
    """Figures of the bank, which the report shows."""
    report = _PathInRun("report.html")
    """The report for people."""
    _stamps_path = _PathInRun(STAGES)

    @property
    def is_writable(self) -> bool:
        """Whether files can be created in the folder, or the folder does not exist yet."""
        return not self.path.is_dir() or os.access(self.path, os.W_OK)

    @property
    def of_worth(self) -> tuple[Path, ...]:
        """What takes time or money to make again; the files may not exist."""
        chosen = (self.validation, self.calibration, self.warnings)
        figures = (self.metrics, self.comparisons, self.labels, *chosen)
        queries = self.bank / "queries.parquet"
        made = (queries, self.journal, self.models, self.judge, self.hits, self.verify)
        plans = (self.planner, self.planner_figures)
        return (*made, self.verified, self.copies, self.searches, *figures, *plans)

    @property
    def results(self) -> tuple[Path, ...]:
        """Everything that a recipe makes except replies, grades and pages; may not exist."""
        made = (path for path in self.of_worth if path.parent == self.path)
        return (
            *(path for path in made if path not in (self.journal, self.verify)),
            *(self.bank, self.catalogue, self.finders, self.checkpoints, self.logs),
            self.report,
            *(self.path / kind for kind in KEPT_KINDS),
            self.quality,
            *(self.recipe, self._stamps_path, self.origin),
        )

    def check(self) -> None:
        """Refuse a folder of another kind, or with links where a run writes.

        Raises:
            InputError: it is one.
        """
        check_folder(self.path, RUN)
        own = (*self.results, self.journal, self.cache, self.verify)
        others = ("batch", "generate", "replaced")
        check_no_link((*own, *(self.path / name for name in others)))

    def is_written(self, path: Path) -> bool:
        """Return whether a run writes this path, or a folder that contains it."""
        place, here = path.resolve(), self.path.resolve()
        return any(
            place.is_relative_to(here / own.name)
            for own in (*self.results, self.journal, self.cache)
        )

    def keep_copy(self, stage: str, path: Path) -> None:
        """Keep a copy of a file of the user that a stage has read.

        Raises:
            ToolbankError: it cannot be written.
        """
        kept = self._copy_of(stage, path)
        if not path.resolve().is_relative_to(kept.parents[2].resolve()):
            with atomic_path(kept) as target:
                target.write_bytes(path.read_bytes())

    def find_copy(self, stage: str, path: Path) -> Path:
        """Find a file of the user, or the run's copy of one that is gone."""
        kept = self._copy_of(stage, path)
        return kept if kept.is_file() and not path.is_file() else path

    def _copy_of(self, stage: str, path: Path) -> Path:
        """Where the run keeps a copy of a file, by the place where it was."""
        place = hashlib.sha256(os.path.realpath(path).encode()).hexdigest()
        return self.path / stage / "files" / place[:16] / path.name

    def clear(self, path: Path) -> None:
        """Remove what stages wrote under a folder, and move other files to replaced/.

        Raises:
            ToolbankError: they cannot be moved.
        """
        for stamp in self._stamps().values():
            remove_files(self.path, stamp.outputs, path)
        set_aside(self.path, [path])

    @contextmanager
    def making(self, target: Path) -> Iterator[Path]:
        """Yield a temporary folder that becomes `target` if the block succeeds.

        Raises:
            ToolbankError: other files in `target` cannot be moved.
        """
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as name:
            made = Path(name) / target.name
            yield made
            self.clear(target)
            made.rename(target)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder; the lock ends with the process, however that ends.

        Raises:
            InputError: the folder holds something other than a run.
            ToolbankError: another process holds the lock, or the folder is not writable.
        """
        from filelock import FileLock, Timeout

        owner = self.path / OWNER
        lock = FileLock(self.path / ".lock", timeout=0)
        claim_folder(self.path, RUN)
        try:
            lock.acquire()
        except Timeout as error:
            holder = owner.read_text().strip() if owner.is_file() else "another process"
            raise ToolbankError(
                f"{self.path}: in use by {holder}. Wait for it to end, or give another --out."
            ) from error
        except OSError as error:
            raise write_error(self.path, error) from error
        try:
            self.check()
            since = time.strftime("%Y-%m-%d %H:%M:%S %z")
            host = platform.node() or "this machine"
            write_text(owner, f"process {os.getpid()} on {host} since {since}\n")
            yield
        finally:
            lock.release()

    def is_current(
        self, stage: str, key: str, assets: Mapping[str, str], must_be_complete: bool
    ) -> bool:
        """Return whether a stage has this key and unchanged files.

        `assets` maps titles to hashes. A stamp of version 0.7.0 has none, and only its key counts.
        """
        stamp = self._stamps().get(stage)
        return (
            stamp is not None
            and (stamp.complete or not must_be_complete)
            and stamp.key == key
            and stamp.assets in (None, dict(assets))
            and not self._changed(stamp)
        )

    def explain_todo(
        self, stage: str, depends: Mapping[str, Any], assets: Mapping[str, str]
    ) -> str:
        """Explain why a stage has to run again; "" if it has never run."""
        stamp = self._stamps().get(stage)
        if stamp is None or not self.has_run(stage):
            return ""
        if harm := self.explain_harm(stage):
            return harm
        before = assets if stamp.assets is None else stamp.assets
        if other := {title for title, _ in before.items() ^ assets.items()}:
            verb = "differs" if len(other) == 1 else "differ"
            return f"{', '.join(sorted(other))} {verb} from the run's"
        if stamp.key != stage_key(stage, depends):
            return _describe_differences(stamp.depends, _json_value(depends))
        return "" if stamp.complete else "it was not completed"

    def has_run(self, stage: str) -> bool:
        """Return whether a stage has ever run here, to its end or not."""
        stamp = self._stamps().get(stage)
        return stamp is not None and bool(stamp.key or stamp.complete)

    def find_unended(self, stages: Iterable[str]) -> list[str]:
        """List the stages that no run has completed, whatever became of their files."""
        ended = {name for name, stamp in self._stamps().items() if stamp.complete}
        return [stage for stage in stages if stage not in ended]

    def explain_lost_stamps(self) -> str:
        """Explain why no stage counts as done in a folder that has results; "" if some can."""
        path, why = self._stamps_path, ""
        if path.is_file() and self._read_stamps() is None:
            why = "damaged"
        elif not path.exists() and self.models.is_dir():
            why = "missing"
        return why and f"{path}: {why}, so no stage counts as done, and all run again"

    def changed_files(self, stage: str) -> list[Path]:
        """List the files of a stage that are missing or changed."""
        stamp = self._stamps().get(stage)
        names = self._changed(stamp) if stamp is not None else []
        return [self.path / name for name in names]

    def explain_harm(self, stage: str) -> str:
        """Name the first changed file, such as "models/bm25/tools.json: missing"; "" for none."""
        for path in self.changed_files(stage):
            return f"{path}: {'damaged or edited' if path.is_file() else 'missing'}"
        return ""

    def stamp(
        self,
        stage: str,
        key: str,
        outputs: Iterable[Path],
        *,
        complete: bool,
        depends: Mapping[str, Any] = {},
        assets: Mapping[str, str] = {},
    ) -> None:
        """Record the files of a stage, and what they follow from."""
        stamp = _Stamp(
            key=key,
            complete=complete,
            outputs=hash_files(self.path, outputs),
            assets=dict(assets),
            depends=_json_value(depends),
        )
        self._write_stamps({**self._stamps(), stage: stamp})

    def note_assets(self, stage: str, assets: Mapping[str, str]) -> None:
        """Record which assets a stage uses, before it uses them."""
        stamps = self._stamps()
        stamp = stamps.get(stage) or _Stamp(key="", complete=False, outputs={})
        if stamp.assets != dict(assets):
            stamps[stage] = stamp.model_copy(update={"assets": dict(assets)})
            self._write_stamps(stamps)

    def read_assets(
        self, pending: Collection[str] = ()
    ) -> dict[str, dict[str, str] | None]:
        """Return the asset hashes of each stage that has results, or is in `pending`.

        None for a stage that version 0.7.0 has run.
        """
        stamps = self._stamps().items()
        return {name: s.assets for name, s in stamps if s.key or name in pending}

    def find_pending(self) -> list[str]:
        """List the stages that have started and have no result yet."""
        return [name for name, stamp in self._stamps().items() if not stamp.key]

    def outputs(self, stages: Iterable[str]) -> list[Path]:
        """List the files of these stages except judge.json, which keeps earlier comparisons."""
        stamps = self._stamps()
        names = [
            name for one in stages if one in stamps for name in stamps[one].outputs
        ]
        paths = (self.path / name for name in dict.fromkeys(names))
        return [path for path in paths if path != self.judge]

    def copy_outputs(self, stage: str, other: RunFolder) -> list[Path]:
        """Copy the files of a stage from another run, in place of its own.

        Raises:
            ToolbankError: one can't be written.
        """
        for path in self.outputs([stage]):
            path.unlink(missing_ok=True)
        copies = []
        for path in other.outputs([stage]):
            copies.append(self.path / path.relative_to(other.path))
            with atomic_path(copies[-1]) as target:
                shutil.copyfile(path, target)
        return copies

    def reopen(self, stages: Iterable[str], **changes: Any) -> None:
        """Make stages run again; their files stay until then, unless `outputs` are changed."""
        stamps = self._stamps()
        for stage in stamps.keys() & set(stages):
            changed = {"complete": False, **changes}
            stamps[stage] = stamps[stage].model_copy(update=changed)
        self._write_stamps(stamps)

    def forget(self, path: Path) -> None:
        """Forget the stages that wrote this path."""
        name = path.relative_to(self.path).as_posix()
        stamps = self._stamps().items()
        self._write_stamps({k: one for k, one in stamps if name not in one.outputs})

    def is_left_by(self, path: Path, stages: Iterable[str]) -> bool:
        """Return whether one of these stages wrote this file."""
        name = path.relative_to(self.path).as_posix()
        stamps = self._stamps()
        return any(name in stamps[stage].outputs for stage in stages if stage in stamps)

    def restamp(self, stage: str, changed: Iterable[Path]) -> None:
        """Record new contents of some files of a stage that is done."""
        stamps = self._stamps()
        outputs = {**stamps[stage].outputs, **hash_files(self.path, changed)}
        stamps[stage] = stamps[stage].model_copy(update={"outputs": outputs})
        self._write_stamps(stamps)

    def _stamps(self) -> dict[str, _Stamp]:
        """The stamps; none if they cannot be read, so that every stage runs again."""
        return self._read_stamps() or {}

    def _read_stamps(self) -> dict[str, _Stamp] | None:
        try:
            content = self._stamps_path.read_bytes()
            return find_adapter(dict[str, _Stamp]).validate_json(content)
        except (OSError, ValidationError):
            return None

    def _write_stamps(self, stamps: Mapping[str, _Stamp]) -> None:
        content = {name: stamp.model_dump() for name, stamp in stamps.items()}
        write_json(self._stamps_path, content)

    def _changed(self, stamp: _Stamp) -> list[str]:
        return [
            name
            for name, sha256 in stamp.outputs.items()
            if not (self.path / name).is_file()
            or sha256_file(self.path / name) != sha256
        ]


def open_run(path: Path) -> RunFolder:
    """Open the folder of a run.

    Raises:
        InputError: it is not one.
    """
    folder = RunFolder(path)
    if not folder.recipe.is_file():
        why = "not the folder of a run" if path.exists() else "no such folder"
        raise InputError(f"{path}: {why}. Create a run: toolbank run RECIPE.")
    return folder


class _Stamp(BaseModel):
    """What a stage depended on when it ran, and the hashes of the files that it wrote."""

    key: str
    complete: bool
    outputs: dict[Annotated[str, AfterValidator(check_inside)], str]
    assets: dict[str, str] | None = None
    depends: dict[str, Any] = {}


def stage_key(stage: str, depends: Mapping[str, Any]) -> str:
    """Hash everything that a stage depends on: equal keys, equal results."""
    text = json.dumps([stage, depends], sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _json_value(depends: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(depends, default=str))


def _describe_differences(before: Any, now: Any) -> str:
    """Name what has changed, such as "config.model is b, was a"."""
    if not before:
        return "what it follows from has changed"
    found = list(_differences("", before, now))
    names = ", ".join(found[:_MOST_DIFFERENCES])
    more = len(found) - _MOST_DIFFERENCES
    return f"{names} and {more:,} more" if more > 0 else names


def _differences(name: str, before: Any, now: Any) -> Iterator[str]:
    if before == now:
        return
    if isinstance(before, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*before, *now)):
            inner = f"{name}.{key}" if name else str(key)
            yield from _differences(inner, before.get(key), now.get(key))
        return
    texts = [json.dumps(value, ensure_ascii=False) for value in (now, before)]
    if any(len(text) > _LONGEST_VALUE for text in texts):
        # A hash, or a list of many.
        yield f"{name} changed"
    else:
        yield f"{name} is {texts[0]}, was {texts[1]}"


def hash_tree(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file under a folder, by relative path."""
    paths = (path for path in folder.rglob("*") if not path.name.startswith("."))
    return hash_files(folder, filter(Path.is_file, paths))
