"""Finding tools with a finished run."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.bank.files import read_tools
from toolbank.config.assets import own_folders
from toolbank.retrievers import RETRIEVERS
from toolbank.run.assets import list_inputs, using_assets
from toolbank.run.fit import load_fitted
from toolbank.run.folder import RunFolder, open_run
from toolbank.run.recipe import Recipe, RecipeFile, load_recipe
from toolbank.run.result import choose_retriever
from toolbank.run.stages import make_stages
from toolbank.run.stages.fit import FitStage
from toolbank.search.finder import Finder
from toolbank.search.folder import is_finder, read_source, write_version
from toolbank.system.consent import command_of, require_consent
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.extras import telling_extras
from toolbank.system.folders import check_no_link
from toolbank.system.outputs import check_output, write_output
from toolbank.system.terminal import advise_to_finish, command
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.retrievers.base import Retriever
    from toolbank.retrievers.calibration import Calibration


@telling_extras()
def load(run: str | Path, retriever: str | None = None) -> Finder:
    """Load a retriever of a run, or what `Finder.save` or `toolbank pack` wrote.

    Unset, it is the best on the validation queries, as `choose_retriever` says. A run that is not
    finished is warned of (UserWarning).

    Raises:
        InputError: no run with retrievers there, none of that name in it, or it is damaged.
    """
    finder = open_finder(run, retriever)
    if lacks := describe_lacks(Path(run)):
        # One level more than the caller's: the decorator stands between.
        warnings.warn(lacks, stacklevel=3)
    return finder


def open_finder(run: str | Path, retriever: str | None = None) -> Finder:
    """As `load`, without a warning.

    Raises:
        InputError: as `load` does.
    """
    if not isinstance(run, str | Path) or not str(run).strip():
        raise InputError(
            f'The run is {run!r}; it has to be a folder, such as load("runs/quickstart").'
        )
    if is_finder(Path(run)):
        return Finder.open(Path(run), retriever, one=retriever is not None)
    return _open_fitted(*_choose(Path(run), retriever))


def open_searched(
    run: Path, retriever: str | None = None
) -> tuple[Finder, Callable[[], None]]:
    """As `open_finder` of a run; where there is a packed copy of the retriever, that.

    The second is to be called after the search: where there is none, it writes the copy for the next
    search. That takes the extra `pack`. Whatever is in the way, such as another search that writes it
    or a folder that can't be written to, the next search takes what was fitted.

    Raises:
        InputError: as `load` does.
    """
    folder, file, name = _choose(run, retriever)
    place, source = folder.finders / name, _describe_source(folder, file.recipe, name)
    if source and read_source(place) == source:
        with suppress(InputError):
            return Finder.open(place), lambda: None
    finder = _open_fitted(folder, file, name)

    def keep() -> None:
        if source and folder.is_writable and find_spec("onnxscript"):
            with suppress(ToolbankError):
                check_no_link([folder.finders])
                write_version(place, finder.write_packed, packed=True, source=source)

    return finder, keep


def _describe_source(folder: RunFolder, recipe: Recipe, label: str) -> str:
    """What the packed copy of a run's retriever follows from; "" if it is to have none.

    Where a model is asked, another package searches or words alone are compared, none saves time.
    """
    configs = {config.label: config for config in recipe.retrievers}
    used = [configs[label]]
    for one in used:
        used += [configs[need] for need in one.needs if configs[need] not in used]
    foreign = any(one.asks or one.type not in RETRIEVERS.own for one in used)
    if foreign or all(one.lexical for one in used):
        return ""
    files = [folder.bank / "tools.parquet", *(folder.models / label).rglob("*")]
    told = [
        (str(path.relative_to(folder.path)), stat.st_size, stat.st_mtime_ns)
        for path in sorted(files)
        if path.is_file() and (stat := path.stat())
    ]
    settings = [one.model_dump_json() for one in used]
    said = repr((__version__, settings, told)).encode("utf-8", "surrogatepass")
    return hashlib.sha256(said).hexdigest()


def _choose(
    run: Path, retriever: str | None = None
) -> tuple[RunFolder, RecipeFile, str]:
    """A run with its recipe, and the label of the retriever that is searched with.

    Raises:
        InputError: as `load` does.
    """
    folder = open_run(run)
    file = load_recipe(str(folder.recipe))
    labels = [config.label for config in file.recipe.retrievers]
    names = [label for label in labels if (folder.models / label).is_dir()]
    if not names:
        raise InputError(
            f"{folder.path}: no retrievers yet. {advise_to_finish(folder.path)}"
        )
    fitted = [config for config in file.recipe.retrievers if config.label in names]
    name = retriever or choose_retriever(folder, fitted).label
    if name in labels and name not in names:
        raise InputError(
            f"{folder.models / name}: missing. Make it: {_command(folder)}"
        )
    if name not in names:
        raise InputError(
            f"{folder.path}: no retriever {name!r}; there are: {', '.join(names)}."
        )
    return folder, file, name


def _open_fitted(folder: RunFolder, file: RecipeFile, name: str) -> Finder:
    _ask_for_keys(file.recipe, folder, name)
    with using_assets(file, folder):
        loaded = _load_fitted(file.recipe, folder, name)
    return Finder(loaded, read_tools(folder.bank / "tools.parquet"))


def find_dense(run: Path, besides: str) -> str:
    """The best fitted retriever with vectors, whatever the words of a request; "" if no other.

    Raises:
        InputError: as `load` does.
    """
    if is_finder(run):
        return ""
    folder = open_run(run)
    dense = [
        config
        for config in load_recipe(str(folder.recipe)).recipe.retrievers
        if config.has_vectors
        and config.label != besides
        and (folder.models / config.label).is_dir()
    ]
    return choose_retriever(folder, dense).label if dense else ""


def _ask_for_keys(recipe: Recipe, folder: RunFolder, label: str) -> None:
    """Ask before the first search where a key of the user's may go."""
    stages = {stage.config.label: stage for stage in FitStage.of(recipe, folder)}
    with command_of(str(folder.path), ()):
        for one in (label, *stages[label].config.needs):
            require_consent(stages[one].sends(), stages[one].name)


def _load_fitted(recipe: Recipe, folder: RunFolder, label: str) -> Retriever:
    """Load a retriever; where its files, or those that it builds on, are harmed, say so."""
    try:
        return load_fitted(recipe, folder, label)
    except InputError as error:
        stages = {stage.config.label: stage for stage in FitStage.of(recipe, folder)}
        for one in (label, *stages[label].config.needs):
            if harm := folder.explain_harm(stages[one].name):
                raise InputError(
                    f"{harm}. Make it again: {_command(folder)}"
                ) from error
        raise


def _command(folder: RunFolder) -> str:
    return command("run", folder.path)


def describe_lacks(run: Path) -> str:
    """Which stages of a run have not ended, and what to type; "" where all have.

    Raises:
        InputError: there is no run, or its recipe can't be read.
    """
    if is_finder(run):
        return ""
    folder = open_run(run)
    stages = make_stages(load_recipe(str(folder.recipe)).recipe, folder)
    lacks = folder.find_unended(stage.name for stage in stages)
    if not lacks or folder.explain_lost_stamps():
        return ""
    return (
        f"{run}: the run is not finished, or still going on. Not there yet: {', '.join(lacks)}. "
        f"{advise_to_finish(run)}"
    )


class Calibrator:
    """Calibrates the packed retrievers of a run, on requests that they have not learnt from."""

    def __init__(self, run: Path) -> None:
        """Choose the `requests` to calibrate on; a saved finder has none.

        Raises:
            InputError: the bank, or a file of evaluate.on, is damaged.
        """
        from toolbank.bank.bank import Bank
        from toolbank.retrievers.calibration_requests import CalibrationRequests
        from toolbank.run.stages.evaluate import choose_calibration_requests

        self._bank = Bank(())
        if is_finder(run):
            self.requests = CalibrationRequests(
                reason="a saved finder has no requests to calibrate on"
            )
            return
        folder = open_run(run)
        self._bank = Bank.load(folder.bank).without_gone()
        on = load_recipe(str(folder.recipe)).recipe.evaluate.on
        self.requests = choose_calibration_requests(self._bank, on)

    def __call__(self, packed: Retriever, fitted: Retriever) -> Calibration | str:
        """Calibrate a retriever as it was packed, or say why that can't be done.

        `fitted` is the one that it was packed from.
        """
        from toolbank.retrievers.calibration_fit import FIRST, fit_calibration

        if self.requests.reason:
            return self.requests.reason
        queries = self.requests.queries
        found = fit_calibration(packed, self._bank, queries, packed_from=fitted)
        if found is None:
            return f"none of {self.requests.origin} has a right tool in its top {FIRST}"
        return found


def read_requests_of(run: Path) -> list[tuple[str, tuple[str, ...]]]:
    """The train requests of a run's bank, asks among them, with their tools by merged labels.

    Raises:
        InputError: there is no bank, or it is damaged.
    """
    from toolbank.bank.bank import Bank

    bank = Bank.load(open_run(run).bank).with_verified().without_gone()
    return [(query.query, query.tools) for query in bank.train_queries]


def read_queries(
    run: Path, path: Path, out: Path, *, overwrite: bool = False
) -> list[tuple[str, str]]:
    """Read the requests of a JSONL file (id, query) whose hits can be written to `out`.

    Neither may be written over: the file, and what the run was made from.

    Raises:
        InputError: the file is missing, some of its lines are broken, or `out` can't be written
            without touching what is somebody's.
    """
    from toolbank.datasets.jsonl import read_requests

    check_output(out, [path, *_inputs(run, out)], overwrite=overwrite)
    return read_requests(path)


def write_hits(
    finder: Finder,
    requests: Sequence[tuple[str, str]],
    k: int,
    out: Path,
    *,
    overwrite: bool = False,
) -> None:
    """Search for every request (id, text); write id, tools, scores a line.

    `out` is one that `read_queries` has let pass. With `overwrite`, a file that is there is
    replaced.

    Raises:
        InputError: `out` can't be written to by now.
    """
    found = finder.search_many([query for _, query in requests], k)
    lines = [
        json.dumps(
            {
                "id": number,
                "tools": [hit.tool.name for hit in hits],
                "scores": [round(hit.score, 6) for hit in hits],
            },
            ensure_ascii=False,
        )
        for (number, _), hits in zip(requests, found, strict=True)
    ]
    text = "".join(line + "\n" for line in lines)
    write_output(out, text, overwrite=overwrite)


def _inputs(run: Path, out: Path) -> list[Path]:
    if is_finder(run):
        return [run, *own_folders()]
    folder = open_run(run)
    return list_inputs(load_recipe(str(folder.recipe)).recipe, folder, out)
