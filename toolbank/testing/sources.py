"""Checks for every kind of source, also those of plug-ins.

In the tests of a package with a source:

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

A failed check raises an AssertionError that says what a source should do.
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
from toolbank.sources.kind import Location, SourceConfig, SourceKind, ToolCollection
from toolbank.system.errors import InputError, ToolbankError
from toolbank.testing import check_model

_ONE_LINE = 200


@dataclass(frozen=True)
class SourceCase:
    """A kind of source under test, and the configuration of a small sample.

    The `unreadable` configurations cannot be read. `change` changes the tools of the sample; it is
    None if the content is only known by requesting it. The content must create the file `canary` if
    any of it is executed, such as a description `__import__("pathlib").Path("...").touch()`. `given`
    is what a user would type to read it with the kind's defaults, if that is enough.
    """

    kind: SourceKind[Any]
    config: SourceConfig
    unreadable: tuple[SourceConfig, ...]
    canary: Path
    change: Callable[[], object] | None = None
    given: str = ""

    def read(self) -> ToolCollection:
        """Read the sample with an empty cache."""
        with tempfile.TemporaryDirectory() as cache:
            try:
                return self.kind.read(self.config, Path(cache))
            except ToolbankError as error:
                raise AssertionError(f"the sample can be read: {error}") from error


def check_settings(case: SourceCase) -> None:
    """Check that the configuration is of the kind's model, which refuses unknown keys."""
    check_model(case.config, case.kind.config)


def check_names(case: SourceCase) -> None:
    """Check that the label fits into messages, and the scope is a valid file name."""
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
    """Check that tools are sorted and unique, and survive a bank's file.

    Reading the file checks the parameters against the metaschema.
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
    """Check that the source is named, and its information can be written as JSON."""
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
    """Check that the same content gives the same tools, with an empty and a full cache."""
    first = case.read()
    assert case.read() == first, "the same content is read to the same"
    with tempfile.TemporaryDirectory() as cache:
        case.kind.read(case.config, Path(cache))
        again = case.kind.read(case.config, Path(cache))
    assert again == first, "what is kept gives the same"


def check_version(case: SourceCase) -> None:
    """Check that the version is a line that changes if and only if the content does."""
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
    """Check that unreadable input is an InputError that names it and says what to do."""
    assert case.unreadable, "some configuration cannot be read"
    for config in case.unreadable:
        with tempfile.TemporaryDirectory() as cache:
            try:
                case.kind.version(config)
                case.kind.read(config, Path(cache))
            except InputError as error:
                message = str(error)
            else:
                raise AssertionError(f"{config.label}: what cannot be read is an error")
        own = config.label.removeprefix(f"{config.type}:")
        assert own in message, f"the message names {own}: {message}"
        assert "Traceback" not in message
        assert message.count(". ") or message.count("? ") or message.count("; "), (
            f"the message says what to do: {message}"
        )


def check_nothing_is_run(case: SourceCase) -> None:
    """Check that no content is executed."""
    case.kind.version(case.config)
    case.read()
    assert not case.canary.exists(), "some of the content was run"


def check_recognised(case: SourceCase) -> None:
    """Check that the kind recognizes its own input, and nothing else."""
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
