"""Settings that all tests share."""

from hypothesis import settings

settings.register_profile("toolbank", deadline=None)
settings.load_profile("toolbank")
