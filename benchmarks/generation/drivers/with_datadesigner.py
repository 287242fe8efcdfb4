"""NVIDIA's NeMo Data Designer: a seed dataset and two text columns; its artifacts in the folder.

python with_datadesigner.py URL ROWS.jsonl IN_FLIGHT
"""

import os
import sys
from pathlib import Path

os.environ["NEMO_TELEMETRY_ENABLED"] = "false"
os.environ["DATA_DESIGNER_HOME"] = str(Path.cwd() / "designer")

import data_designer.config as config
from data_designer.interface import DataDesigner


def main(url: str, rows_path: str, in_flight: int) -> None:
    rows = Path(rows_path).read_text().count("\n")
    provider = config.ModelProvider(name="mock", endpoint=url, api_key="none")
    model = config.ModelConfig(
        alias="mock",
        model="mock",
        provider="mock",
        inference_parameters=config.ChatCompletionInferenceParams(
            max_parallel_requests=in_flight
        ),
    )
    builder = config.DataDesignerConfigBuilder(model_configs=[model])
    builder.with_seed_dataset(config.LocalFileSeedSource(path=rows_path))
    for name, prompt in (
        ("draft", "{{ write }}"),
        ("query", "{{ polish_before }}{{ draft }}{{ polish_after }}"),
    ):
        builder.add_column(
            config.LLMTextColumnConfig(name=name, model_alias="mock", prompt=prompt)
        )
    designer = DataDesigner(
        artifact_path=Path.cwd() / "artifacts", model_providers=[provider]
    )
    made = designer.create(builder, num_records=rows)
    assert len(made.load_dataset()) == rows


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
