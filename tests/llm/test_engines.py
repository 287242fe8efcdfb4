import subprocess
import sys
from functools import partial
from textwrap import dedent

import pytest

from tests.engines import create_engine
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
    config = GenerateConfig(engine=engine, model="m", **settings)
    return create_engine(config, tools=(), seed=3)


def test_an_engine_of_an_installed_package_is_found_by_its_name(install):
    install("parrot_engine", ENGINE, parrot="KIND")
    install("loud_engine", "raise SystemExit('imported')", loud="make")
    engine = make("parrot", temperature=0.5)
    assert (engine.name, engine.identity) == ("parrot", "parrot 0.5 0 3")
    assert "loud_engine" not in sys.modules


@pytest.mark.parametrize(
    ("source", "engine", "attribute", "parts"),
    [
        (ENGINE, "parrot", "KIND", ["generate.engine: ", "parrot?", "rules, parrot"]),
        ("import no_such_module", "sick", "make", ["sick", "no_such_module"]),
        ("x = 1", "hollow", "make", ["hollow_engine:make"]),
        (ENGINE, "broken", "BROKEN", ["generate.engine: ", "KeyError: 'voice'"]),
        (ENGINE, "parrot", "Parrot", ["EngineKind", "parrot"]),
    ],
)
def test_an_unusable_package_is_named(install, source, engine, attribute, parts):
    install(f"{engine}_engine", source, **{engine: attribute})
    with pytest.raises(InputError) as caught:
        make("parot" if attribute == "KIND" else engine)
    for part in parts:
        assert part in str(caught.value)


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
