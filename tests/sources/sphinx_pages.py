"""Pieces of real pages, and the objects that they document."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator

from tests.shared import shared
from toolbank.sources.sphinx.pages.page import Page, PageObject
from toolbank.sources.typetext import parameters_schema

SIGNED = """<span class="sig-prename descclassname"><span class="pre">a.</span></span><span
class="sig-name descname"><span class="pre">f</span></span><span class="sig-paren">(</span>{}<span
class="sig-paren">)</span><a class="headerlink" href="#a.f">¶</a>"""


def read_object(html: str, anchor: str = "a.f", role: str = "function") -> PageObject:
    """The object with this anchor on a page that has only this in its body."""
    found = Page(f"<!doctype html><body>{html}", "api.html").read(anchor, role)
    assert found is not None
    return found


def function(body: str, *parameters: str) -> PageObject:
    """A function `a.f` with these parameters in its signature and this body."""
    listed = ", ".join(f'<em class="sig-param">{text}</em>' for text in parameters)
    heading = f'<dt class="sig sig-object py" id="a.f">{SIGNED.format(listed)}</dt>'
    return read_object(f'<dl class="py function">{heading}<dd>{body}</dd></dl>')


def field(title: str, body: str) -> str:
    """A field list with one field, as Sphinx 5 and later write it."""
    return (
        f'<dl class="field-list"><dt class="field-odd">{title}<span class="colon">:'
        f'</span></dt><dd class="field-odd">{body}</dd></dl>'
    )


def properties(found: PageObject) -> dict[str, object]:
    """The schemas of an object's parameters by name."""
    schema: dict[str, object] = parameters_schema(found.documented.parameters)
    assert isinstance(schema["properties"], dict)
    return schema["properties"]


def required(found: PageObject) -> list[str]:
    """The names of the parameters that must be given."""
    names: list[str] = parameters_schema(found.documented.parameters).get(
        "required", []
    )
    return names


def real_pages(site: str, folder: str) -> Iterator[tuple[str, str]]:
    """Path and text of a real site's pages below a folder."""
    with tarfile.open(shared(f"docs/{site}.tar.xz"), mode="r|xz") as pages:
        for member in pages:
            _, _, path = member.name.removeprefix("./").partition("/")
            if path.startswith(folder) and path.endswith(".html"):
                file = pages.extractfile(member)
                assert file is not None
                yield path, file.read().decode("utf-8")
