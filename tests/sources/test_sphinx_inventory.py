"""objects.inv: read as the reference library reads it, and hostile ones told."""

import tarfile

import pytest
import sphobjinv

from tests.shared import shared
from tests.sources.sphinx_server import pack_inventory
from toolbank.sources.sphinx.inventory import read_inventory
from toolbank.system.errors import InputError

URL = "https://sample.example/objects.inv"


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
    ("line", "shown", "place"),
    [
        ("a.f py:function 1 api.html#$ -", "py:function a.f", "api.html#a.f"),
        ("two words std:label -1 x.html#w Two", "std:label two words", "x.html#w"),
        (
            "/u/(int:id) http:get 1 api.html#get--u --",
            "http:get /u/(int:id)",
            "api.html#get--u",
        ),
        ("x py:data 1 #document-api#$ -", "py:data x", "index.html#x"),
        ("a%20b py:data 1 a%20b.html#$ -", "py:data a%20b", "a b.html#a b"),
        ("no object at all", "no object at all", "#"),
        ("f py:function one api.html -", "f py:function one api.html -", "#"),
    ],
)
def test_a_line_is_an_object_or_kept_as_it_is(line, shown, place):
    (found,) = read_inventory(pack_inventory(line), URL).objects
    assert (str(found), f"{found.page}#{found.anchor}") == (shown, place)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"<html>", "does not begin as one"),
        (pack_inventory("x")[:-4], "ends too early"),
        (pack_inventory("a" * 70_000_000), "unpacks to more than"),
        (pack_inventory("x\n" * 500_001), "more than 500,000"),
    ],
)
def test_what_is_no_inventory_is_told_with_its_address(data, told):
    with pytest.raises(InputError, match=rf"{URL}: not a Sphinx inventory \(.*{told}"):
        read_inventory(data, URL)


def test_a_hostile_line_is_read_at_once():
    line = "a" + " " * 1_000_000 + "b " * 100_000
    (found,) = read_inventory(pack_inventory(line), URL).objects
    assert found.domain == ""
