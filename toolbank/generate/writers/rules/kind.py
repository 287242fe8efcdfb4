"""The kind `rules`: queries from the reference's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolbank.llm.engines.kind import EngineContext, EngineKind, refuse_settings

if TYPE_CHECKING:
    from toolbank.generate.config import GenerateConfig
    from toolbank.llm.chat import Engine


def _make(config: GenerateConfig, context: EngineContext) -> Engine:
    from toolbank.generate.writers.rules.engine import RulesEngine

    return RulesEngine(context.tools, config, context.seed)


KIND = EngineKind["GenerateConfig"](
    name="rules",
    make=_make,
    check=refuse_settings,
    sends=lambda _: (),
    describe=lambda _: "rules",
    asks_model=False,
    copies_wording=True,
)
