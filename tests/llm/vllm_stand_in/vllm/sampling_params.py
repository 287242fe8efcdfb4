from dataclasses import dataclass


@dataclass
class StructuredOutputsParams:
    json: str | dict | None = None


@dataclass(kw_only=True)
class SamplingParams:
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    max_tokens: int | None = 16
    structured_outputs: StructuredOutputsParams | None = None

    def __post_init__(self):
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be in (0, 1], got {self.top_p}.")
