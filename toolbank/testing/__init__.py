"""Checks for every kind, which authors of plug-ins can run too."""

from pydantic import ValidationError

from toolbank.config.base import Config


def check_model(config: Config, model: type[Config]) -> None:
    """Check that settings are of the kind's model, survive a recipe, and are validated.

    Raises:
        AssertionError: they are not.
    """
    assert isinstance(config, model), f"the kind's settings are {model.__name__}"
    settings = config.model_dump(mode="json")
    assert model.model_validate(settings) == config, "settings survive a recipe"
    try:
        model.model_validate({**settings, "no_such_setting": 1})
    except ValidationError:
        return
    raise AssertionError(
        f"an unknown setting is an error; derive {model.__name__} from the kinds' own model"
    )
