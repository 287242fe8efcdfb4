"""Search with a finished run."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from toolbank.bank.files import read_tools
from toolbank.config.assets import own_folders
from toolbank.retrievers import RETRIEVERS
from toolbank.retrievers.base import ENCODERS
from toolbank.run.assets import list_inputs, using_assets
from toolbank.run.choice import choose_retriever
from toolbank.run.fit import load_fitted
from toolbank.run.folder import RunFolder, open_run
from toolbank.run.recipe import Recipe, RecipeFile, load_recipe
from toolbank.run.stages import STAGES
from toolbank.run.stages.fit import FitStage
from toolbank.run.stages.profile import ProfileStage
from toolbank.run.stages.report import ReportStage
from toolbank.search.finder import Finder
from toolbank.search.folder import (
    check_version,
    is_finder,
    read_manifest,
    read_source,
    write_version,
)
from toolbank.search.storage import write_packed
from toolbank.system.consent import command_of, require_consent
from toolbank.system.errors import InputError, InterruptedByUserError
from toolbank.system.extras import naming_extras
from toolbank.system.folders import check_no_link
from toolbank.system.outputs import check_output, write_output
from toolbank.system.terminal import advise_to_finish, command, print_message
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.retrievers.base import Retriever
    from toolbank.retrievers.calibration import Calibration


@naming_extras()
def load(run: str | Path, retriever: str | None = None) -> Finder:
    """Load a retriever of a run, or what `Finder.save` or `toolbank pack` wrote.

    If unset, the retriever is the best one on the validation queries (see `choose_retriever`). A
    run that is not finished causes a UserWarning.

    Raises:
        InputError: there is no run with retrievers, no retriever of this name, or it is damaged.
    """
    finder = open_finder(run, retriever)
    if lacks := describe_lacks(Path(run)):
        # The caller is one level up, behind the decorator.
        warnings.warn(lacks, stacklevel=3)
    return finder


def open_finder(run: str | Path, retriever: str | None = None) -> Finder:
    """Load a retriever as `load` does, without a warning.

    Raises:
        InputError: as `load`.
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
    """Open a retriever of a run, from its packed copy if there is one.

    Call the second result after the search: if there is no copy, it writes one for the next search,
    which needs the extra `pack`. If that is interrupted (`InterruptedByUserError`) or fails, the next search
    uses the fitted retriever and tries again. Without the libraries that read a copy, each search
    uses the fitted retriever.

    Raises:
        InputError: as `load`.
    """
    folder, file, name = _choose(run, retriever)
    place, source = folder.finders / name, _describe_source(folder, file.recipe, name)
    if source and read_source(place) == source:
        with suppress(InputError, ImportError):
            return Finder.open(place), lambda: None
    finder = _open_fitted(folder, file, name)

    def keep() -> None:
        if not (source and folder.is_writable and find_spec("onnxscript")):
            return
        print_message(
            f"writing a packed copy of {name} to {place}, so that the next search starts "
            "in a second; Ctrl-C skips that."
        )
        find_copy = partial(_find_encoder, folder)
        write = partial(write_packed, finder.state, find_copy=find_copy)
        try:
            check_no_link([folder.finders])
            write_version(place, write, packed=True, source=source)
        except KeyboardInterrupt as error:
            raise InterruptedByUserError(
                "stopped. The hits are complete; the next search writes the copy."
            ) from error
        # The search has succeeded; torch, ONNX and the disk fail in many ways.
        except Exception as error:
            told = str(error).strip().partition("\n")[0]
            if isinstance(cause := error.__cause__, OSError) and cause.strerror:
                told = f"{cause.filename or place}: {cause.strerror}"
            print_message(f"No packed copy was written. {told}")

    return finder, keep


def _find_encoder(folder: RunFolder, name: str) -> Path | None:
    """Find an undamaged copy of an encoder among those of other retrievers."""
    inside = f"{ENCODERS}/{name}"
    for place in folder.finders.glob(f"*/versions/*/{inside}"):
        version = place.parents[1]
        with suppress(InputError):
            check_version(
                version, read_manifest(version), lambda n: n.startswith(inside)
            )
            return place
    return None


def _describe_source(folder: RunFolder, recipe: Recipe, label: str) -> str:
    """Describe what the packed copy of a run's retriever is made from; "" if it should have none.

    A copy saves time only if torch embeds the request: not with a language model, with a retriever
    of another package, or with lexical search.
    """
    configs = {config.label: config for config in recipe.retrievers}
    used = [configs[label]]
    for one in used:
        used += [configs[need] for need in one.needs if configs[need] not in used]
    foreign = any(one.asks or one.type not in RETRIEVERS.own for one in used)
    encoders = {encoder.type for one in used for encoder in one.encoders}
    if foreign or encoders - {"sentence"} or all(one.lexical for one in used):
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
    """Open a run, and choose the label of a retriever.

    Raises:
        InputError: as `load`.
    """
    folder, file = _open(run)
    configs = file.recipe.retrievers
    fitted = [one for one in configs if (folder.models / one.label).is_dir()]
    names = [one.label for one in fitted]
    if not names:
        raise InputError(
            f"{folder.path}: no retrievers yet. {advise_to_finish(folder.path)}"
        )
    if not retriever:
        try:
            retriever = choose_retriever(folder, fitted).label
        except InputError as error:
            raise _advise_to_run(folder, str(error)) from error
    if retriever not in names:
        if any(one.label == retriever for one in configs):
            raise _advise_to_run(folder, f"{folder.models / retriever}: missing")
        raise InputError(
            f"{folder.path}: no retriever {retriever!r}; there are: {', '.join(names)}."
        )
    return folder, file, retriever


def _open_fitted(folder: RunFolder, file: RecipeFile, name: str) -> Finder:
    """Load a retriever after the user has consented; an error names the damaged files."""
    stages = {stage.config.label: stage for stage in FitStage.of(file.recipe, folder)}
    used = [stages[label] for label in (name, *stages[name].config.needs)]
    with command_of(str(folder.path), ()):
        for stage in used:
            require_consent(stage.sends(), stage.name)
    try:
        with using_assets(file, folder):
            loaded = load_fitted(file.recipe, folder, name)
        return Finder(loaded, read_tools(folder.bank / "tools.parquet"))
    except InputError as error:
        harms = filter(None, (folder.explain_harm(stage.name) for stage in used))
        harm = next(harms, str(error) if str(folder.bank) in str(error) else "")
        raise (_advise_to_run(folder, harm) if harm else error) from error


def _advise_to_run(folder: RunFolder, harm: str) -> InputError:
    again = f"To make it again: {command('run', folder.path)}"
    return InputError(f"{harm.rstrip('.')}. {again}")


def _open(run: Path) -> tuple[RunFolder, RecipeFile]:
    folder = open_run(run)
    return folder, load_recipe(str(folder.recipe))


def find_dense(run: Path, besides: str) -> str:
    """Find the best other dense retriever that is fitted; "" if there is none.

    Raises:
        InputError: as `load`.
    """
    if is_finder(run):
        return ""
    folder, file = _open(run)
    dense = [
        one
        for one in file.recipe.retrievers
        if one.label != besides
        and one.has_vectors
        and (folder.models / one.label).is_dir()
    ]
    return choose_retriever(folder, dense).label if dense else ""


def describe_lacks(run: Path) -> str:
    """Name the stages of a run that are unfinished or lost their model, with a command; else "".

    Stages after the report, and the profile of the requests, do not matter for a search.

    Raises:
        InputError: there is no run, or its recipe can't be read.
    """
    if is_finder(run):
        return ""
    folder, file = _open(run)
    recipe = file.recipe
    kinds = STAGES[: STAGES.index(ReportStage) + 1]
    stages = [stage for kind in kinds for stage in kind.of(recipe, folder)]
    names = [stage.name for stage in stages if not isinstance(stage, ProfileStage)]
    unended = folder.find_unended(names)
    models = {
        f"retrievers/{r.label}": folder.models / r.label for r in recipe.retrievers
    }
    lacks = [n for n in names if n in unended or not models.get(n, run).is_dir()]
    if not lacks or folder.explain_lost_stamps():
        return ""
    return (
        f"{run}: the run is not finished, or still going on. Not there yet: {', '.join(lacks)}. "
        f"{advise_to_finish(run)}"
    )


class Calibrator:
    """Calibrates the packed retrievers of a run on requests that they were not trained on."""

    def __init__(self, run: Path) -> None:
        """Choose the `requests` for calibration; a saved finder has none.

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
        folder, file = _open(run)
        self._bank = Bank.load(folder.bank).without_missing_tools()
        on = file.recipe.evaluate.on
        self.requests = choose_calibration_requests(self._bank, on)

    def __call__(self, packed: Retriever, fitted: Retriever) -> Calibration | str:
        """Calibrate a packed retriever, or return the reason why that is impossible.

        `fitted` is the retriever that it was packed from.
        """
        from toolbank.retrievers.calibration_fit import FIRST, fit_calibration

        if self.requests.reason:
            return self.requests.reason
        requests = self.requests
        found = fit_calibration(
            packed,
            self._bank,
            requests.queries,
            packed_from=fitted,
            missing=requests.missing,
        )
        none = f"none of {self.requests.origin} has a right tool in its top {FIRST}"
        return found or none


def read_requests_of(run: Path) -> list[tuple[str, tuple[str, ...]]]:
    """Read the train requests of a run (with asks), and their tools by merged labels.

    Raises:
        InputError: there is no bank, or it is damaged.
    """
    from toolbank.bank.bank import Bank

    bank = Bank.load(open_run(run).bank).with_labels_applied().without_missing_tools()
    return [(query.query, query.tools) for query in bank.train_queries]


def read_queries(
    run: Path, path: Path, out: Path, *, overwrite: bool = False
) -> list[tuple[str, str]]:
    """Read the queries of a JSONL file (id, text), and check that `out` can be written.

    `out` must not be this file or an input of the run.

    Raises:
        InputError: the file is missing, some lines are broken, or `out` can't be written without
            overwriting a file.
    """
    from toolbank.datasets.jsonl import read_requests

    inputs = [run, *own_folders()]
    if not is_finder(run):
        folder, file = _open(run)
        inputs = list_inputs(file.recipe, folder, out)
    check_output(out, [path, *inputs], overwrite=overwrite)
    return read_requests(path)


def write_hits(
    finder: Finder,
    requests: Sequence[tuple[str, str]],
    k: int,
    out: Path,
    *,
    overwrite: bool = False,
) -> None:
    """Search for each query (id, text); write a line of JSON with id, tools and scores for each.

    Raises:
        InputError: `out` exists and `overwrite` is not set, or it can't be written.
    """
    found = finder.search_many([query for _, query in requests], k)
    text = ""
    for (number, _), hits in zip(requests, found, strict=True):
        names = [hit.tool.name for hit in hits]
        scores = [round(hit.score, 6) for hit in hits]
        row = {"id": number, "tools": names, "scores": scores}
        text += json.dumps(row, ensure_ascii=False) + "\n"
    write_output(out, text, overwrite=overwrite)
