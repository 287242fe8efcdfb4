"""Profile the requests of a bank: their classes, and copies between splits and other sets."""

from pathlib import Path

from pydantic import Field

from toolbank.config.base import Config


class CopiesConfig(Config):
    """From when on two requests are copies, and where copies are looked for."""

    jaccard: float = Field(
        default=0.8,
        gt=0,
        le=1,
        description="Jaccard index of their runs of three words from which two requests are near-copies",
    )
    cosine: float | None = Field(
        default=0.95,
        gt=0,
        le=1,
        description=(
            "cosine of their vectors from which two requests that share most of their words "
            "are near-copies; null: vectors are not compared"
        ),
    )
    against: tuple[Path, ...] = Field(
        default=(),
        description=(
            "other sets in which copies are looked for, such as public benchmarks: run folders, "
            "dataset folders of any format, or JSONL files"
        ),
    )
    drop: bool = Field(
        default=False,
        description=(
            "keep requests and asks out of training that are copies of a request of test, "
            "validation or `against`; requests of test and validation always stay"
        ),
    )


class ProfileConfig(Config):
    """How the requests of a bank are profiled."""

    copies: CopiesConfig = CopiesConfig()
