"""What a recipe may say of a source."""

import pytest
from pydantic import ValidationError

from toolbank.sources.sphinx.source import SphinxSource


def test_the_old_name_of_a_key_is_an_error_that_names_the_new_one() -> None:
    with pytest.raises(ValidationError, match="`conduct` is called `crawl` now"):
        SphinxSource.model_validate({"site": "numpy", "conduct": {"delay_s": 1}})
