"""Engines as the stages of a recipe make them."""

from toolbank.llm.engines import find_engine
from toolbank.llm.engines.kind import EngineContext, EngineKind


def create_engine(config, *, tools=(), seed=0, folder=None):
    """The engine that writes by this configuration."""
    return find_engine(config).create(config, EngineContext(tools, seed, folder))


def kind_of(engine):
    """A kind that makes this engine."""
    return EngineKind(name=engine.name, make=lambda *_: engine)
