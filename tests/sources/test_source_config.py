"""What a recipe may say of a source."""

import pytest

from toolbank.run.recipe import load_recipe
from toolbank.system.errors import InputError


def test_the_old_name_of_a_key_is_an_error_that_names_the_new_one(tmp_path):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("name: x\nsources: [{type: sphinx, site: numpy, conduct: {}}]\n")
    with pytest.raises(InputError, match="conduct'; it is called 'crawl' now"):
        load_recipe(str(recipe))


@pytest.mark.parametrize("key", ["name", "prefix"])
@pytest.mark.parametrize("value", ["a b", "a/b", "-a", "", ".", "ü"])
def test_names_are_of_letters_digits_and_few_signs(tmp_path, key, value):
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(
        f"name: x\nsources: [{{type: python, package: json, {key}: '{value}'}}]\n"
    )
    with pytest.raises(InputError, match=key):
        load_recipe(str(recipe))
