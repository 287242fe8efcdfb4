import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus_files import CORPUS, check_expected, corpus_files
from tests.shared import shared
from tests.sources.cases import read_cases
from toolbank.sources.sphinx.pages.fields import read_syntax
from toolbank.sources.sphinx.pages.page import Page, ShapeError
from toolbank.sources.typetext import parameters_schema


def read(html, anchor, role):
    """The object with this anchor on a page that has only this in its body."""
    found = Page(f"<!doctype html><body>{html}", "api.html").read(anchor, role)
    if found is None:
        return None
    tool = found.documented.as_tool(
        anchor, found.kind or "object", found.signature, found.documented.parameters
    )
    shown = tool.model_dump(exclude_defaults=True, exclude={"name"})
    return {**shown, "kind": found.kind, "value": found.value}


@pytest.mark.parametrize("file", corpus_files("sphinx"), ids=lambda file: file.stem)
def test_objects_of_a_page_are_read_as_expected(file, update_corpus):
    """A title ends in the anchor and role of what is read: "TITLE: ANCHOR ROLE, ..."."""
    found = {}
    for title, html in read_cases(file).items():
        name, _, objects = title.partition(": ")
        for one in objects.split(", "):
            found[f"{name}: {one}"] = read(html, *one.split(" "))
    expected = file.with_name(f"{file.stem}.tools.json")
    check_expected(expected, found, update=update_corpus)


@pytest.mark.parametrize(
    "html",
    [
        *(f"{tag * 50_000}<p>x" for tag in ("<div>", "<ul><li>", "<em>")),
        "".join(f"<b id='{number}'>" for number in range(50_000)),
        "<!--" + "</b>" * 40_000 + "-->" + "<b>" * 40_000,
        "".join(f"<b x='</b>{number}'>" for number in range(40_000)),
        "<p " + " ".join(f"a{number}=1" for number in range(40_000)) + ">",
        "<p " + " ".join(f'a{number}=">"' for number in range(40_000)) + ">",
    ],
)
def test_what_would_take_the_parser_minutes_is_refused(html):
    with pytest.raises(ShapeError):
        Page(html, "api.html")


def test_syntax_with_escapes_comments_and_recursion(update_corpus):
    file = CORPUS / "types" / "syntax" / "escapes.txt"
    found = read_syntax(file.read_text("utf-8"))
    check_expected(file.with_suffix(".tools.json"), found, update=update_corpus)


def _as_list(item):
    text, schema = item
    return f"[{text},]", {"type": "array", "items": schema}


def _as_object(items):
    text = ", ".join(f"'{key}': {item[0]}" for key, item in items.items())
    members = {key: item[1] for key, item in items.items()}
    return f"{{{text}}}", {"type": "object", "properties": members}


names = st.from_regex(r"[A-Z]\w{0,4}", fullmatch=True)
schemas = st.recursive(
    st.sampled_from(
        [
            ("'string'", {"type": "string"}),
            ("'a'|'b'", {"type": "string", "enum": ["a", "b"]}),
            ("True|False", {"type": "boolean"}),
            ("123", {"type": "integer"}),
        ]
    ),
    lambda inner: (
        inner.map(_as_list) | st.dictionaries(names, inner, max_size=4).map(_as_object)
    ),
    max_leaves=12,
)


@given(schemas)
def test_a_syntax_gives_the_structure_that_it_was_written_from(written):
    text, schema = written
    assert read_syntax(f"client.f(X={text})")["properties"] == {"X": schema}
    assert read_syntax(text) == schema


def test_every_method_of_a_real_service_has_what_its_page_shows():
    with tarfile.open(shared("docs/boto3.tar.xz")) as archive:
        pages = {
            Path(path).stem: archive.extractfile(path).read().decode("utf-8")
            for path in archive.getnames()
            if "reference/services/sns/client/" in path and path.endswith(".html")
        }
    for path, html in pages.items():
        found = Page(html, path).read(f"SNS.Client.{path}", "method")
        assert found is not None
        assert found.documented.summary, path
        schema = parameters_schema(found.documented.parameters)
        if "Request Syntax" in html:
            assert _marks(schema) == html.count("[REQUIRED]"), path
            assert "REQUIRED" not in str(schema)
        for title, values in (
            ("Exceptions", found.documented.raises),
            ("Examples", found.documented.examples),
        ):
            if f"<h3>{title}" in html:
                assert values, path
        if "Response Structure" in html:
            assert found.documented.returns[0].structure, path
    assert len(pages) > 40


def _marks(schema):
    inner = [*schema.get("properties", {}).values()]
    inner += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    return len(schema.get("required", [])) + sum(map(_marks, inner))
