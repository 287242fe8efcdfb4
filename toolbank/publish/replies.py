"""Publish the replies of models, and make a bank again of a publication that has them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from toolbank.bank.records import Record
from toolbank.config.explain import read_checked
from toolbank.datasets.published import DATA
from toolbank.llm.chat import ChatReply, ChatRequest, EngineError, Message
from toolbank.llm.engines import find_engine
from toolbank.llm.engines.replay import find_identity, replaying
from toolbank.llm.journal import Journal
from toolbank.publish.data import ShardWriter, read_shards
from toolbank.run.folder import RunFolder
from toolbank.run.recipe import dump_recipe, load_recipe
from toolbank.run.stages import make_stages
from toolbank.run.stages.asking import AskingStage
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import (
    json_text,
    read_json,
    sha256_file,
    write_json,
    write_text,
)

if TYPE_CHECKING:
    from toolbank.run.recipe import Recipe

REPLIES, FAILURES = "replies", "failures"
"""The shards of replies, and of calls that failed for good."""

_FOLDER, _MADE, _INPUTS = "replay", "made.json", "inputs"
_STAGES = ("generate", "asks", "missing", "verify")
_SETS = "generate.candidate_sets"
# The folders of recorded files and of candidate sets, and the keys that name them.
_INPUT_KEYS = {**{stage: f"{stage}.replies" for stage in _STAGES}, _SETS: _SETS}
_READ = ("sources", "dataset")
_OF_REPLY = (
    "model",
    "text",
    "finish",
    "prompt_tokens",
    "completion_tokens",
    "estimated",
)
_TABLES = (
    *("tools", "queries", "attempts", "asks", "labels"),
    *("missing", "fitted"),
)


class PublishedMessage(Record):
    """A message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


class PublishedReply(Record):
    """A reply of a model: its call in the journal, what was asked, and what came.

    `step` is write, polish, ask, missing, verify or judge; `finish` as of `ChatReply`.
    """

    key: str
    step: str
    attempt: int
    model: str
    messages: tuple[PublishedMessage, ...]
    text: str
    finish: str
    prompt_tokens: int
    completion_tokens: int
    estimated: bool


class PublishedFailure(Record):
    """A call that failed for good, and why."""

    key: str
    step: str
    attempt: int
    reason: str
    message: str


class _Made(BaseModel):
    """The versions that a bank was made with, and the hashes of its files."""

    versions: dict[str, str]
    sha256: dict[str, str]


@dataclass(frozen=True)
class Reproduction:
    """The files of the bank that have the same bytes again, and those that differ.

    `error` says why no bank could be made. `versions` names the libraries whose versions differ, such as "polars 2.1 (published: 2.0)".
    """

    same: tuple[str, ...]
    different: tuple[str, ...]
    versions: tuple[str, ...] = ()
    error: str = ""

    @property
    def problem(self) -> str:
        """What is not as it was published; "" if all files are."""
        return self.error or ", ".join(self.different)


def try_reproduction(published: Path) -> Reproduction:
    """Make the bank of a publication again in a temporary folder."""
    # Its messages are those of a run that the user has seen.
    with (
        tempfile.TemporaryDirectory(prefix="toolbank-again-") as temporary,
        redirect_stderr(StringIO()),
    ):
        try:
            return reproduce_bank(published, Path(temporary))
        except ToolbankError as error:
            said = str(error).partition("\n")[0]
            for folder in (published, Path(temporary)):
                for place in (folder.resolve(), folder):
                    said = said.replace(f"{place}{os.sep}", "")
            return Reproduction((), (), error=said.removesuffix("."))


def write_replies(recipe: Recipe, run: RunFolder, folder: Path) -> int:
    """Write the replies that the recipe's models gave, and what else the bank is made of.

    - data/replies-*.parquet and data/failures-*.parquet
    - replay/: the tools as they were read, or the dataset; recorded files; candidate sets; grades
      and candidates of the verification; the hashes of the bank's files

    Returns the number of replies.

    Raises:
        InputError: the engine's replies cannot be published, or a file is missing or damaged.
        ToolbankError: the journal is damaged.
    """
    stages = [one for one in make_stages(recipe, run) if isinstance(one, AskingStage)]
    wanted = {
        (step, find_identity(kind, config, recipe.calls_seed))
        for stage in stages
        for config in stage.engines
        if (kind := find_engine(config)).asks_model
        for step in config.call_steps
    }
    data, replay = folder / DATA, folder / _FOLDER
    with ExitStack() as stack:
        enter = stack.enter_context
        replies = enter(ShardWriter(data, REPLIES, PublishedReply, optional=True))
        failures = enter(ShardWriter(data, FAILURES, PublishedFailure, optional=True))
        if run.journal.is_file():
            journal = enter(Journal(run.journal, read_only=True))
            for entry in journal.entries():
                if (entry.step, entry.identity) in wanted:
                    row = {**vars(entry.reply), **vars(entry)}
                    replies.write(_pick(PublishedReply, row))
            for one in journal.failures():
                if one.final and (one.step, one.identity) in wanted:
                    failures.write(_pick(PublishedFailure, vars(one)))
    read = [*run.outputs(_READ), run.dataset_labels, *run.catalogue.glob("*")]
    grades = run.verify.glob("*.*")
    for path in (*read, *grades):
        if path.is_file() and path.name != "crawl.json":
            _copy(path, replay / path.relative_to(run.path))
    for stage in stages:
        for config in stage.engines:
            file = getattr(config, "replies", None)
            if isinstance(file, Path) and file.is_file():
                _copy(file, replay / _INPUTS / config.section / file.name)
        sets = getattr(stage.config, "candidate_sets", None)
        if isinstance(sets, Path):
            _copy(sets, replay / _INPUTS / _SETS / sets.name)
    versions = read_json(run.bank / "bank.json").get("versions", {})
    write_json(replay / _MADE, {"versions": versions, "sha256": hash_bank(run)})
    return replies.rows


def hash_bank(run: RunFolder) -> dict[str, str]:
    """Hash the files of a bank; bank.json without what its calls took and cost."""
    hashes = {
        path.name: sha256_file(path)
        for name in _TABLES
        if (path := run.bank / f"{name}.parquet").is_file()
    }
    info = read_json(run.bank / "bank.json")
    text = json_text({key: value for key, value in info.items() if key != "calls"})
    return {**hashes, "bank.json": hashlib.sha256(text.encode()).hexdigest()}


def reproduce_bank(published: Path, out: Path) -> Reproduction:
    """Make the bank of a publication again in a new run folder, from its replies alone.

    Nothing is read from outside of the publication, and no model is called.

    Raises:
        InputError: the folder is no publication with replies, or `out` holds something.
        ToolbankError: a bank cannot be made of the replies.
    """
    made = published / _FOLDER / _MADE
    if not made.is_file():
        raise InputError(
            f"{published}: not a publication with replies. Only `toolbank publish --with-replies` "
            "writes what a bank can be made of again."
        )
    if out.exists() and any(out.iterdir()):
        raise InputError(f"{out}: not empty. Give a new folder with --out.")
    expected = read_checked(made, _Made)
    inputs = published / _FOLDER / _INPUTS
    settings = [
        f"{_INPUT_KEYS[path.parent.name]}={json_text(str(path.resolve())).strip()}"
        for path in sorted(inputs.glob("*/*"))
        if path.parent.name in _INPUT_KEYS
    ]
    file = load_recipe(str(published / "recipe.yaml"), settings)
    run = RunFolder(out)
    with run.locked(), file.at_work(), replaying():
        for path in sorted((published / _FOLDER).rglob("*")):
            inside = path.relative_to(published / _FOLDER)
            if path.is_file() and inside.parts[0] not in (_MADE, _INPUTS):
                _copy(path, out / inside)
        write_text(run.recipe, dump_recipe(file.recipe))
        asyncio.run(_fill_journal(published / DATA, run.journal))
        for stage in make_stages(file.recipe, run):
            if stage.kind in _STAGES:
                outcome = stage.work()
                stage.stamp(stage.depends(), outcome.files, complete=not outcome.lacks)
    found = hash_bank(run)
    names = expected.sha256.keys() | found.keys()
    same = {name for name in names if expected.sha256.get(name) == found.get(name)}
    versions = read_json(run.bank / "bank.json").get("versions", {})
    return Reproduction(
        tuple(sorted(same)),
        tuple(sorted(names - same)),
        tuple(
            f"{name} {versions.get(name)} (published: {version})"
            for name, version in expected.versions.items()
            if versions.get(name) != version
        ),
    )


async def _fill_journal(data: Path, path: Path) -> None:
    with Journal(path) as journal:
        rows = read_shards(data, REPLIES, PublishedReply)
        while some := list(islice(rows, 1000)):
            await asyncio.gather(
                *(
                    journal.put(one.key, REPLIES, _ask(one), _answer(one))
                    for one in some
                )
            )
        for failed in read_shards(data, FAILURES, PublishedFailure):
            error = EngineError(failed.message, reason=failed.reason)
            request = ChatRequest(failed.attempt, failed.step, (), {})
            await journal.put_failure(failed.key, REPLIES, request, error, final=True)


def _pick(kind: type[Record], row: Mapping[str, Any]) -> Record:
    return kind.model_validate({name: row[name] for name in kind.model_fields})


def _ask(one: PublishedReply) -> ChatRequest:
    messages = tuple(Message(m.role, m.content) for m in one.messages)
    return ChatRequest(one.attempt, one.step, messages, {})


def _answer(one: PublishedReply) -> ChatReply:
    return ChatReply(**{name: getattr(one, name) for name in _OF_REPLY})


def _copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
