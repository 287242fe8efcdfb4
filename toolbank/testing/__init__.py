"""What every kind has to do, as checks that the author of another one can run too."""

from pydantic import ValidationError

from toolbank.config.base import Config


def check_model(config: Config, model: type[Config]) -> None:
    """Settings are of the kind's own model, come back from a recipe, and are checked.

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
