"""Settings that all tests share."""

import os
import signal

from hypothesis import settings

# Tests run beside each other: more threads than processors wait for each other at every step
# of a small model.
os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("toolbank", deadline=None)
settings.load_profile("toolbank")

# A shell ignores SIGINT for what it starts in the background, and children inherit that:
# the commands that the tests interrupt would not hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)
