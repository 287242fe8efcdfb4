import subprocess
import sys
from functools import partial
from textwrap import dedent

import pytest

from tests.engines import create_engine
from toolbank.llm.engines import find_engine
from toolbank.requests.write.config import GenerateConfig
from toolbank.system.errors import InputError

ENGINE = """
    from toolbank.llm.engines.kind import EngineKind


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


    def make(config, context):
        return Parrot(config, context.tools, context.seed)


    KIND = EngineKind(name="parrot", make=make)
    BROKEN = EngineKind(
        name="broken", make=lambda config, _: config.parameters["voice"]
    )
"""


@pytest.fixture
def install(install_package):
    return partial(install_package, "toolbank.engines")


def make(engine, **settings):
    return create_engine(
        GenerateConfig(engine=engine, model="m", **settings), tools=(), seed=3
    )


def problem(engine, **settings):
    with pytest.raises(InputError) as caught:
        make(engine, **settings)
    return str(caught.value)


def test_an_engine_of_an_installed_package_is_found_by_its_name(install):
    install("parrot_engine", ENGINE, parrot="KIND")
    engine = make("parrot", temperature=0.5)
    assert (engine.name, engine.identity) == ("parrot", "parrot 0.5 0 3")


def test_only_the_package_of_the_named_engine_is_imported(install):
    install("parrot_engine", ENGINE, parrot="KIND")
    install("loud_engine", "raise SystemExit('imported')", loud="make")
    make("parrot")
    assert "loud_engine" not in sys.modules


def test_an_unknown_engine_is_told_with_the_nearest_and_all_that_there_are(install):
    install("parrot_engine", ENGINE, parrot="KIND")
    said = problem("parot")
    assert said.startswith("generate.engine: there is no engine 'parot'.")
    assert "Did you mean parrot?" in said
    assert "openai, vllm, batch, recorded, rules, parrot" in said


def test_a_package_that_can_not_be_imported_is_named(install):
    install("sick_engine", "import no_such_module_here", sick="make")
    said = problem("sick")
    assert "package sick-engine" in said


def test_a_package_that_lacks_what_its_entry_point_says_is_named(install):
    install("hollow_engine", "x = 1", hollow="make")
    assert "package hollow-engine can't be loaded from hollow_engine:make" in problem(
        "hollow"
    )


def test_what_breaks_while_it_is_made_is_named(install):
    install("broken_engine", ENGINE, broken="BROKEN")
    assert "'broken' can't be created (KeyError: 'voice')" in problem("broken")


def test_an_entry_point_that_is_no_kind_of_engine_is_told_of(install):
    install("parrot_engine", ENGINE, parrot="Parrot")
    assert "is no EngineKind: parrot_engine:Parrot is of type 'type'" in problem(
        "parrot"
    )


def test_two_packages_with_one_engine_are_both_named(install):
    install("parrot_one", ENGINE, parrot="KIND")
    install("parrot_two", ENGINE, parrot="KIND")
    assert "parrot-one and parrot-two" in problem("parrot")


def test_choosing_an_engine_imports_none_of_the_others():
    script = """
        import sys
        from toolbank.requests.write.config import GenerateConfig
        from tests.engines import create_engine
        config = GenerateConfig(engine="openai", base_url="http://127.0.0.1:1/v1", model="m")
        create_engine(config)
        others = [m for m in sys.modules if m.startswith(
            ("vllm", "toolbank.llm.engines.batch", "toolbank.llm.engines.vllm", "toolbank.requests.engines"))]
        assert not others, others
    """
    subprocess.run([sys.executable, "-c", dedent(script)], check=True, timeout=60)


def test_an_engine_by_another_name_than_its_entry_point_is_told_of(install):
    install("parrot_engine", ENGINE, macaw="KIND")
    assert "package parrot-engine calls itself 'parrot'" in problem("macaw")


def test_an_engine_that_takes_the_name_of_ours_is_not_used_and_that_is_said(
    install, capsys
):
    install("parrot_engine", ENGINE, rules="KIND")
    assert find_engine(GenerateConfig(engine="rules")).name == "rules"
    said = " ".join(capsys.readouterr().err.split())
    assert "'rules' of the package parrot-engine is not used" in said
    find_engine(GenerateConfig(engine="rules"))
    assert not capsys.readouterr().err
