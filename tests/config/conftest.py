import pytest

from toolbank.run.folder import RunFolder
from toolbank.run.recipe import Recipe


@pytest.fixture
def recipe_and_folder(tmp_path):
    """A recipe, and a run folder that holds files where its bank would be."""
    folder = RunFolder(tmp_path)
    folder.bank.mkdir()
    for name in ("tools.parquet", "queries.parquet"):
        (folder.bank / name).touch()
    source = {"type": "python", "package": "json"}
    return Recipe.model_validate({"name": "mine", "sources": [source]}), folder
