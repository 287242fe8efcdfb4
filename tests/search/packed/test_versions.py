"""The versions of a packed finder: what is deleted, what is refused, what goes on."""

import json
import os
from contextlib import contextmanager

import pytest

from tests.search.packed.packs import TOOLS, write_pack
from toolbank.search.finder import Finder
from toolbank.search.folder import check_free, is_finder
from toolbank.system.errors import InputError, ToolbankError


def test_a_folder_of_somebodys_versions_is_left_as_it_is(tmp_path):
    letter = tmp_path / "versions" / "1.0" / "letter.txt"
    letter.parent.mkdir(parents=True)
    letter.write_text("dear aunt")
    with pytest.raises(
        InputError, match="not the folder of a finder; nothing was written"
    ):
        write_pack(tmp_path)
    assert letter.read_text() == "dear aunt"


def test_what_a_pack_that_was_broken_off_left_is_cleared_away(tmp_path):
    for name in (".new-abc", "0123456789abcdef"):
        (tmp_path / "versions" / name / "made").mkdir(parents=True)
    version = write_pack(tmp_path)
    left = sorted(one.name for one in (tmp_path / "versions").iterdir())
    assert left == [".lock", version]


def test_what_somebody_put_beside_the_versions_is_not_deleted(tmp_path):
    write_pack(tmp_path)
    notes = tmp_path / "versions" / "notes.txt"
    notes.write_text("mine")
    (tmp_path / "versions" / "mine").mkdir()
    write_pack(tmp_path, TOOLS[:4])
    write_pack(tmp_path, TOOLS[4:])
    assert notes.read_text() == "mine"
    assert (tmp_path / "versions" / "mine").is_dir()


def test_the_same_content_packed_again_leaves_the_version_where_it_is(tmp_path):
    version = write_pack(tmp_path)
    place = tmp_path / "versions" / version
    before = place.stat().st_ino
    assert write_pack(tmp_path) == version
    assert place.stat().st_ino == before


def test_the_same_content_packed_again_mends_a_damaged_version(tmp_path):
    version = write_pack(tmp_path)
    (tmp_path / "versions" / version / "tools.jsonl").write_text("zebra")
    assert write_pack(tmp_path) == version
    assert Finder.open(tmp_path).search("send a letter")


@pytest.mark.parametrize("mark", ['{"version": "12', "{}", "null", "[]", "[" * 100_000])
def test_a_pack_whose_mark_is_damaged_is_finder_over(tmp_path, mark):
    version = write_pack(tmp_path)
    (tmp_path / "finder.json").write_text(mark)
    assert is_finder(tmp_path)
    with pytest.raises(InputError, match=r"finder\.json: .*toolbank pack RUN"):
        Finder.open(tmp_path)
    assert write_pack(tmp_path) == version
    assert Finder.open(tmp_path).search("send a letter")


@pytest.mark.parametrize("text", ["{mine", '{"name": "mine"}'])
def test_a_file_of_the_marks_name_is_not_written_over(tmp_path, text):
    (tmp_path / "versions").mkdir()
    mine = tmp_path / "finder.json"
    mine.write_text(text)
    with pytest.raises(InputError):
        write_pack(tmp_path)
    assert mine.read_text() == text


def test_a_manifest_that_lists_less_than_was_written_is_refused(tmp_path):
    place = tmp_path / "versions" / write_pack(tmp_path)
    manifest = json.loads((place / "pack.json").read_text())
    (place / "pack.json").write_text(json.dumps({**manifest, "files": []}))
    text = (place / "tools.jsonl").read_text()
    (place / "tools.jsonl").write_text(text.replace("Play", "Burn"))
    with pytest.raises(InputError, match=r"pack\.json: damaged"):
        Finder.open(tmp_path)


def test_a_file_that_was_not_packed_is_refused(tmp_path):
    place = tmp_path / "versions" / write_pack(tmp_path)
    (place / "requests.jsonl").write_text('{"query": "burn it", "tools": []}\n')
    with pytest.raises(InputError, match=r"requests\.jsonl: not a file of the finder"):
        Finder.open(tmp_path)


@contextmanager
def forbidden(folder):
    """Have this process, also one of root, not look into a folder."""
    mode, user = folder.stat().st_mode, os.geteuid()
    folder.chmod(0o000)
    if not user:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(mode)


def test_a_folder_without_permission_is_told_in_a_line(tmp_path):
    write_pack(tmp_path / "finder")
    Finder.open(tmp_path / "finder")
    with forbidden(tmp_path):
        for use in (is_finder, Finder.open, check_free, write_pack):
            with pytest.raises(ToolbankError, match="ermission denied"):
                use(tmp_path / "finder")


def test_a_version_without_permission_is_told_in_a_line(tmp_path):
    place = tmp_path / "versions" / write_pack(tmp_path)
    with forbidden(place), pytest.raises(InputError, match="ermission denied"):
        Finder.open(tmp_path)
