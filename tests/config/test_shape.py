from pathlib import Path

from pydantic import Field

from toolbank.config.base import Config, Transport, shape
from toolbank.retrievers.llm_settings import DecompositionConfig
from toolbank.retrievers.settings import MlcConfig
from toolbank.run.stages.fit import FitStage
from toolbank.sources.sphinx.settings import SphinxSource


class Line(Config):
    width: float = 1.0
    retries: Transport[int | None] = None
    file: Path | None = None


class Picture(Config):
    lines: tuple[Line, ...] = ()
    files: tuple[Path, ...] = ()
    frame: Line | str = "none"
    named: dict[str, Line | Path] = Field(default_factory=dict)


def test_what_shapes_nothing_is_left_out_at_any_depth():
    line = Line(retries=3, file=Path("a.txt"))
    named = {"top": line, "where": Path("c.txt")}
    picture = Picture(lines=(line,), files=(Path("b.txt"),), frame=line, named=named)
    assert shape(picture) == {
        "lines": [{"width": 1.0}],
        "files": [],
        "frame": {"width": 1.0},
        "named": {"top": {"width": 1.0}},
    }


def test_how_gently_a_site_is_asked_shapes_nothing_but_the_size_of_pages_does():
    def of(**crawl):
        return shape(SphinxSource.model_validate({"site": "x", "crawl": crawl}))

    assert of(delay_s=3, contact="me@example.org", retries=0) == of()
    assert of(page_mb=1) != of()


def test_only_what_shapes_a_retriever_has_it_fitted_again(recipe_and_folder):
    def depends(config, **settings):
        model = type(config).model_validate({**config.model_dump(), **settings})
        return FitStage(*recipe_and_folder, model).depends()

    split = {"model": "m", "replies": "subtasks.sqlite"}
    decomposition = DecompositionConfig(first_stage="bm25", decompose=split)
    done = depends(decomposition)
    assert depends(decomposition, decompose={**split, "timeout": 7}) == done
    assert depends(decomposition, decompose={**split, "model": "n"}) != done
    mlc = MlcConfig()
    assert depends(mlc, training={"report_to": ["wandb"]}) == depends(mlc)
    assert depends(mlc, training={"epochs": 1}) != depends(mlc)
