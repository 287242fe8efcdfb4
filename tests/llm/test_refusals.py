"""What a recipe can't set of an engine: each refusal names the place and what to do."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from toolbank.llm.accounts import resolve_price
from toolbank.llm.engines import find_model
from toolbank.llm.engines.kind import EngineContext
from toolbank.requests.asks import AsksConfig
from toolbank.requests.judge.judges import JudgeConfig
from toolbank.requests.write.config import GenerateConfig
from toolbank.retrievers.llm_settings import DecomposeConfig
from toolbank.system.errors import InputError

PUBLIC = "https://api.openai.com/v1"
SECRET = "0c4d1e88"
REPLIES = Path("r.jsonl")
UNSAFE = {
    "trust_remote_code": True,
    "worker_cls": "recipe.Worker",
    "worker_extension_cls": "recipe.Worker",
    "scheduler_cls": "recipe.Scheduler",
    "logits_processors": ["recipe:Processor"],
    "load_format": "pt",
    "kv_transfer_config": {"kv_connector_module_path": "recipe"},
    "distributed_executor_backend": "recipe.Executor",
}
TAKEN = {
    **dict.fromkeys(("model", "temperature", "max_tokens"), "use the setting"),
    **dict.fromkeys(("messages", "response_format", "stream", "n"), ""),
    "max_completion_tokens": "max_tokens",
    "extra_headers": "headers",
    "extra_query": "url_query",
}

# An engine, its settings, and the key and the remedy that the refusal names.
OF_GENERATE = [
    ("openai", {"model": ""}, "generate.model", "--set generate.model=NAME"),
    ("vllm", {"model": ""}, "generate.model", "Hugging Face"),
    ("vllm", {"options": {"hf_token": "x"}}, "generate.options.hf_token", "HF_TOKEN"),
    ("vllm", {"parameters": {"n": 2}}, "generate.parameters.n", ""),
    ("vllm", {"options": {"speed": 2}}, "generate.options.speed", "block_size"),
    ("vllm", {}, "generate.engine", ".[vllm]' -c constraints-vllm.txt"),
    *(
        ("vllm", {"options": {name: value}}, f"options.{name}", "REMOTE_CODE=1")
        for name, value in UNSAFE.items()
    ),
    *(
        ("openai", {"parameters": {name: 1}}, f"generate.parameters.{name}", remedy)
        for name, remedy in TAKEN.items()
    ),
    ("batch", {"options": {"submit": "perhaps"}}, "generate.options.submit", ""),
    ("batch", {"options": {"max_requests": 50_001}}, "generate.options.max_req", ""),
    ("batch", {"options": {"answer_as": "poem"}}, "generate.options.answer_as", ""),
    ("batch", {"options": {"sumbit": True}}, "generate.options.sumbit", "submit?"),
    ("openai", {"options": {"sumbit": True}}, "generate.options.sumbit", ""),
    ("rules", {"options": {"sumbit": True}}, "generate.options.sumbit", ""),
    ("rules", {"parameters": {"top_p": 0.9}}, "generate.parameters", "Remove"),
    *(
        (name, {"executor": "ray", "replies": REPLIES}, "generate.executor", "Remove")
        for name in ("rules", "recorded", "batch")
    ),
    ("recorded", {"replies": None}, "generate.replies", "JSONL"),
    ("openai", {"workers": 2}, "workers: 2", "executor: ray"),
    ("openai", {"base_url": PUBLIC, "api_key_env": "MY_KEY"}, "MY_KEY", "export MY_K"),
    (
        "batch",
        {"base_url": PUBLIC, "api_key_env": "MY_KEY", "options": {"submit": True}},
        *("MY_KEY", "export MY_K"),
    ),
    ("openai", {"headers": {"api-key": "NONE_SET"}}, "generate.headers", "export NON"),
    ("openai", {"headers": {"api-key": SECRET}}, "headers", "NAME of the environment"),
    ("openai", {"headers": {"authorization": "KEY"}}, "headers", "api_key_env"),
    ("openai", {"headers": {"Host": "KEY"}}, "headers", "Host"),
    ("openai", {"url_query": {"api_key": SECRET}}, "url_query", "`headers`"),
    ("openai", {"url_query": {"code": SECRET}}, "url_query", "`headers`"),
    *(
        ("openai", {"api_key_env": key}, "api_key_env", "NAME of an environment")
        for key in (f"sk-proj-{SECRET}", f"gsk_{SECRET}", "hf_Secret", "", "A B")
    ),
    *(
        ("openai", {"base_url": url}, "base_url", "")
        for character in " \n\t\x00\x1b\x7f@?#"
        for url in (f"http://x:1/v1{character}", f"http://127{character}.0.0.1:1/v1")
    ),
    *(
        ("openai", {"base_url": url, "api_key_env": None}, "base_url", "")
        for url in ("http://[bad/v1", "http:///v1", "http://x:99999/v1")
    ),
    ("openai", {"budget": {"dollars": 1}}, "budget", "set `price`"),
]


def refusal(config_class, **settings):
    """The message of what refuses a configuration, from its reading to the engine's creation."""
    with pytest.raises((InputError, ValidationError)) as caught:
        config = config_class(**settings)
        kind = find_model(config)
        if kind is not None:
            kind.check(config)
            kind.check_access(config)
            kind.create(config, EngineContext())
    if isinstance(caught.value, ValidationError):
        errors = caught.value.errors()
        return "; ".join(f"{error['loc']}: {error['msg']}" for error in errors)
    return str(caught.value)


@pytest.mark.parametrize(("engine", "settings", "place", "remedy"), OF_GENERATE)
def test_a_refusal_names_key_and_remedy(monkeypatch, engine, settings, place, remedy):
    for variable in ("OPENAI_API_KEY", "TOOLBANK_TRUST_REMOTE_CODE"):
        monkeypatch.delenv(variable, raising=False)
    base = {"model": "m", "base_url": "http://127.0.0.1:1/v1"}
    message = refusal(GenerateConfig, engine=engine, **{**base, **settings})
    assert place in message
    assert remedy in message
    assert SECRET not in message


CLASSES = {"judge": JudgeConfig, "asks": AsksConfig, "retrievers": DecomposeConfig}


@pytest.mark.parametrize(
    ("place", "engine", "settings", "remedy"),
    [
        ("judge.engine: ", "opnai", {}, "Did you mean openai"),
        ("judge.model: ", "openai", {}, "--set judge.model=NAME"),
        ("judge.engine: ", "recorded", {}, "or rules"),
        ("judge.parameters: ", "rules", {"parameters": {"top_p": 0.9}}, "Remove"),
        ("retrievers.decomposition.decompose.engine: ", "recorded", {}, "openai"),
        ("asks.parameters: ", "recorded", {"parameters": {"a": 1}}, "Remove"),
    ],
)
def test_a_refusal_names_its_own_section(place, engine, settings, remedy):
    section = place.partition(".")[0]
    if section != "judge":
        settings = {**settings, "replies": REPLIES}
    message = refusal(CLASSES[section], engine=engine, **settings)
    assert message.startswith(place)
    assert remedy in message


def test_a_key_with_characters_that_no_key_has_is_refused_and_not_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{SECRET}\u00e9\nabc")
    message = refusal(GenerateConfig, model="m", base_url=PUBLIC)
    assert SECRET not in message


PRICES = (
    "small/model-1.5: {input: 0.15, output: 0.6}\nlarge:\n  input: 3\n  output: 9\n"
)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (PRICES + "other: {input: cheap, output: 1}\n", ["line 5", "other.input"]),
        (PRICES + "other: {input: 1}\n", ["line 5", "other.output"]),
        (PRICES + "other: 3\n", ["line 5", "other", "mapping"]),
        (PRICES + "other: {input: -1, output: 1}\n", ["line 5", "other.input"]),
        (PRICES + "other: {input: 1, ouput: 1, output: 1}\n", ["'output'"]),
        (PRICES + "large: {input: 1, output: 1}\n", ["line 5", "twice"]),
        (PRICES + "5: {input: 1, output: 1}\n", ["5", "string"]),
        ("[1]", ["mapping"]),
        (None, []),
    ],
)
def test_a_broken_price_file_is_refused_with_line_and_key(tmp_path, text, places):
    path = tmp_path / "prices.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError) as caught:
        resolve_price(GenerateConfig(model="large", price=path))
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    for part in ("prices.yaml", *places):
        assert part in message
