"""Settings that all tests share."""

import signal

from hypothesis import settings

settings.register_profile("toolbank", deadline=None)
settings.load_profile("toolbank")

# A shell ignores SIGINT for what it starts in the background, and children inherit that:
# the commands that the tests interrupt would not hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)
