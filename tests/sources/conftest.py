from tests.sources.packages import make_package
from tests.sources.small_site import small

__all__ = ["make_package", "small"]
