from tests.sources.packages import make_package

__all__ = ["make_package"]
