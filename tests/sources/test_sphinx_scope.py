import json
import re
import tarfile

import pytest
import sphobjinv
import yaml

from tests.corpus_files import check_expected, corpus_files
from tests.shared import shared
from tests.sources.cases import read_cases
from tests.sources.sphinx_server import pack_inventory
from toolbank.sources.documented import Documented
from toolbank.sources.site import Objects, Site, narrowed
from toolbank.sources.sphinx.guess import guess_site, site_yaml
from toolbank.sources.sphinx.inventory import (
    Inventory,
    InventoryEntry,
    InventoryObject,
    SiteScope,
    read_inventory,
    select,
)
from toolbank.sources.sphinx.pages.page import PageObject
from toolbank.sources.sphinx.tools import Crawl, read_tools
from toolbank.system.errors import InputError

URL = "https://sample.example/doc/"


def listed(kind, name, page="api.html"):
    domain, role = kind.split(":")
    return InventoryObject(domain, role, name, page, name)


def inventory(*objects):
    return Inventory("Sample", "1.2", objects)


def site(**rules):
    lowercase = rules.pop("lowercase", False)
    objects = Objects(**{"roles": ("function", "method"), **rules})
    return Site(base_url=URL, objects=objects, lowercase=lowercase)


ALL = (
    listed("py:function", "pkg.load"),
    listed("py:function", "pkg.sub.save"),
    listed("py:method", "pkg.Box.open", "box.html"),
    listed("py:method", "pkg.Box._secret", "box.html"),
    listed("py:function", "pkg._low.level"),
    listed("py:function", "other.load"),
)


@pytest.mark.parametrize("file", corpus_files("inventories"), ids=lambda one: one.stem)
def test_objects_are_chosen_as_expected(file, update_corpus):
    """By each of the rules, which may be narrowed as by a recipe; null leaves them to a guess."""
    case = read_cases(file)
    read = read_inventory(pack_inventory(f"{case['objects']}\n"), URL)
    found = {}
    for line in case["rules"].splitlines():
        given = json.loads(line)
        narrow = given.pop("narrowed", None) if given else None
        rules = guess_site(read, URL) if given is None else site(**given)
        scope = select(read, narrowed(rules, *narrow) if narrow else rules)
        found[line] = {
            "chosen": [entry.name for entry in scope.entries.values()],
            "left out": {why: [*map(str, of)] for why, of in scope.left_out.items()},
        }
    expected = file.with_name(f"{file.stem}.tools.json")
    check_expected(expected, found, update=update_corpus)


def test_the_guessed_rules_are_a_file_that_chooses_the_same():
    found = inventory(*ALL, listed("py:attribute", "pkg.Box.size"))
    rules = narrowed(guess_site(found, URL), ("pkg",), ("pkg.sub",))
    scope = select(found, rules)
    text = site_yaml(scope)
    again = Site.model_validate(yaml.safe_load(text))
    assert select(found, again).entries == scope.entries
    assert re.search(r"function 4, method 2, attribute 1", text)
    found = Inventory("x\nobjects: {evil: 1}", "1\u2028y: z", ALL)
    text = site_yaml(select(found, guess_site(found, URL)))
    assert set(yaml.safe_load(text)) == {"base_url", "objects"}


def test_what_makes_no_rules_is_told():
    found = inventory(listed("std:doc", "a"), listed("std:label", "b"))
    for one, said in ((found, "std:doc 1, std:label 1"), (inventory(), "it is empty")):
        with pytest.raises(InputError, match=rf"that can be called \({said}\)"):
            guess_site(one, URL)
    with pytest.raises(ValueError, match=r"no role 'get' in the py domain"):
        Objects(roles=("get",))


def test_names_of_one_object_are_told_from_set_phrases():
    def page(name, place, role="function"):
        item = InventoryObject("py", role, name, place, name)
        words = Documented(summary="Adds up what it is given.", examples=">>> f(1)")
        found = PageObject("function", "(x)", "", words)
        return InventoryEntry(name, role, place, name, objects=(item,)), found

    members = [
        *(page("pkg.add", "1"), page("pkg.plus", "2"), page("pkg.sub.add", "3")),
        *(page("pkg.minus", "2"), page("other.add", "4")),
        *(page("pkg.Box.add", "5", "method"), page("pkg.Bag.add", "6", "method")),
    ]
    entries = {(entry.page, entry.anchor): entry for entry, _ in members}
    crawl = Crawl("sphinx:a", URL, scope=SiteScope(site(), inventory(), entries, ()))
    crawl.objects = {(entry.page, entry.anchor): found for entry, found in members}
    tools = {tool.name: tool.aliases for tool in read_tools(crawl)[0]}
    assert tools == {
        "pkg.add": ("pkg.plus", "pkg.sub.add"),
        **dict.fromkeys(("pkg.minus", "other.add", "pkg.Box.add", "pkg.Bag.add"), ()),
    }


INVENTORY_URL = "https://sample.example/objects.inv"


@pytest.mark.parametrize("site", ["numpy", "pandas", "boto3"])
def test_reads_a_real_inventory_as_the_reference_library_does(site):
    with tarfile.open(shared(f"docs/{site}.tar.xz")) as pages:
        file = pages.extractfile(f"{site}/objects.inv")
        assert file is not None
        data = file.read()
    read = read_inventory(data, INVENTORY_URL)
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
    (found,) = read_inventory(pack_inventory(line), INVENTORY_URL).objects
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
    with pytest.raises(
        InputError, match=rf"{INVENTORY_URL}: not a Sphinx inventory \(.*{told}"
    ):
        read_inventory(data, INVENTORY_URL)


def test_a_hostile_line_is_read_at_once():
    line = "a" + " " * 1_000_000 + "b " * 100_000
    (found,) = read_inventory(pack_inventory(line), INVENTORY_URL).objects
    assert found.domain == ""
