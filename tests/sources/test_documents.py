import json
from pathlib import Path
from typing import ClassVar

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.corpus_files import check_expected, corpus_files
from toolbank.sources import document_parser as parse
from toolbank.sources.document_parser import Loader
from toolbank.sources.documents import Documents
from toolbank.system.errors import InputError

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
    ),
    max_leaves=12,
)
documents = st.dictionaries(texts, values, max_size=4) | st.lists(values, max_size=4)


def parse_document(data, where):
    value, repeated = parse.parse_document(data, where)
    assert not repeated
    return value


class Yaml12Dumper(yaml.SafeDumper):
    """Quotes texts that YAML 1.2 takes for numbers, such as 0E0, which SafeDumper does not."""

    yaml_implicit_resolvers: ClassVar = Loader.yaml_implicit_resolvers


@given(documents)
def test_json_is_read_to_what_was_written(value):
    assert parse_document(json.dumps(value).encode(), "a.json") == value
    assert parse_document(json.dumps(value).encode("utf-16"), "a.json") == value


@given(documents)
def test_yaml_is_read_to_what_was_written(value):
    text = yaml.dump(value, Dumper=Yaml12Dumper, default_flow_style=False)
    # What begins so is taken for a web page.
    assume(not text.startswith("<"))
    # An empty list or mapping looks like JSON, and is read as that.
    assert parse_document(text.encode(), "a.yaml") == value


@given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "replace")))
def test_anything_else_is_refused_by_a_message_that_names_it(data):
    try:
        value, _ = parse.parse_document(data, "the-file")
    except InputError as error:
        assert str(error).startswith("the-file")
    else:
        assert isinstance(value, dict | list)


@pytest.mark.parametrize("file", corpus_files("documents"), ids=lambda file: file.name)
def test_a_document_is_read_as_expected(file, update_corpus):
    value, repeated = parse.parse_document(file.read_bytes(), file.name)
    expected = file.with_name(f"{file.name}.tools.json")
    found = {"value": value, "repeated": repeated}
    check_expected(expected, found, update=update_corpus)


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("# nothing\n", "is empty"),
        ("<!doctype html><html>", "is a web page (HTML or XML)"),
        ("just words", "not a mapping or a list"),
        ('{"a": 1,}', "line 1, column 9: not valid JSON"),
        ('{"a": NaN}', "NaN is not"),
        ("a: [1\nb: 2", "line 2, column 2: not valid YAML"),
        ("a:\n  - b: 1\n\t  c: 2", "line 3, column 1: not valid YAML (a tab"),
        ("a: 1\n--- # next\nb: 2\n", "line 2, column 1: not valid YAML (several"),
        ("a: &x [*x]", "line 1, column 4: an alias"),
        ("? [a]\n: 1", "line 1, column 3: a key"),
        ("[" * 200_000, "nested too deep"),
        ("a: " + "[" * 30_000 + "]" * 30_000, "nested too deep"),
        ("a: " + "[" * 30_000, "nested too deep"),
        ("a: " + '["]", ' * 30_000, "nested too deep"),
        ("a: " + "[ # ]\n " * 30_000, "nested too deep"),
        ("- " * 30_000 + "a", "nested too deep"),
        ("\n".join(" " * n + "a:" for n in range(2_000)), "nested too deep"),
        ('{"a": 1e999}', "1e999"),
        ("a\0b", "is not text"),
        (BOMB, "aliases expanded"),
    ],
)
def test_what_can_not_be_read_is_told_with_its_line(text, said):
    with pytest.raises(InputError) as caught:
        parse_document(text.encode(), "spec")
    assert str(caught.value).startswith("spec")
    assert said in str(caught.value)


def write(folder, **files):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return Documents()


def test_files_beside_a_document_are_read_once(tmp_path):
    documents = write(tmp_path / "api", spec={"a": 1}, other={"b": 2})
    (tmp_path / "api" / "in").mkdir()
    (tmp_path / "api" / "in" / "deep er.yaml").write_text("c: 3")
    spec = documents.open(str(tmp_path / "api" / "spec.json"))
    assert spec.content == {"a": 1}
    other = documents.follow(spec, "./other.json")
    assert other.content == {"b": 2}
    deeper = documents.follow(other, "in/deep%20er.yaml")
    assert deeper.content == {"c": 3}
    assert documents.follow(deeper, "../other.json") is other
    assert documents.follow(deeper, "../spec.json") is spec


def test_no_file_outside_of_the_folder_is_read(tmp_path):
    write(tmp_path, secret={"key": 1})
    documents = write(tmp_path / "api", spec={})
    (tmp_path / "api" / "link.json").symlink_to(tmp_path / "secret.json")
    (tmp_path / "api" / "up").symlink_to(tmp_path)
    spec = documents.open(str(tmp_path / "api" / "spec.json"))
    for reference in (
        "../secret.json",
        "link.json",
        "up/secret.json",
        "%2e%2e/secret.json",
        str(tmp_path / "secret.json"),
        f"file://{tmp_path}/secret.json",
    ):
        with pytest.raises(InputError, match=r"outside of .*`root:`"):
            documents.follow(spec, reference)


@pytest.mark.parametrize(
    "reference",
    [
        *("http://127.0.0.1:9/a.json", "ftp://x/a.json"),
        *("https://me:s3cr3t@x.example/a", "//x.example/a?token=s3cr3t"),
    ],
)
def test_a_file_leads_to_no_host_that_was_not_named(tmp_path, reference):
    documents = write(tmp_path, spec={})
    spec = documents.open(str(tmp_path / "spec.json"))
    with pytest.raises(InputError, match=r"spec\.json: \$ref to .*/a") as caught:
        documents.follow(spec, reference)
    assert "s3cr3t" not in str(caught.value)


def test_what_is_no_file_that_can_be_read_is_told(tmp_path):
    for place, said in (
        (tmp_path, "is a folder"),
        (tmp_path / "absent.json", "No such file"),
        (Path("/dev/zero"), "is not a regular file"),
    ):
        with pytest.raises(InputError, match=said):
            Documents().open(str(place))
