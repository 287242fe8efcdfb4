from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import pytest
from pydantic import ValidationError

from toolbank.config.base import Config
from toolbank.config.explain import explain
from toolbank.config.registry import Registry, TaggedUnion
from toolbank.system.errors import InputError


class ShapeConfig(Config):
    type: str


class Circle(ShapeConfig):
    type: Literal["circle"] = "circle"
    radius: float = 1.0


@dataclass(frozen=True)
class ShapeKind:
    config: type[Config]


CIRCLE = ShapeKind(Circle)
SHAPES = Registry(
    "shape", "toolbank.shapes", ShapeKind, {"circle": f"{__name__}:CIRCLE"}
)
FOREIGN = f"""\
from typing import Literal
from {__name__} import ShapeConfig, ShapeKind
class Star(ShapeConfig):
    type: Literal["star"] = "star"
    rays: int = 5
STAR = ShapeKind(Star)
NO_KIND = Star
"""


@pytest.fixture
def install(install_package):
    return partial(install_package, "toolbank.shapes")


def drawing():
    class Drawing(Config):
        shapes: tuple[Annotated[ShapeConfig, TaggedUnion(SHAPES)], ...]

    return Drawing


def problem(model, *shapes):
    with pytest.raises(ValidationError) as caught:
        model.model_validate({"shapes": shapes})
    return explain(caught.value, model.model_json_schema(), "drawing.yaml", {}, ())


def test_kinds_of_ours_and_of_packages_are_read_and_written_by_their_type(install):
    install("stars", FOREIGN, star="STAR")
    data = {"shapes": [{"type": "circle", "radius": 2.0}, {"type": "star", "rays": 7}]}
    model = drawing()
    read = model.model_validate(data)
    assert isinstance(read.shapes[0], Circle)
    assert type(read.shapes[1]).__name__ == "Star"
    assert read.model_dump(mode="json") == data


def test_a_name_alone_is_a_kind_with_its_defaults_for_editors_too(install):
    assert drawing().model_validate({"shapes": ["circle"]}).shapes == (Circle(),)
    install("stars", FOREIGN, star="STAR")
    model = drawing()
    read = model.model_validate({"shapes": ["circle", {"type": "star"}, "star"]})
    assert read.shapes[0] == Circle()
    assert read.shapes[1] == read.shapes[2]
    one_of = model.model_json_schema()["properties"]["shapes"]["items"]["oneOf"]
    assert {"enum": ["circle", "star"]} in one_of


@pytest.mark.parametrize(
    ("shape", "told"),
    [
        ({"type": "star", "ray": 7}, "'shapes.0.ray'; did you mean 'rays'?"),
        ({"type": "square"}, "'circle', 'star'"),
        ({"type": "circle", "radius": "big"}, "shapes.0.radius"),
    ],
)
def test_a_wrong_shape_is_told_by_its_key_and_what_is_valid(install, shape, told):
    install("stars", FOREIGN, star="STAR")
    assert told in problem(drawing(), shape)


@pytest.mark.parametrize(
    ("source", "attribute"),
    [("import no_such_library\n", "STAR"), (FOREIGN, "NO_KIND")],
)
def test_a_broken_package_matters_only_where_it_is_named(source, attribute, install):
    install("stars", source, star=attribute)
    model = drawing()
    assert model.model_validate({"shapes": [{"type": "circle"}]})
    told = problem(model, {"type": "star"})
    assert "Update stars, or uninstall it." in told
    with pytest.raises(InputError, match="key: "):
        SHAPES.find("sta", "key")
