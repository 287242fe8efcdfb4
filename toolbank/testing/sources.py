"""What every kind of source has to do, whoever brings it.

In the tests of a package that brings one:

    import pytest
    from toolbank.testing.sources import CHECKS, SourceCase

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_source(check, tmp_path):
        path = tmp_path / "listed.json"
        path.write_text('[{"name": "sum"}]')
        check(
            SourceCase(
                KIND,
                ListedSource(file=path),
                unreadable=(ListedSource(file=tmp_path / "missing.json"),),
                change=lambda: path.write_text('[{"name": "max"}]'),
                canary=tmp_path / "canary",
            )
        )

A check that fails raises an AssertionError that says what a source should do.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolbank.bank.files import read_tools, write_tools
from toolbank.config.assets import has_asset
from toolbank.sources.kind import Collected, Location, SourceConfig, SourceKind
from toolbank.system.errors import InputError, ToolbankError
from toolbank.testing import check_model

_ONE_LINE = 200


@dataclass(frozen=True)
class SourceCase:
    """A kind of source under test, and the configuration of something small that it reads.

    Of the `unreadable` nothing can be read. `change` has other tools come of the first; a source
    whose content is only known by asking for it has none. The content is such that the file
    `canary` appears where any of it is run: a description `__import__("pathlib").Path("...").touch()`, say.
    `given` is what a user would type to have it read with the kind's defaults, where that says all.
    """

    kind: SourceKind[Any]
    config: SourceConfig
    unreadable: tuple[SourceConfig, ...]
    canary: Path
    change: Callable[[], object] | None = None
    given: str = ""

    def read(self) -> Collected:
        """What is read with an empty cache."""
        with tempfile.TemporaryDirectory() as cache:
            try:
                return self.kind.read(self.config, Path(cache))
            except ToolbankError as error:
                raise AssertionError(f"the sample can be read: {error}") from error


def check_settings(case: SourceCase) -> None:
    """The configuration is of the kind's own model, which refuses what it does not know."""
    check_model(case.config, case.kind.config)


def check_names(case: SourceCase) -> None:
    """Messages can call the source something, and its scope is a name of a file."""
    label = case.config.label
    assert label and label.isprintable() and len(label) <= _ONE_LINE
    assert label.startswith(f"{case.config.type}:"), "the label begins with the type"
    named = case.config.model_copy(update={"name": "mine"})
    assert named.label == f"{case.config.type}:mine", (
        "the label has a name that is given"
    )
    scope = case.config.scope_name
    assert scope is None or isinstance(has_asset("crawlers", f"{scope}.yaml"), bool)


def check_tools(case: SourceCase) -> None:
    """Tools are sorted, named once, and the same once they stand in a bank's file.

    Reading them holds the parameters against the metaschema, and refuses those that no file holds.
    """
    collected = case.read()
    assert collected.tools, "the sample has tools"
    names = [tool.name for tool in collected.tools]
    assert names == sorted(set(names)), "tools are sorted by name, and names are unique"
    others = [alias for tool in collected.tools for alias in tool.aliases]
    assert not set(names) & set(others), "another name of a tool is no tool's own"
    for tool in collected.tools:
        assert tool.source, f"{tool.name} says which source it is of"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tools.parquet"
        write_tools(file, collected.tools)
        assert read_tools(file) == collected.tools, "a bank keeps tools as they are"


def check_account(case: SourceCase) -> None:
    """The source is named, and all that is said of it can be written as JSON."""
    collected = case.read()
    assert collected.info.get("source"), "info names the source"
    left_out = collected.info.get("left_out", {})
    assert isinstance(left_out, dict), "left_out counts by reason what became no tool"
    assert all(type(number) is int for number in left_out.values())
    said = {"info": collected.info, "crawls": collected.crawls}
    assert json.loads(json.dumps(said, allow_nan=False))
    for line in (*collected.problems, *collected.notes):
        assert line and "Traceback" not in line, "problems and notes are for people"
        assert line.splitlines() == [line], "problems and notes are lines"


def check_reading_again(case: SourceCase) -> None:
    """The same content gives the same, with an empty cache and with a full one."""
    first = case.read()
    assert case.read() == first, "the same content is read to the same"
    with tempfile.TemporaryDirectory() as cache:
        case.kind.read(case.config, Path(cache))
        again = case.kind.read(case.config, Path(cache))
    assert again == first, "what is kept gives the same"


def check_version(case: SourceCase) -> None:
    """The version is a line that stays while the content does, and changes with it."""
    before, tools = case.kind.version(case.config), case.read().tools
    assert before and before.isprintable()
    assert case.kind.version(case.config) == before, "reading changes no version"
    if case.change is None:
        return
    case.change()
    after = case.kind.version(case.config)
    assert after != before, "a change of the content changes the version"
    assert case.read().tools != tools, "what has changed is read anew"


def check_unreadable(case: SourceCase) -> None:
    """What can't be read is bad input, named, with what to do about it."""
    assert case.unreadable, "some configuration can't be read"
    for config in case.unreadable:
        with tempfile.TemporaryDirectory() as cache:
            try:
                case.kind.version(config)
                case.kind.read(config, Path(cache))
            except InputError as error:
                message = str(error)
            else:
                raise AssertionError(f"{config.label}: what can't be read is an error")
        own = config.label.removeprefix(f"{config.type}:")
        assert own in message, f"the message names {own}: {message}"
        assert "Traceback" not in message
        assert message.count(". ") or message.count("? ") or message.count("; "), (
            f"the message says what to do: {message}"
        )


def check_nothing_is_run(case: SourceCase) -> None:
    """Content is data: none of it is run."""
    case.kind.version(case.config)
    case.read()
    assert not case.canary.exists(), "some of the content was run"


def check_recognised(case: SourceCase) -> None:
    """What a user points at is known for this kind's, and nothing else is."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "notes.txt"
        file.write_text("nothing of an API")
        for other in ("", "no such thing", "no-such-thing", str(file)):
            assert case.kind.recognise(Location(other)) is None, f"{other!r} is none"
    if case.given:
        assert case.kind.takes, "it says what users may point at"
        found = case.kind.recognise(Location(case.given))
        assert isinstance(found, case.kind.config), f"{case.given!r} is recognised"
        with tempfile.TemporaryDirectory() as cache:
            tools = case.kind.read(found, Path(cache)).tools
        assert tools == case.read().tools, "what is recognised gives the same tools"
    assert not case.canary.exists(), "some of the content was run"


CHECKS: tuple[Callable[[SourceCase], None], ...] = (
    check_settings,
    check_names,
    check_tools,
    check_account,
    check_reading_again,
    check_version,
    check_unreadable,
    check_nothing_is_run,
    check_recognised,
)
