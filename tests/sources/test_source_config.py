"""What a recipe may say of a source."""

import pytest

from toolbank.recipe import load_recipe
from toolbank.system.errors import InputError


def test_the_old_name_of_a_key_is_an_error_that_names_the_new_one(tmp_path) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("name: x\nsources: [{type: sphinx, site: numpy, conduct: {}}]\n")
    with pytest.raises(InputError, match="conduct'; it is called 'crawl' now"):
        load_recipe(str(recipe))
