"""What can't be read is told on a line, with what and where."""

import pytest

from toolbank.bank.records import Tool
from toolbank.config.explain import reading_content
from toolbank.system.errors import InputError
from toolbank.system.files import sha256_file


def test_a_record_that_does_not_fit_is_told_on_a_line():
    with pytest.raises(InputError) as told, reading_content("mine.json", "a source"):
        Tool(name="sum", kind="function", summary=7)
    said = str(told.value)
    assert "summary: " in said
    assert "pydantic.dev" not in said
    assert len(said.splitlines()) == 1


def test_a_file_to_be_hashed_that_is_missing_is_bad_input(tmp_path):
    with pytest.raises(InputError, match=r"gone\.txt: cannot be read"):
        sha256_file(tmp_path / "gone.txt")
