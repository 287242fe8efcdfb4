"""objects.inv: read as the reference library reads it, and hostile ones told."""

import tarfile
import zlib

import pytest
import sphobjinv

from tests.shared import shared
from toolbank.sources.sphinx.inventory import (
    INVENTORY_HEAD,
    InventoryObject,
    read_inventory,
)
from toolbank.system.errors import InputError

URL = "https://sample.example/objects.inv"


def packed(*lines):
    head = INVENTORY_HEAD + b"\n# Project: a b\n# Version: 1.2\n# with zlib\n"
    return head + zlib.compress("\n".join(lines).encode())


@pytest.mark.parametrize("site", ["numpy", "pandas", "boto3"])
def test_reads_a_real_inventory_as_the_reference_library_does(site):
    with tarfile.open(shared(f"docs/{site}.tar.xz")) as pages:
        file = pages.extractfile(f"{site}/objects.inv")
        assert file is not None
        data = file.read()
    read = read_inventory(data, URL)
    expected = sphobjinv.Inventory(zlib=data)
    assert (read.project, read.version) == (expected.project, expected.version)
    assert [
        (item.domain, item.role, item.name, f"{item.page}#{item.anchor}".rstrip("#"))
        for item in read.objects
    ] == [
        (item.domain, item.role, item.name, item.uri_expanded)
        for item in expected.objects
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "a.f py:function 1 api.html#$ -",
            ("py", "function", "a.f", "api.html", "a.f"),
        ),
        (
            "two words std:label -1 x.html#two-words Two words",
            ("std", "label", "two words", "x.html", "two-words"),
        ),
        (
            "/users/(int:id) http:get 1 api.html#get--users --",
            ("http", "get", "/users/(int:id)", "api.html", "get--users"),
        ),
        (
            "x py:data 1 #document-api#$ -",
            ("py", "data", "x", "index.html", "x"),
        ),
        ("a%20b py:data 1 a%20b.html#$ -", ("py", "data", "a%20b", "a b.html", "a b")),
        ("no object at all", ("", "", "no object at all", "", "")),
        (
            "f py:function one api.html -",
            ("", "", "f py:function one api.html -", "", ""),
        ),
    ],
)
def test_a_line_is_an_object_or_kept_as_it_is(line, expected):
    (found,) = read_inventory(packed(line), URL).objects
    assert (found.domain, found.role, found.name, found.page, found.anchor) == expected
    assert str(InventoryObject("", "", line, "", "")) == line


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"<html>", "does not begin as one"),
        (packed("x")[:-4], "ends too early"),
        (packed("a" * 70_000_000), "unpacks to more than"),
        (packed(*["x"] * 500_001), "more than 500,000"),
    ],
)
def test_what_is_no_inventory_is_told_with_its_address(data, told):
    with pytest.raises(InputError, match=rf"{URL}: not a Sphinx inventory \(.*{told}"):
        read_inventory(data, URL)


def test_a_hostile_line_is_read_at_once():
    line = "a" + " " * 1_000_000 + "b " * 100_000
    (found,) = read_inventory(packed(line), URL).objects
    assert found.domain == ""
