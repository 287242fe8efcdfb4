"""A site that changes while a run lives."""

import os
import time

import pytest

from tests.commands.in_process import do
from tests.sources.sphinx_server import (
    PAGE,
    SiteServer,
    described,
    signed,
    write_inventory,
    write_small_site,
)
from toolbank.run.recipe import load_recipe
from toolbank.run.refresh import refresh_run
from toolbank.run.run import run_recipe


@pytest.fixture
def server(tmp_path):
    write_small_site(tmp_path, pages=6)
    with SiteServer(tmp_path / "site") as server:
        yield server


def renew(path):
    later = time.time() + 60
    os.utime(path, (later, later))


def test_a_folder_whose_cache_a_plan_has_filled_is_planned_and_run(tmp_path, server):
    source = f"sources: [{{type: sphinx, base_url: '{server.url}'}}]"
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(f"name: mine\n{source}\ngenerate: {{engine: rules}}\n")
    for command in (("plan",), ("plan",), ("run", "--until", "sources")):
        do(tmp_path, command[0], "mine.yaml", *command[1:])
    assert len(server.asked) == len(set(server.asked))


def test_pages_are_asked_for_again_though_they_were_read_a_moment_ago(tmp_path, server):
    site, out = tmp_path / "site", tmp_path / "run"
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        f"name: mine\nsources: [{{type: sphinx, base_url: '{server.url}'}}]\n"
        "generate: {engine: rules}\n"
    )
    run_recipe(load_recipe(str(recipe)), out, until="sources")

    def write_page(name, words):
        page = site / f"{name}.html"
        page.write_text(PAGE.format(described(name, words, signed("a"))), "utf-8")
        renew(page)

    write_page("small.f1", "<p>Do it otherwise.</p>")
    write_page("small.new", "<p>Do what is new.</p>")
    left = [f"small.f{n}" for n in range(5)]
    rows = [("py:function", name, f"{name}.html#$") for name in (*left, "small.new")]
    write_inventory(site, rows)
    renew(site / "objects.inv")
    assert refresh_run(out, dry_run=True).changes == (done := refresh_run(out)).changes
    assert done.kept
    assert [tool.name for tool in done.changes.added] == ["small.new"]
    assert [tool.name for tool in done.changes.removed] == ["small.f5"]
    assert done.changes.changed == {"small.f1": ("summary",)}
    assert not refresh_run(out).kept
    server.stop()
    again = refresh_run(out)
    assert not again.kept
    assert "could not be checked" in "\n".join(again.problems)
