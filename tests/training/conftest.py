"""A tiny encoder that all trainings of a session begin with."""

import pytest

from tests.training.classifier import Classifier


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("encoder")
    Classifier(path)
    return path
