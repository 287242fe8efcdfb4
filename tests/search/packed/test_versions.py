"""The versions of a packed finder: what is deleted, what is refused, what goes on."""

import io
import json
import os
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

from tests.search.packed.packs import REQUESTS, TOOLS, write_pack
from toolbank.bank.bank import Bank
from toolbank.retrievers import create_retriever
from toolbank.retrievers.settings import Bm25Config
from toolbank.search.catalogue import RequestIndex
from toolbank.search.finder import Finder
from toolbank.search.folder import (
    check_free,
    is_finder,
    read_manifest,
    switch,
    version_folder,
    write_manifest,
)
from toolbank.system.errors import InputError, ToolbankError
from toolbank.system.files import sha256_file


@pytest.mark.parametrize("name", ["letter.txt", "versions/1.0/letter.txt"])
def test_a_folder_of_the_user_is_refused_and_left(tmp_path, name):
    letter = tmp_path / name
    letter.parent.mkdir(parents=True, exist_ok=True)
    letter.write_text("dear aunt")
    with pytest.raises(InputError, match="nothing was written"):
        write_pack(tmp_path)
    assert letter.read_text() == "dear aunt"


def test_what_a_pack_that_was_broken_off_left_is_cleared_away(tmp_path):
    for name in (".new-abc", "0123456789abcdef"):
        (tmp_path / "versions" / name / "made").mkdir(parents=True)
    version = write_pack(tmp_path)
    left = sorted(one.name for one in (tmp_path / "versions").iterdir())
    assert left == [".lock", version]
    (tmp_path / "versions/mine").mkdir()
    (tmp_path / "versions/notes.txt").write_text("mine")
    for tools in (TOOLS[:4], TOOLS[4:]):
        write_pack(tmp_path, tools)
    assert (tmp_path / "versions/mine").is_dir()
    assert (tmp_path / "versions/notes.txt").read_text() == "mine"


def test_the_same_content_packed_again_is_left_or_repaired(tmp_path):
    version = write_pack(tmp_path)
    place = tmp_path / "versions" / version
    before = place.stat().st_ino
    assert write_pack(tmp_path) == version
    assert place.stat().st_ino == before
    (place / "tools.jsonl").write_text("zebra")
    assert write_pack(tmp_path) == version
    assert Finder.open(tmp_path).search("send a letter")


@pytest.mark.parametrize(
    "mark", ['{"version": "12', "{", "{}", "null", "[]", "[" * 100_000]
)
def test_a_pack_whose_mark_is_damaged_can_be_packed_again(tmp_path, mark):
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


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("pack.json", b'"files"', b'"fil"'),
        ("pack.json", b'"bm25"', b'"mine"'),
        ("mine.txt", None, b"mine"),
        ("facets.json", b"", None),
        ("facets.json", b"home", b"mine"),
        ("tools.jsonl", b"song", b"mine"),
        ("retrievers/bm25/tools.json", b"mail", b"mine"),
    ],
)
def test_a_damaged_version_is_refused_with_a_remedy(tmp_path, name, old, new):
    path = tmp_path / "versions" / write_pack(tmp_path) / name
    if new is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes().replace(old, new) if old else new)
    with pytest.raises(InputError, match=f"{name}: .*toolbank pack RUN"):
        Finder.open(tmp_path)


def save_array(array):
    made = io.BytesIO()
    np.save(made, array)
    return made.getvalue()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("offsets.npy", lambda _: save_array(np.arange(4))),
        ("offsets.npy", lambda _: save_array(np.array([{}] * 9))),
        ("offsets.npy", lambda _: b"PK\3\4"),
        ("tools.jsonl", lambda old: old[:-9]),
        ("tools.jsonl", lambda old: b"x" * len(old)),
        ("tools.jsonl", lambda _: b""),
        ("facets.json", lambda _: b"[]"),
        ("called.json", lambda _: b"{}"),
        ("requests.jsonl", lambda _: b"[1]\n"),
        ("requests.jsonl", lambda _: b"{\n"),
        ("uncalibrated.json", lambda _: b"[1]"),
        ("retrievers/other/tools.json", lambda old: old.replace(b"mail", b"mine")),
        ("pack.json", None),
    ],
)
def test_a_version_with_the_right_hashes_of_wrong_files_is_refused(
    tmp_path, name, change
):
    retriever = create_retriever(Bm25Config())
    retriever.fit(Bank(TOOLS))
    both = {"bm25": retriever, "other": retriever}
    version = Finder(both, TOOLS, RequestIndex.of(REQUESTS)).pack(tmp_path)
    place = version_folder(tmp_path, version)
    manifest = read_manifest(place)
    if change is None:
        manifest = replace(manifest, retrievers=())
    else:
        (place / name).write_bytes(change((place / name).read_bytes()))
        files = [(one, sha256_file(place / one)) for one, _ in manifest.files]
        manifest = replace(manifest, files=tuple(files))
    write_manifest(place, manifest)
    place.rename(version_folder(tmp_path, manifest.version))
    switch(tmp_path, manifest.version)
    with pytest.raises(InputError, match=r"damaged .*Pack it again"):
        Finder.open(tmp_path).search("send a letter")


def test_another_layout_is_named_and_written_over(tmp_path):
    write_pack(tmp_path)
    mark = json.loads((tmp_path / "finder.json").read_text())
    (tmp_path / "finder.json").write_text(json.dumps({**mark, "layout": 99}))
    with pytest.raises(InputError, match=r"99.*toolbank pack RUN"):
        Finder.open(tmp_path)
    version = write_pack(tmp_path, TOOLS[:4])
    assert Finder.open(tmp_path).version == version
    assert len(list((tmp_path / "versions").glob("[!.]*"))) == 1


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
    place = tmp_path / "finder" / "versions" / write_pack(tmp_path / "finder")
    Finder.open(tmp_path / "finder")
    with forbidden(place), pytest.raises(InputError, match="ermission denied"):
        Finder.open(tmp_path / "finder")
    with forbidden(tmp_path):
        for use in (is_finder, Finder.open, check_free, write_pack):
            with pytest.raises(ToolbankError, match="ermission denied"):
                use(tmp_path / "finder")
