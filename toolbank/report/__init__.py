"""The HTML report about a run; its settings."""

from pydantic import Field

from toolbank.config.base import Config


class ReportConfig(Config):
    """What the HTML report shows."""

    title: str = Field(default="", description="unset: the run's name")
    samples: int = Field(default=12, ge=0, description="queries shown in full")
