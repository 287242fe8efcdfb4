"""One rule says which folders are toolbank's, and no file of a user is lost in any."""

import hashlib
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolbank.system.errors import InputError
from toolbank.system.folders import (
    MARK,
    RUN,
    FolderKind,
    check_folder,
    claim_folder,
    is_of_kind,
    remove_files,
    replacing,
)

KIND = FolderKind("heap", former="heap.json")
NAMES = ("a.txt", "A.txt", "deep/b.txt", "deep/er/c.txt", ".hidden", "e.txt")
# What a stranger's mark may list; `out` is a link to the folder of the victim.
STRANGE = (
    *("../victim/v.txt", "/etc/hostname", "out/v.txt", "deep/../../victim/v.txt"),
    *("..", ".", "", "nul\0l", "half\ud800", "x" * 300, MARK),
)
STATES = ("left", "changed", "missing", "mine", "link")
TREES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(STATES))
MADE = st.sets(st.sampled_from((*NAMES[:4], "out")), min_size=1)
MARKS = st.sampled_from(("ours", "former", "other", "damaged", "none"))
VICTIM = "not in the folder"


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def seen(folder):
    """Every file and link under a folder."""
    return {
        path.relative_to(folder).as_posix(): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        for path in folder.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def lay(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def lay_tree(place, tree, mark, strange):
    """A folder with a mark, files and links; gives the names that may be replaced."""
    folder = place / "folder"
    folder.mkdir(parents=True)
    lay(place / "victim" / "v.txt", VICTIM)
    files = dict.fromkeys(strange, sha256(VICTIM))
    if "out/v.txt" in strange:
        (folder / "out").symlink_to(place / "victim")
    for name, state in tree.items():
        if state == "link":
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(place / "victim" / "v.txt")
            files[name] = sha256(VICTIM)
        elif state != "missing":
            lay(folder / name, "changed" if state == "changed" else name)
        if state in ("left", "changed", "missing"):
            files[name] = sha256(name)
    texts = {
        "ours": (MARK, json.dumps({"kind": "heap", "files": files})),
        "former": (KIND.former, json.dumps({"files": list(files.items())})),
        "other": (MARK, json.dumps({"kind": "pile", "files": files})),
        "damaged": (MARK, '{"kind": "heap", "files": [1'),
    }
    if mark in texts:
        lay(folder / texts[mark][0], texts[mark][1])
    if mark not in ("ours", "former"):
        return set()
    return {name for name, state in tree.items() if state == "left"}


def is_free(tree, mark, strange):
    laid = [name for name, state in tree.items() if state != "missing"]
    counting = [name for name in laid if not name.startswith(".")]
    return mark != "damaged" and not counting and "out/v.txt" not in strange


@given(
    tree=TREES,
    mark=MARKS,
    strange=st.sets(st.sampled_from(STRANGE), max_size=2),
    made=MADE,
    whole=st.booleans(),
)
@example({"a.txt": "left"}, "ours", {"out/v.txt"}, {"a.txt"}, True)
@example({"a.txt": "left"}, "former", set(), {"e.txt"}, True)
@example({"deep/b.txt": "left", "deep/er/c.txt": "mine"}, "ours", set(), {"e.txt"}, 1)
@example({"a.txt": "changed"}, "ours", set(), {"e.txt"}, False)
@example({}, "other", set(), {"a.txt"}, False)
def test_only_what_is_unchanged_is_ever_replaced(tree, mark, strange, made, whole):
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        replaceable = lay_tree(place, tree, mark, strange)
        folder, before = place / "folder", seen(place)
        try:
            with replacing(folder, KIND, whole=whole) as new:
                for one in made:
                    lay(new / one, "new")
        except InputError:
            assert seen(place) == before
            # What can be replaced isn't refused.
            mine = {k for k, v in tree.items() if v in ("changed", "mine", "link")}
            assert strange or mark == "damaged" or mine or not is_of_kind(folder, KIND)
            return
        after = seen(place)
        for path, content in before.items():
            inner = path.removeprefix("folder/")
            if inner not in (*replaceable, MARK, KIND.former):
                assert after[path] == content, path
        assert is_of_kind(folder, KIND)
        assert mark in ("ours", "former") or is_free(tree, mark, strange)
        assert not (folder / KIND.former).exists()
        assert all(after[f"folder/{one}"] == b"new" for one in made)
        listed = json.loads((folder / MARK).read_text())["files"]
        assert {one: sha256("new") for one in made}.items() <= listed.items()
        if whole:
            kept = {one for one in replaceable if f"folder/{one}" in after}
            assert kept <= made
        with replacing(folder, KIND, whole=whole) as new:
            for one in made:
                lay(new / one, "newer")


@given(tree=TREES, mark=MARKS, strange=st.sets(st.sampled_from(STRANGE), max_size=2))
def test_a_claim_and_a_removal_touch_nothing_of_the_users(tree, mark, strange):
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        replaceable = lay_tree(place, tree, mark, strange)
        folder, before = place / "folder", seen(place)
        try:
            files = claim_folder(folder, KIND)
        except InputError:
            assert seen(place) == before
            return
        remove_files(folder, files, folder)
        after = seen(place) if folder.exists() else {}
        gone = {f"folder/{one}" for one in (*replaceable, MARK, KIND.former)}
        assert {k: v for k, v in before.items() if k not in gone} == {
            k: v for k, v in after.items() if k not in gone
        }
        assert not {f"folder/{one}" for one in replaceable} & after.keys()


@pytest.mark.parametrize("name", STRANGE[:9])
def test_a_list_without_a_mark_deletes_nothing_outside_either(tmp_path, name):
    lay_tree(tmp_path, {"a.txt": "left"}, "none", {"out/v.txt"})
    before = seen(tmp_path)
    remove_files(tmp_path / "folder", {name: sha256(VICTIM)}, tmp_path / "folder")
    assert seen(tmp_path) == before


def test_a_mark_that_is_a_link_is_refused(tmp_path):
    lay(tmp_path / "mine.json", '{"kind": "heap", "files": {}}')
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / MARK).symlink_to(tmp_path / "mine.json")
    with pytest.raises(InputError, match=r"toolbank\.json: not what toolbank leaves"):
        claim_folder(tmp_path / "folder", KIND)


def test_a_folder_of_another_kind_is_refused(tmp_path):
    with replacing(tmp_path, KIND) as made:
        lay(made / "a.txt", "new")
    with pytest.raises(InputError, match=r"holds a\.txt, and is not the folder of a"):
        check_folder(tmp_path, RUN)


@pytest.mark.parametrize("left", ["origin.json", "stages.json", ".lock.owner"])
def test_a_run_without_a_mark_is_known_by_what_it_leaves_and_gets_one(tmp_path, left):
    content = {
        "origin.json": {"name": "a", "seed": 0, "recipe_sha256": ""},
        "stages.json": {"sources": {"key": "", "complete": True, "outputs": {}}},
    }
    text = json.dumps(content[left]) if left in content else "process 1 on here"
    lay(tmp_path / left, text)
    lay(tmp_path / "bank" / "tools.parquet", "tools")
    before = seen(tmp_path)
    claim_folder(tmp_path, RUN)
    assert json.loads((tmp_path / MARK).read_text()) == {"kind": "run", "files": {}}
    (tmp_path / MARK).unlink()
    assert seen(tmp_path) == before
    assert is_of_kind(tmp_path, RUN)
