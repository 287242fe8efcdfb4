import sys
from pathlib import Path

import pytest

from toolbank.llm.engines.kind import release_engines

STAND_IN = Path(__file__).parent / "vllm_stand_in"


@pytest.fixture
def llms(monkeypatch):
    """The stand-in in place of vLLM; gives the models that were loaded."""
    for name in [name for name in sys.modules if name.split(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(STAND_IN)
    import vllm

    vllm.LLM.made.clear()
    yield vllm.LLM.made
    release_engines()
    for name in [name for name in sys.modules if name.split(".")[0] == "vllm"]:
        del sys.modules[name]
