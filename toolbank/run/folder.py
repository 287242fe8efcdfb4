"""The run folder: what lies where, who holds it, and what is done."""

from __future__ import annotations

import hashlib
import json
import os
import platform
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
from toolbank.system.files import sha256_file, write_error, write_json, write_text
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

# Of what has changed, how much is named, and how long a value may be.
_MOST_DIFFERENCES, _LONGEST_VALUE = 3, 40

KEPT_KINDS: tuple[AssetKind, ...] = ("prompts", "crawlers")
"""Kinds of files found by name of which a run keeps those that it was made with."""


@dataclass(frozen=True)
class RunFolder:
    """Paths of one run. Files are the truth: a stage is done where its stamp fits them."""

    path: Path

    @property
    def recipe(self) -> Path:
        """The resolved recipe."""
        return self.path / "recipe.yaml"

    @property
    def origin(self) -> Path:
        """Which recipe the folder belongs to."""
        return self.path / ORIGIN

    @property
    def bank(self) -> Path:
        """tools.parquet, queries.parquet, bank.json, and sources.json on the way there."""
        return self.path / "bank"

    @property
    def catalogue(self) -> Path:
        """The tools by version, where they have changed since anything was asked."""
        return self.path / "catalogue"

    @property
    def journal(self) -> Path:
        """Every reply that was paid for."""
        return self.path / "journal.sqlite"

    @property
    def cache(self) -> Path:
        """Pages that were crawled."""
        return self.path / "cache"

    @property
    def models(self) -> Path:
        """One folder a retriever."""
        return self.path / "models"

    @property
    def finders(self) -> Path:
        """Packed copies of retrievers, a folder each, which `toolbank search` reads."""
        return self.path / "finders"

    @property
    def checkpoints(self) -> Path:
        """Of trainings that are not done."""
        return self.path / "checkpoints"

    @property
    def logs(self) -> Path:
        """What TensorBoard shows of trainings."""
        return self.path / "logs"

    @property
    def metrics(self) -> Path:
        """A list of records."""
        return self.path / "metrics.json"

    @property
    def comparisons(self) -> Path:
        """Differences between retrievers, as a list of records."""
        return self.path / "comparisons.json"

    @property
    def validation(self) -> Path:
        """Records on the validation part of training, by which a retriever is chosen."""
        return self.path / "validation.json"

    @property
    def warnings(self) -> Path:
        """What keeps methods that learn from requests from being worth it, as sentences."""
        return self.path / "warnings.json"

    @property
    def calibration(self) -> Path:
        """What the probabilities of each retriever are worth, as a list of records."""
        return self.path / "calibration.json"

    @property
    def searches(self) -> Path:
        """What the calls of retrievers took that ask a model, if any does."""
        return self.path / "searches.json"

    @property
    def hits(self) -> Path:
        """What each retriever found for each query, a file a retriever."""
        return self.path / "hits"

    @property
    def labels(self) -> Path:
        """What of the labels of each evaluated set could not count."""
        return self.path / "labels.json"

    @property
    def judge(self) -> Path:
        """Verdicts and their summary."""
        return self.path / "judge.json"

    @property
    def verify(self) -> Path:
        """The candidates that were graded, and what the checks found."""
        return self.path / "verify"

    @property
    def dataset_labels(self) -> Path:
        """The labels of a dataset, where `verify` merges them with grades."""
        return self.bank / "labels_of_dataset.parquet"

    @property
    def grades(self) -> Path:
        """Every grade that people and models gave to requests; there once anyone has."""
        return self.verify / "grades.parquet"

    @property
    def verified(self) -> Path:
        """What the verification came to."""
        return self.path / "verify.json"

    @property
    def planner(self) -> Path:
        """One folder a trained planner, and what each setting said."""
        return self.path / "planner"

    @property
    def planner_figures(self) -> Path:
        """How well the planner's settings did."""
        return self.path / "planner.json"

    @property
    def quality(self) -> Path:
        """How good the bank is, by figures that the page shows."""
        return self.path / "quality.json"

    @property
    def report(self) -> Path:
        """The page for people."""
        return self.path / "report.html"

    @property
    def is_writable(self) -> bool:
        """Whether files can be made in it, or it still has to be made."""
        return not self.path.is_dir() or os.access(self.path, os.W_OK)

    @property
    def of_worth(self) -> tuple[Path, ...]:
        """What costs time or money to make again, there or not."""
        chosen = (self.validation, self.calibration, self.warnings)
        figures = (self.metrics, self.comparisons, self.labels, *chosen)
        queries = self.bank / "queries.parquet"
        made = (queries, self.journal, self.models, self.judge, self.hits, self.verify)
        plans = (self.planner, self.planner_figures)
        return (*made, self.verified, self.searches, *figures, *plans)

    @property
    def results(self) -> tuple[Path, ...]:
        """All that a recipe makes, there or not: not replies, what is graded, or pages crawled."""
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
        """Refuse a folder that no run may have, or in which it would write to a link.

        Raises:
            InputError: it is such a one.
        """
        check_folder(self.path, RUN)
        own = (*self.results, self.journal, self.cache, self.verify)
        check_no_link((*own, self.path / "batch", self.path / "replaced"))

    def is_written(self, path: Path) -> bool:
        """Whether a run writes this file or folder, or one that it is in."""
        place, here = path.resolve(), self.path.resolve()
        return any(
            place.is_relative_to(here / own.name)
            for own in (*self.results, self.journal, self.cache)
        )

    def clear(self, path: Path) -> None:
        """Remove what stages left under a folder, and set aside what else is there.

        Raises:
            ToolbankError: it can't be moved.
        """
        for stamp in self._stamps().values():
            remove_files(self.path, stamp.outputs, path)
        set_aside(self.path, [path])

    @contextmanager
    def making(self, target: Path) -> Iterator[Path]:
        """Give a place to write a folder of results to; when the block ends well, move it to `target`.

        Raises:
            ToolbankError: what else is there can't be moved.
        """
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as name:
            made = Path(name) / target.name
            yield made
            self.clear(target)
            made.rename(target)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder alone; the lock goes with the process, however it ends.

        Raises:
            InputError: somebody has put something into it that is no run's.
            ToolbankError: another process holds it, or the folder can't be written to.
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
                f"{self.path}: in use by {holder}. Wait for it to end, or use another --out "
                "folder. However it ends, it lets go of this one."
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

    def is_done(self, stage: str, key: str, assets: Mapping[str, str]) -> bool:
        """Whether `stage` finished with this key and these assets, and its files are unchanged.

        `assets` maps titles to hashes. Stamps of version 0.7.0 have none, and only the key counts.
        """
        stamp = self._stamps().get(stage)
        return (
            stamp is not None and stamp.complete and self.is_current(stage, key, assets)
        )

    def is_current(self, stage: str, key: str, assets: Mapping[str, str]) -> bool:
        """Whether the files of `stage`, which may lack something, follow from this key."""
        stamp = self._stamps().get(stage)
        return (
            stamp is not None
            and stamp.key == key
            and stamp.assets in (None, dict(assets))
            and not self._changed(stamp)
        )

    def explain_todo(
        self, stage: str, depends: Mapping[str, Any], assets: Mapping[str, str]
    ) -> str:
        """Why a stage that was run before is to be run again; "" where it never was."""
        stamp = self._stamps().get(stage)
        if stamp is None or not self.has_run(stage):
            return ""
        if harm := self.explain_harm(stage):
            return harm
        # Version 0.7.0 noted no assets.
        before = assets if stamp.assets is None else stamp.assets
        if other := find_other_assets(before, assets):
            verb = "differs" if len(other) == 1 else "differ"
            return f"{', '.join(other)} {verb} from the run's"
        if stamp.key != stage_key(stage, depends):
            return describe_differences(stamp.depends, json_value(depends))
        return "" if stamp.complete else "it was not completed"

    def has_run(self, stage: str) -> bool:
        """Whether a stage was ever run here, to its end or not."""
        stamp = self._stamps().get(stage)
        return stamp is not None and bool(stamp.key or stamp.complete)

    def find_unended(self, stages: Iterable[str]) -> list[str]:
        """Those that no run has brought to their end; what they left is not looked at."""
        ended = {name for name, stamp in self._stamps().items() if stamp.complete}
        return [stage for stage in stages if stage not in ended]

    def explain_lost_stamps(self) -> str:
        """Why nothing counts as done in a folder that has something; "" where it can."""
        path = self._stamps_path
        if path.is_file() and self._read_stamps() is None:
            return f"{path}: damaged, so that nothing counts as done, and all is made again"
        if not path.exists() and self.models.is_dir():
            return f"{path}: missing, so that nothing counts as done, and all is made again"
        return ""

    def changed_files(self, stage: str) -> list[Path]:
        """Files that a stage left and that are missing or not as it left them."""
        stamp = self._stamps().get(stage)
        names = self._changed(stamp) if stamp is not None else []
        return [self.path / name for name in names]

    def explain_harm(self, stage: str) -> str:
        """Such as "models/bm25/tools.json: missing"; "" where files are as a stage left them."""
        stamp = self._stamps().get(stage)
        for name in self._changed(stamp) if stamp is not None else ():
            path = self.path / name
            return f"{path}: {'damaged or edited' if path.is_file() else 'missing'}"
        return ""

    def stamp(
        self,
        stage: str,
        key: str,
        outputs: Iterable[Path],
        *,
        complete: bool,
        depends: Mapping[str, Any] | None = None,
        assets: Mapping[str, str] | None = None,
    ) -> None:
        """Note that `stage` has left these files, and what they follow from."""
        stamp = _Stamp(
            key=key,
            complete=complete,
            outputs=hash_files(self.path, outputs),
            assets=None if assets is None else dict(assets),
            depends=json_value(depends or {}),
        )
        self._write_stamps({**self._stamps(), stage: stamp})

    def note_assets(self, stage: str, assets: Mapping[str, str]) -> None:
        """Note which assets a stage uses, before it uses them."""
        stamps = self._stamps()
        stamp = stamps.get(stage) or _Stamp(key="", complete=False, outputs={})
        if stamp.assets != dict(assets):
            stamps[stage] = stamp.model_copy(update={"assets": dict(assets)})
            self._write_stamps(stamps)

    def read_assets(
        self, pending: Collection[str] = ()
    ) -> dict[str, dict[str, str] | None]:
        """The hashes of the assets of each stage that has left results, or is among `pending`.

        None where none were noted, as by version 0.7.0.
        """
        stamps = self._stamps().items()
        return {name: s.assets for name, s in stamps if s.key or name in pending}

    def find_pending(self) -> list[str]:
        """The stages that were begun and have left no result yet."""
        return [name for name, stamp in self._stamps().items() if not stamp.key]

    def outputs(self, stages: Iterable[str]) -> list[Path]:
        """The files that these stages have left, but judge.json: it has earlier comparisons, too."""
        stamps = self._stamps()
        names = [
            name for one in stages if one in stamps for name in stamps[one].outputs
        ]
        paths = (self.path / name for name in dict.fromkeys(names))
        return [path for path in paths if path != self.judge]

    def reopen(self, stages: Iterable[str]) -> None:
        """Note that stages that are done are to be made again; their files stay until then."""
        stamps = self._stamps()
        for stage in stages:
            stamps[stage] = stamps[stage].model_copy(update={"complete": False})
        self._write_stamps(stamps)

    def drop_outputs(self, stages: Iterable[str]) -> None:
        """Note that the files of stages were set aside, and that these are to be run again."""
        stamps = self._stamps()
        for stage in stamps.keys() & set(stages):
            empty = {"complete": False, "outputs": {}}
            stamps[stage] = stamps[stage].model_copy(update=empty)
        self._write_stamps(stamps)

    def forget(self, path: Path) -> None:
        """Note that stages whose files a path is among are not done."""
        name = path.relative_to(self.path).as_posix()
        stamps = self._stamps().items()
        self._write_stamps({k: one for k, one in stamps if name not in one.outputs})

    def is_left_by(self, path: Path, stages: Iterable[str]) -> bool:
        """Whether one of these stages has left this file."""
        name = path.relative_to(self.path).as_posix()
        stamps = self._stamps()
        return any(name in stamps[stage].outputs for stage in stages if stage in stamps)

    def restamp(self, stage: str, changed: Iterable[Path]) -> None:
        """Note that some files of a stage that is done were brought up to date."""
        stamps = self._stamps()
        outputs = {**stamps[stage].outputs, **hash_files(self.path, changed)}
        stamps[stage] = stamps[stage].model_copy(update={"outputs": outputs})
        self._write_stamps(stamps)

    @property
    def _stamps_path(self) -> Path:
        return self.path / STAGES

    def _stamps(self) -> dict[str, _Stamp]:
        """The stamps; none where they can't be read, and then all is made again."""
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
    """The folder of a run that was started.

    Raises:
        InputError: there is none.
    """
    folder = RunFolder(path)
    if not path.exists():
        raise InputError(f"{path}: no such folder. Make a run: toolbank run RECIPE.")
    if not folder.recipe.is_file():
        raise InputError(
            f"{path}: not the folder of a run. Make one: toolbank run RECIPE."
        )
    return folder


class _Stamp(BaseModel):
    """What a stage depended on when it ran, and the hashes of the files that it left."""

    key: str
    complete: bool
    outputs: dict[Annotated[str, AfterValidator(check_inside)], str]
    assets: dict[str, str] | None = None
    depends: dict[str, Any] = {}


def stage_key(stage: str, depends: Mapping[str, Any]) -> str:
    """Name of all that a stage depends on: equal keys, equal results."""
    text = json.dumps([stage, depends], sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def json_value(depends: Mapping[str, Any]) -> Any:
    """What a stage depends on as it is read back from JSON."""
    return json.loads(json.dumps(depends, default=str))


def find_other_assets(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The titles of assets that are not the same in both."""
    return sorted(
        title
        for title in before.keys() | now.keys()
        if before.get(title) != now.get(title)
    )


def describe_differences(before: Any, now: Any) -> str:
    """Which parts of what a stage depends on have changed, such as "config.model is b, was a"."""
    if not before:
        return "what it follows from has changed"
    found = list(_differences("", before, now))
    more = f" and {len(found) - _MOST_DIFFERENCES:,} more" * (
        len(found) > _MOST_DIFFERENCES
    )
    return f"{', '.join(found[:_MOST_DIFFERENCES])}{more}"


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
    """SHA-256 of every file under a folder, by relative path."""
    paths = (path for path in folder.rglob("*") if not path.name.startswith("."))
    return hash_files(folder, filter(Path.is_file, paths))
