"""What every dataset format has to do, whoever brings it.

In the tests of a package that brings one:

    import pytest
    from toolbank.testing.datasets import CHECKS, DatasetCase

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_format(check, tmp_path):
        (tmp_path / "tools.csv").write_text("sum,adds up")
        ...
        check(DatasetCase(KIND, MyConfig(type="mine", path=tmp_path)))

A check that fails raises an AssertionError that says what a format should do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any, get_args

from toolbank.bank.files import write_asks, write_queries, write_tools
from toolbank.bank.records import Split
from toolbank.datasets.gather import Dataset
from toolbank.datasets.kind import DatasetConfig, DatasetKind
from toolbank.system.errors import InputError
from toolbank.testing import check_model

_DAMAGES = 60
_FOREIGN = (b"", b"\x00", b"\xff\xfe", b"{}", b"[]", b"\n", b'"', b"\t", b'"\\ud800"')


@dataclass(frozen=True)
class DatasetCase:
    """A format under test, and the configuration of a small sound dataset in it.

    The dataset should have queries to train on and to test with, and lie in `config.path` with all
    that the configuration names. It is copied, and never changed.
    """

    kind: DatasetKind[Any]
    config: DatasetConfig

    @contextmanager
    def copy(self) -> Iterator[DatasetConfig]:
        """The configuration of a copy that may be changed."""
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary, "copy")
            copytree(self.config.path, folder)
            moved = {
                name: folder / value.relative_to(self.config.path)
                for name, value in self.config
                if isinstance(value, Path) and value.is_relative_to(self.config.path)
            }
            yield self.config.model_copy(update=moved)


def check_settings(case: DatasetCase) -> None:
    """The configuration is of the format's own model, which refuses what it does not know."""
    check_model(case.config, case.kind.config)


def check_reading(case: DatasetCase) -> None:
    """What is read is sound and complete, and the same every time."""
    dataset = case.kind.read(case.config)
    assert_sound(dataset)
    splits = {query.split for query in dataset.queries}
    assert "test" in splits, "the sample has queries to test with"
    assert splits != {"test"}, "the sample has queries to train on"
    again = case.kind.read(case.config)
    assert again == dataset, "the same files are read to the same"


def check_files(case: DatasetCase) -> None:
    """`files` are all that is read, and one that is missing is named."""
    files = case.kind.find_files(case.config)
    assert files, "a format says which files it reads"
    assert len(set(files)) == len(files), "each file is listed once"
    before = case.kind.read(case.config)
    with case.copy() as config:
        listed = set(case.kind.find_files(config))
        for path in config.path.rglob("*"):
            if path.is_file() and path not in listed:
                path.unlink()
        alone = case.kind.read(config)
        for name in ("tools", "queries", "asks"):
            same = getattr(alone, name) == getattr(before, name)
            assert same, "files that are not listed are read"
    for number in range(len(files)):
        with case.copy() as config:
            path = case.kind.find_files(config)[number]
            path.unlink()
            try:
                assert_sound(case.kind.read(config))
            except InputError as error:
                assert path.name in str(error) or str(config.path) in str(error), (
                    f"an error names the file that is missing, {path.name}"
                )


def check_missing_folder(case: DatasetCase) -> None:
    """A folder that is not there is named, with the setting that names it."""
    nowhere = case.config.path / "no-such-folder"
    config = case.config.model_copy(update={"path": nowhere})
    for read in (case.kind.read, case.kind.find_files):
        try:
            read(config)
        except InputError as error:
            assert str(nowhere) in str(error), "an error names the folder"
            assert "dataset.path" in str(error), "an error names the setting to mend"
        else:
            raise AssertionError("a folder that is not there is an error")


def check_damage(case: DatasetCase) -> None:
    """Whatever the files hold, it is read to something sound or refused by an InputError."""
    for seed in range(_DAMAGES):
        random = Random(seed)
        with case.copy() as config:
            path = random.choice(case.kind.find_files(config))
            content = path.read_bytes()
            start = random.randint(0, len(content))
            longest = random.choice((0, 1, 20, len(content)))
            stop = min(len(content), start + random.randint(0, longest))
            foreign = random.choice((*_FOREIGN, random.randbytes(5)))
            path.write_bytes(content[:start] + foreign + content[stop:])
            try:
                # What a format itself foresees: `read` makes the best of the rest.
                case.kind.load(config)
                dataset = case.kind.read(config)
            except InputError as error:
                assert str(error), "an error says what is wrong"
            except Exception as error:
                raise AssertionError(
                    f"a broken file is an InputError that names it, not {error!r}"
                ) from error
            else:
                assert_sound(dataset)


def assert_sound(dataset: Dataset) -> None:
    """A bank can be made of it: names differ, and each query has text and tools that are there."""
    names = {tool.name for tool in dataset.tools}
    assert len(names) == len(dataset.tools), "tools have different names"
    assert len({query.id for query in dataset.queries}) == len(dataset.queries)
    for query in dataset.queries:
        assert query.query.strip(), f"{query.id} has no text"
        assert query.tools, f"{query.id} has no tools"
        assert set(query.tools) <= names, f"{query.id} has a tool that is not listed"
        assert query.split in (None, *get_args(Split))
    for query in dataset.missing:
        assert query.query.strip(), f"{query.id} has no text"
        assert not query.tools, f"{query.id} has tools, and should need none"
    for ask in dataset.asks:
        assert ask.ask.strip(), f"an ask for {ask.tool} has no text"
        assert ask.tool in names, f"an ask is for {ask.tool}, which is not listed"
    with tempfile.TemporaryDirectory() as folder:
        write_tools(Path(folder, "tools.parquet"), dataset.tools)
        write_queries(Path(folder, "queries.parquet"), dataset.queries)
        write_asks(Path(folder, "asks.parquet"), dataset.asks)


CHECKS: tuple[Callable[[DatasetCase], None], ...] = (
    check_settings,
    check_reading,
    check_files,
    check_missing_folder,
    check_damage,
)
"""All checks, in the order in which what they say helps most."""
