"""objects.inv: what it lists, and which of its objects can be tools."""

import re
import tarfile

import pytest
import sphobjinv
import yaml

from tests.shared import shared
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


def chosen(site, *objects):
    entries = select(inventory(*objects), site).entries.values()
    return [entry.name for entry in entries]


ALL = (
    listed("py:function", "pkg.load"),
    listed("py:function", "pkg.sub.save"),
    listed("py:method", "pkg.Box.open", "box.html"),
    listed("py:method", "pkg.Box._secret", "box.html"),
    listed("py:function", "pkg._low.level"),
    listed("py:function", "other.load"),
)


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        ({"parents": ("pkg",)}, {"pkg.load"}),
        ({"include": ("pkg.Box",)}, {"pkg.Box.open", "pkg.Box._secret"}),
        ({"exclude": ("*._*", "other", "pkg.sub")}, {"pkg.load", "pkg.Box.open"}),
        ({"pages": ("box*",)}, {"pkg.Box.open", "pkg.Box._secret"}),
        ({"roles": ("method",), "exclude": ("*._*",)}, {"pkg.Box.open"}),
    ],
)
def test_rules_choose_by_role_parent_name_and_page(rules, names):
    assert set(chosen(site(**rules), *ALL)) == names


def test_everything_left_out_has_its_reason():
    scope = select(inventory(*ALL), site(include=("pkg",), exclude=("pkg.sub",)))
    assert {
        reason: [str(item) for item in items]
        for reason, items in scope.left_out.items()
    } == {
        "excluded": ["py:function pkg.sub.save"],
        "not included": ["py:function other.load"],
    }


def test_lowercase_names_are_what_the_rules_see():
    client = listed("py:method", "EC2.Client.run_instances")
    rules = site(lowercase=True, include=("ec2.client",))
    assert chosen(rules, client) == ["ec2.client.run_instances"]


def test_a_recipe_narrows_what_a_site_takes():
    rules = narrowed(site(exclude=("pkg._low",)), ("pkg",), ("pkg.Box",))
    assert set(chosen(rules, *ALL)) == {"pkg.load", "pkg.sub.save"}


def test_without_rules_all_that_can_be_called_by_a_public_name_is_taken():
    found = inventory(
        *ALL,
        listed("py:class", "pkg.Box"),
        listed("py:exception", "pkg.Error"),
        listed("py:property", "pkg.Box.size"),
        listed("py:data", "pkg.ufunc"),
        listed("std:doc", "api"),
        listed("c:function", "pkg_load"),
    )
    entries = select(found, guess_site(found, URL)).entries.values()
    assert {entry.name for entry in entries} == {
        *("pkg.load", "pkg.sub.save", "pkg.Box.open", "other.load"),
        *("pkg.Box", "pkg.ufunc"),
    }


@pytest.mark.parametrize(
    ("objects", "domain", "names"),
    [
        ("js:function draw, std:doc a", "js", "draw"),
        ("c:function f, c:function g, py:function h", "c", "f, g"),
        (
            "http:get /u/(id), http:delete /u/(id)",
            "http",
            "GET /u/(id), DELETE /u/(id)",
        ),
    ],
)
def test_the_domain_that_has_most_to_call_counts(objects, domain, names):
    found = [
        listed(*one.split(" "), f"{number}.html")
        for number, one in enumerate(objects.split(", "))
    ]
    rules = guess_site(inventory(*found), URL)
    assert rules.objects.domain == domain
    assert ", ".join(chosen(rules, *found)) == names


def test_the_guessed_rules_are_a_file_that_chooses_the_same():
    found = inventory(*ALL, listed("py:attribute", "pkg.Box.size"))
    rules = narrowed(guess_site(found, URL), ("pkg",), ("pkg.sub",))
    scope = select(found, rules)
    text = site_yaml(scope)
    again = Site.model_validate(yaml.safe_load(text))
    assert select(found, again).entries == scope.entries
    assert re.search(r"function 4, method 2, attribute 1", text)


def test_a_project_name_stays_in_its_comment():
    found = Inventory("x\nobjects: {evil: 1}", "1\u2028y: z", ALL)
    text = site_yaml(select(found, guess_site(found, URL)))
    assert set(yaml.safe_load(text)) == {"base_url", "objects"}


def test_a_site_of_prose_is_told_what_it_has():
    found = inventory(listed("std:doc", "a"), listed("std:label", "b"))
    for one, said in ((found, "std:doc 1, std:label 1"), (inventory(), "it is empty")):
        with pytest.raises(InputError, match=rf"that can be called \({said}\)"):
            guess_site(one, URL)


def test_a_role_of_another_domain_is_told():
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
