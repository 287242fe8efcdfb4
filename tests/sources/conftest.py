from tests.sources.packages import make_package
from tests.sources.small_site import hours, small

__all__ = ["hours", "make_package", "small"]
