import subprocess
import sys
from textwrap import dedent

import pytest

from toolbank.generate.config import GenerateConfig
from toolbank.judge.config import JudgeConfig
from toolbank.llm import create_engine
from toolbank.system.errors import InputError

ENGINE = """
    class Parrot:
        name = "parrot"
        model = "grey"
        offers = None

        def __init__(self, config, tools, seed):
            self.identity = f"parrot {config.temperature} {len(tools)} {seed}"

        async def answer(self, request):
            raise NotImplementedError

        async def close(self):
            pass


    def make(config, *, tools, seed):
        return Parrot(config, tools, seed)


    class Mute:
        name, model, offers = "mute", 7, None

        async def close(self):
            pass


    def make_mute(config, *, tools, seed):
        return Mute()


    def make_broken(config, *, tools, seed):
        return config.options["voice"]
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Lay a package with entry points where an installed one would lie."""
    monkeypatch.syspath_prepend(tmp_path)

    def lay(package, module, source=ENGINE, **engines):
        (tmp_path / f"{module}.py").write_text(dedent(source))
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        info.joinpath("METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
        )
        lines = [f"{name} = {module}:{attr}" for name, attr in engines.items()]
        info.joinpath("entry_points.txt").write_text(
            "\n".join(["[toolbank.engines]", *lines])
        )
        monkeypatch.delitem(sys.modules, module, raising=False)

    return lay


def make(engine, **settings):
    return create_engine(
        GenerateConfig(engine=engine, model="m", **settings), tools=(), seed=3
    )


def problem(engine, **settings):
    with pytest.raises(InputError) as caught:
        make(engine, **settings)
    return str(caught.value)


def test_an_engine_of_an_installed_package_is_found_by_its_name(install):
    install("parrot-engine", "parrot_engine", parrot="make")
    engine = make("parrot", temperature=0.5)
    assert (engine.name, engine.identity) == ("parrot", "parrot 0.5 0 3")


def test_only_the_package_of_the_named_engine_is_imported(install):
    install("parrot-engine", "parrot_engine", parrot="make")
    install("loud-engine", "loud_engine", "raise SystemExit('imported')", loud="make")
    make("parrot")
    assert "loud_engine" not in sys.modules


def test_an_unknown_engine_is_told_with_the_nearest_and_all_that_there_are(install):
    install("parrot-engine", "parrot_engine", parrot="make")
    said = problem("parot")
    assert said.startswith("generate.engine: there is no engine 'parot'.")
    assert "Did you mean parrot?" in said
    assert "openai, vllm, batch, recorded, rules, parrot" in said


def test_the_judge_names_its_own_key():
    with pytest.raises(InputError, match=r"^judge\.engine: .*Did you mean openai"):
        create_engine(JudgeConfig(engine="opnai"), tools=(), seed=0)


@pytest.mark.parametrize("engine", ["recorded", "rules"])
def test_what_only_writes_can_not_judge(engine):
    with pytest.raises(InputError, match=r"^judge\.engine: .*only writes"):
        create_engine(JudgeConfig(engine=engine), tools=(), seed=0)


def test_a_package_that_can_not_be_imported_is_named(install):
    install("sick-engine", "sick_engine", "import no_such_module_here", sick="make")
    said = problem("sick")
    assert "package sick-engine" in said
    assert "no_such_module_here" in said


def test_a_package_that_lacks_what_its_entry_point_says_is_named(install):
    install("hollow-engine", "hollow_engine", "x = 1", hollow="make")
    assert "package hollow-engine can't be loaded from hollow_engine:make" in problem(
        "hollow"
    )


def test_what_gives_no_engine_is_told_what_it_lacks(install):
    install("mute-engine", "mute_engine", mute="make_mute")
    said = problem("mute")
    assert "package mute-engine is no engine" in said
    assert "a string `model`, a string `identity`, an async method `answer`" in said
    assert "close" not in said


def test_what_breaks_while_it_is_made_is_named(install):
    install("broken-engine", "broken_engine", broken="make_broken")
    assert "package broken-engine can't be made (KeyError: 'voice')" in problem(
        "broken"
    )


def test_two_packages_with_one_engine_are_both_named(install):
    install("parrot-one", "parrot_one", parrot="make")
    install("parrot-two", "parrot_two", parrot="make")
    assert "parrot-one and parrot-two" in problem("parrot")


@pytest.mark.parametrize("engine", ["openai", "batch", "rules"])
def test_an_option_that_an_engine_does_not_have_is_refused(engine):
    said = problem(engine, options={"sumbit": True})
    assert said.startswith("generate.options.sumbit: ")
    assert ("Did you mean submit?" in said) == (engine == "batch")


def test_choosing_an_engine_imports_none_of_the_others():
    script = """
        import sys
        from toolbank.generate.config import GenerateConfig
        from toolbank.llm import create_engine
        config = GenerateConfig(engine="openai", base_url="http://127.0.0.1:1/v1", model="m")
        create_engine(config, tools=(), seed=0)
        others = [m for m in sys.modules if m.startswith(
            ("vllm", "toolbank.llm.batch", "toolbank.generate.writers.rules", "toolbank.generate.writers.recorded"))]
        assert not others, others
    """
    subprocess.run([sys.executable, "-c", dedent(script)], check=True, timeout=60)
