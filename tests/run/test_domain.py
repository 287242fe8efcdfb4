"""What prompts call the API, and that a run which has begun keeps it."""

import pytest
import yaml

from toolbank.commands.preview import preview_attempts
from toolbank.run.plan import describe_plan
from toolbank.run.recipe import load_recipe
from toolbank.run.run import run_recipe
from toolbank.system.errors import InputError


@pytest.fixture
def recipe(tmp_path, server):
    content = {
        "name": "run-3",
        "sources": [{"type": "python", "package": "statistics"}],
        "generate": {"base_url": server.url, "model": "m", "queries": 4},
        "baselines": False,
        "retrievers": [{"type": "bm25"}],
    }
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(content))
    return lambda *settings: load_recipe(str(path), settings)


@pytest.mark.parametrize(
    ("sources", "domain"),
    [
        ("[{type: python, package: scipy}]", "scipy"),
        ("[{type: sphinx, site: boto3}]", "boto3"),
        ("[{type: sphinx, base_url: 'https://www.weather.org/api'}]", "weather.org"),
        ("[{type: sphinx, base_url: 'http://127.0.0.1:80/'}]", "run-3"),
        ("[{type: python, package: a}, {type: python, package: b}]", "run-3"),
    ],
)
def test_prompts_speak_of_the_package_or_the_site(recipe, sources, domain):
    assert recipe(f"sources={sources}").recipe.domain_name == domain


def test_prompts_ids_and_the_resolved_recipe_have_the_package(recipe, server, tmp_path):
    out = tmp_path / "out"
    [shown] = preview_attempts(recipe().recipe, out, 1)
    assert "You know statistics inside out" in shown
    run_recipe(recipe(), out, until="generate")
    assert all("run-3" not in call.prompt for call in server.calls)
    assert load_recipe(str(out)).recipe.domain == "statistics"


def test_a_run_keeps_its_domain_and_its_replies(recipe, server, tmp_path):
    out = tmp_path / "out"
    run_recipe(recipe("domain=run-3"), out, until="generate")
    asked = len(server.calls)
    for same in (recipe(), load_recipe(str(out))):
        assert "other settings" not in describe_plan(same, out)
        run_recipe(same, out, until="generate")
        assert len(server.calls) == asked
        assert "domain: run-3" in (out / "recipe.yaml").read_text()
    run_recipe(recipe("domain=averages"), out, until="generate")
    assert len(server.calls) == 2 * asked


def test_a_replacing_recipe_has_its_own_domain(recipe, tmp_path):
    out = tmp_path / "out"
    run_recipe(recipe("domain=maths"), out, until="sources")
    (out / "metrics.json").write_text("[]")
    run_recipe(recipe("name=other"), out, until="sources", replace=True)
    assert load_recipe(str(out)).recipe.domain == "statistics"


def test_a_replacing_run_that_begins_after_the_sources_moves_nothing(recipe, tmp_path):
    out = tmp_path / "out"
    run_recipe(recipe(), out, until="generate")
    before = sorted(out.rglob("*"))
    with pytest.raises(InputError, match="the stage sources is not done"):
        run_recipe(recipe("name=other"), out, start="generate", replace=True)
    assert sorted(out.rglob("*")) == before


def test_a_run_that_offered_alternatives_together_goes_on_so(recipe, server, tmp_path):
    """Its replies are to prompts of sets that were sampled so."""
    out = tmp_path / "out"
    key = "separate_alternatives"
    run_recipe(recipe(f"generate.{key}=false"), out, until="generate")
    asked = len(server.calls)
    resolved = out / "recipe.yaml"
    lines = resolved.read_text().splitlines(keepends=True)
    resolved.write_text("".join(line for line in lines if key not in line))
    for same in (recipe(), load_recipe(str(out))):
        run_recipe(same, out, until="generate")
        assert len(server.calls) == asked
    assert f"{key}: false" in resolved.read_text()
    run_recipe(recipe(), tmp_path / "new", until="generate")
    assert f"{key}: true" in (tmp_path / "new" / "recipe.yaml").read_text()
