"""The batch engine by hand: files out, files in, whatever these hold."""

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines import create_engine
from tests.llm.batch_rounds import command, config, jsonl, request
from tests.servers.batch import answer_file, reply_line, unanswered_line
from tests.servers.chat import Answer
from toolbank.llm.engines.batch import folder as writing
from toolbank.llm.engines.batch.folder import Folder, read_line
from toolbank.llm.engines.openai.engine import OpenAIEngine
from toolbank.system.errors import InputError

FIRST = "round-001-write-001.jsonl"
SECOND = "round-002-write-001.jsonl"
THREE = [request(number) for number in range(3)]


def said(call):
    return Answer.text(call.prompt)


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def keys(path):
    return [row["custom_id"] for row in rows(path)]


def begin(folder, requests=THREE, **settings):
    """The first command of a run; gives the keys of its requests."""
    command(folder, requests, **settings)
    return keys(folder / FIRST)


def put(folder, *lines, name="batch_6f_output.jsonl", end="\n"):
    (folder / name).write_text("\n".join(lines) + end)


def test_a_request_file_is_what_the_batch_api_takes(tmp_path):
    told = command(tmp_path, THREE, temperature=0.5, parameters={"top_p": 0.9})
    assert jsonl(tmp_path) == [FIRST]
    lines = rows(tmp_path / FIRST)
    assert [line["method"] for line in lines] == ["POST"] * 3
    assert [line["url"] for line in lines] == ["/v1/chat/completions"] * 3
    assert len({line["custom_id"] for line in lines}) == 3
    body = lines[0]["body"]
    assert body["model"] == "asked-model"
    assert body["messages"] == [{"role": "user", "content": "Request 0 of é€𝄞."}]
    assert body["response_format"]["json_schema"]["strict"] is True
    assert (body["temperature"], body["top_p"]) == (0.5, 0.9)
    assert not told.replies


def test_its_identity_and_keys_are_those_of_the_openai_engine(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    identity = OpenAIEngine(config(engine="openai")).identity
    assert (
        create_engine(config(), tools=(), seed=0, folder=tmp_path).identity == identity
    )
    assert begin(tmp_path) == [item.key(identity) for item in THREE]


def test_the_message_says_where_the_files_are_and_how_to_go_on(tmp_path):
    folder = tmp_path / "my run" / "batch"
    message = command(folder, THREE).message
    assert str(folder / FIRST) in message
    assert f"toolbank run '{tmp_path / 'my run'}'" in message
    assert "generate.options.submit=true" in message


def test_a_line_to_paste_runs_nothing_that_an_address_holds(tmp_path):
    url = "http://localhost:1/v1;id/$(id)/`id`/'"
    message = command(tmp_path, THREE, base_url=url).message
    lines = [shlex.split(line) for line in message.splitlines() if "curl" in line]
    assert [line[1] for line in lines] == [f"{url}/files", f"{url}/batches"]
    assert all(line[0] == "curl" and ";id" not in line for line in lines)


def test_replies_beside_the_requests_are_the_answers(tmp_path):
    begin(tmp_path)
    (tmp_path / "batch_6f_output.jsonl").write_text(
        answer_file((tmp_path / FIRST).read_text(), said)
    )
    told = command(tmp_path, THREE)
    assert told.texts == {n: f"Request {n} of é€𝄞." for n in range(3)}
    assert told.replies[0].model == "served-model"
    assert (told.replies[0].prompt_tokens, told.replies[0].completion_tokens) == (7, 3)
    assert told.message == ""


def test_another_round_holds_what_follows_and_nothing_twice(tmp_path):
    begin(tmp_path)
    (tmp_path / "out.jsonl").write_text(
        answer_file((tmp_path / FIRST).read_text(), said)
    )
    later = [*THREE, request(0, "polish"), request(3)]
    message = command(tmp_path, later).message
    names = [SECOND.replace("write", "polish"), SECOND]
    assert jsonl(tmp_path) == [FIRST, "round-001.out.jsonl", *names]
    assert [len(keys(tmp_path / name)) for name in names] == [1, 1]
    again = command(tmp_path, later).message
    assert jsonl(tmp_path) == [FIRST, "round-001.out.jsonl", *names]
    for name in names:
        assert name in message
        assert name in again


def test_files_without_their_output_are_waited_for_and_not_written_again(tmp_path):
    command(tmp_path, THREE, options={"max_requests": 2})
    first, second = FIRST, "round-001-write-002.jsonl"
    assert [len(keys(tmp_path / name)) for name in (first, second)] == [2, 1]
    (tmp_path / "a.jsonl").write_text(answer_file((tmp_path / first).read_text(), said))
    told = command(tmp_path, THREE)
    assert set(told.replies) == {0, 1}
    assert str(tmp_path / second) in told.message
    assert first not in told.message
    assert jsonl(tmp_path) == [first, second, "round-001.a.jsonl"]


def test_files_are_split_at_the_bytes_that_the_api_takes(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "MOST_BYTES", 1000)
    command(tmp_path, [request(number) for number in range(9)])
    sizes = [(tmp_path / name).stat().st_size for name in jsonl(tmp_path)]
    assert len(sizes) > 1
    assert max(sizes) <= 1000
    assert sum(len(keys(tmp_path / name)) for name in jsonl(tmp_path)) == 9


def test_replies_in_another_order_and_with_crlf_and_bom_are_found(tmp_path):
    lines = [reply_line(key, Answer.text(key)) for key in begin(tmp_path)]
    content = "\ufeff" + "\r\n".join(reversed(lines))
    (tmp_path / "out.jsonl").write_bytes(content.encode())
    told = command(tmp_path, THREE)
    assert list(told.texts.values()) == keys(tmp_path / FIRST)


def test_what_has_no_reply_in_an_answered_file_goes_into_the_next_round(
    tmp_path, capsys
):
    first, _, third = begin(tmp_path)
    put(tmp_path, reply_line(first, Answer.text("one")))
    put(tmp_path, unanswered_line(third), name="batch_6f_error.jsonl")
    told = command(tmp_path, THREE)
    assert told.texts == {0: "one"}
    assert told.counts.retries == {"batch-expired": 1, "no-reply": 1}
    assert len(keys(tmp_path / SECOND)) == 2
    err = capsys.readouterr().err
    assert "2 requests are asked again, for want of a reply: batch-expired 1" in err


def test_a_request_is_asked_again_as_often_as_retries_say(tmp_path):
    begin(tmp_path)
    for round_number in range(1, 4):
        name = f"round-{round_number:03d}-write-001.jsonl"
        asked = keys(tmp_path / name)
        assert len(asked) == (3 if round_number == 1 else 1)
        lines = [reply_line(key, Answer.text("x")) for key in asked[:2]]
        lines = lines if round_number == 1 else []
        put(
            tmp_path,
            *lines,
            unanswered_line(asked[-1]),
            name=f"batch_{round_number}_output.jsonl",
        )
        told = command(tmp_path, THREE)
    assert set(told.errors) == {2}
    error = told.errors[2]
    assert (error.reason, error.retryable, error.fatal) == (
        "batch-expired",
        False,
        False,
    )
    assert "asked 3 times" in str(error)
    assert not told.message


def test_an_old_error_does_not_answer_the_round_that_asks_again(tmp_path):
    begin(tmp_path, THREE[:1])
    (key,) = keys(tmp_path / FIRST)
    put(tmp_path, unanswered_line(key), name="batch_zz_error.jsonl")
    assert SECOND in command(tmp_path, THREE[:1]).message
    for _ in range(3):
        assert SECOND in command(tmp_path, THREE[:1]).message
    assert jsonl(tmp_path) == [FIRST, "round-001.batch_zz_error.jsonl", SECOND]
    put(tmp_path, reply_line(key, Answer.text("late")), name="batch_aa_output.jsonl")
    assert command(tmp_path, THREE[:1]).texts == {0: "late"}


def test_an_output_that_is_written_over_the_last_one_is_a_new_one(tmp_path):
    begin(tmp_path, THREE[:1])
    (key,) = keys(tmp_path / FIRST)
    put(tmp_path, unanswered_line(key), name="out.jsonl")
    command(tmp_path, THREE[:1])
    put(tmp_path, unanswered_line(key, "batch_cancelled"), name="out.jsonl")
    command(tmp_path, THREE[:1])
    assert jsonl(tmp_path)[-1] == "round-003-write-001.jsonl"


def test_a_file_that_was_read_and_is_copied_there_once_more_answers_nothing_new(
    tmp_path,
):
    (key,) = begin(tmp_path, THREE[:1])
    for _ in range(2):
        put(tmp_path, unanswered_line(key))
        assert SECOND in command(tmp_path, THREE[:1]).message
    assert not list(tmp_path.glob("round-003*"))


@pytest.mark.parametrize("status", [429, 500, 401, 404])
def test_an_error_that_may_pass_is_asked_again(tmp_path, status):
    key, *_ = begin(tmp_path, THREE[:1])
    put(tmp_path, reply_line(key, Answer.error(status, "busy")))
    assert SECOND in command(tmp_path, THREE[:1]).message


def test_a_refused_request_fails_with_what_the_api_said(tmp_path):
    key, *_ = begin(tmp_path, THREE[:1])
    put(tmp_path, reply_line(key, Answer.error(400, "schema is\nnot supported")))
    told = command(tmp_path, THREE[:1])
    assert told.errors[0].reason == "http-400"
    assert "It says: schema is not supported" in str(told.errors[0])
    assert jsonl(tmp_path) == [FIRST, "round-001.batch_6f_output.jsonl"]


def test_no_part_of_a_key_that_an_error_echoes_is_shown(tmp_path, monkeypatch):
    secret = "sk-" + "s3cret" * 20
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    key, *_ = begin(tmp_path, THREE[:1])
    put(tmp_path, reply_line(key, Answer.error(400, f"{'so ' * 80}wrong: {secret}")))
    told = command(tmp_path, THREE[:1])
    assert "wrong: ***" in str(told.errors[0])
    assert secret[:10] not in str(told.errors[0])


def test_a_model_that_wants_another_name_for_its_limit_gets_it(tmp_path):
    key, *_ = begin(tmp_path, THREE[:1], base_url="http://127.0.0.1:1/v1")
    assert "max_tokens" in rows(tmp_path / FIRST)[0]["body"]
    refusal = Answer.error(400, "use 'max_completion_tokens' instead")
    put(tmp_path, reply_line(key, refusal))
    command(tmp_path, THREE[:1], base_url="http://127.0.0.1:1/v1")
    body = rows(tmp_path / SECOND)[0]["body"]
    assert "max_tokens" not in body
    assert body["max_completion_tokens"] == 4096


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"error": {"message": "overloaded"}}, "error-in-reply"),
        (None, "not-json-response"),
    ],
)
def test_a_reply_that_is_no_completion_is_asked_again(tmp_path, capsys, body, reason):
    key, *_ = begin(tmp_path, THREE[:1])
    response = {"status_code": 200, "body": body}
    put(tmp_path, reply_line(key, Answer.text(""), response=response))
    command(tmp_path, THREE[:1])
    assert f"{reason} 1" in capsys.readouterr().err


def test_a_key_that_an_endpoint_echoed_is_in_no_reply_and_no_message(
    tmp_path, monkeypatch
):
    key = "sk-test-77aa01bc"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    first, second, _ = begin(tmp_path)
    echo = Answer.text(f"your key is {key}")
    put(
        tmp_path,
        reply_line(first, echo).replace("served-model", f"m-{key}"),
        reply_line(second, Answer.error(400, f"bad key {key}")),
    )
    told = command(tmp_path, THREE)
    assert told.texts[0] == "your key is ***"
    assert told.replies[0].model == "m-***"
    assert "bad key ***" in str(told.errors[1])


def test_of_doubled_replies_the_first_counts_and_it_is_said(tmp_path, capsys):
    first, second, third = begin(tmp_path)
    put(
        tmp_path,
        reply_line(first, Answer.text("one")),
        reply_line(second, Answer.text("two")),
        reply_line(first, Answer.text("another")),
        reply_line(third, Answer.text("three")),
    )
    put(tmp_path, reply_line(second, Answer.text("two")), name="copy.jsonl")
    assert command(tmp_path, THREE).texts == {0: "one", 1: "two", 2: "three"}
    assert (
        "2 replies came more than once; the first of each counts"
        in capsys.readouterr().err
    )


def test_a_reply_outdoes_an_error_whichever_came_first(tmp_path):
    first, second, third = begin(tmp_path)
    put(
        tmp_path,
        unanswered_line(first),
        reply_line(first, Answer.text("one")),
        reply_line(second, Answer.text("two")),
        reply_line(second, Answer.error(500)),
        reply_line(third, Answer.text("three")),
    )
    assert command(tmp_path, THREE).texts == {0: "one", 1: "two", 2: "three"}


def test_foreign_and_broken_lines_are_passed_over_counted_and_named(tmp_path, capsys):
    lines = [reply_line(key, Answer.text("x")) for key in begin(tmp_path)]
    put(
        tmp_path,
        reply_line("request-1", Answer.text("of another run")),
        "",
        lines[0],
        "{broken",
        '{"custom_id": 7, "response": {}}',
        '["no object"]',
        lines[1],
        "[" * 100_000,
        lines[2],
    )
    assert set(command(tmp_path, THREE).replies) == {0, 1, 2}
    err = capsys.readouterr().err
    assert "1 reply is to a request that no file here holds" in err
    assert "4 lines can't be read: batch_6f_output.jsonl line 4," in err


def test_a_line_that_is_cut_means_that_more_is_coming(tmp_path, capsys):
    lines = [reply_line(key, Answer.text("x")) for key in begin(tmp_path)]
    put(tmp_path, lines[0], lines[1][:-20], end="")
    told = command(tmp_path, THREE)
    assert set(told.replies) == {0}
    assert FIRST in told.message
    assert "ends in the middle of a line" in capsys.readouterr().err
    assert SECOND not in jsonl(tmp_path)
    put(tmp_path, *lines)
    assert set(command(tmp_path, THREE).replies) == {0, 1, 2}


def test_an_empty_output_is_one_that_is_still_coming(tmp_path, capsys):
    begin(tmp_path)
    (tmp_path / f"{FIRST}.output.jsonl").touch()
    assert FIRST in command(tmp_path, THREE).message
    assert "output.jsonl: empty" in capsys.readouterr().err
    (tmp_path / FIRST).unlink()
    assert SECOND in command(tmp_path, THREE).message


def test_a_huge_reply_is_one_that_is_too_large(tmp_path):
    first, second, third = begin(tmp_path)
    put(
        tmp_path,
        reply_line(first, Answer.text("one")),
        reply_line(second, Answer.text("x" * (9 * 2**20))),
        reply_line(third, Answer.text("three")),
    )
    told = command(tmp_path, THREE)
    assert {n: reply.finish for n, reply in told.replies.items()} == {
        0: "stop",
        1: "too-large",
        2: "stop",
    }
    assert len(told.replies[1].text) == 100_000


def test_replies_are_found_without_their_requests_and_in_place_of_them(tmp_path):
    first, second, third = begin(tmp_path)
    put(tmp_path, reply_line(first, Answer.text("one")))
    lines = [reply_line(key, Answer.text("other")) for key in (second, third)]
    (tmp_path / FIRST).write_text("\n".join(lines))
    assert command(tmp_path, THREE).texts == {0: "one", 1: "other", 2: "other"}


def test_requests_under_another_name_are_no_replies(tmp_path, capsys):
    begin(tmp_path)
    (tmp_path / "copy of requests.jsonl").write_text((tmp_path / FIRST).read_text())
    assert FIRST in command(tmp_path, THREE).message
    assert "copy of requests.jsonl: requests" in capsys.readouterr().err


def test_requests_that_were_written_anew_by_another_program_still_count(tmp_path):
    begin(tmp_path)
    kept = rows(tmp_path / FIRST)[:2]
    (tmp_path / FIRST).write_text(
        "\n".join(json.dumps(row, indent=None) for row in kept)
    )
    compact = "\n".join(json.dumps(row, separators=(",", ":")) for row in kept)
    (tmp_path / FIRST).write_text(compact)
    message = command(tmp_path, THREE).message
    assert FIRST in message
    assert len(keys(tmp_path / SECOND)) == 1


def test_what_a_kill_left_half_written_goes_with_the_next_round(tmp_path):
    (tmp_path / f".{FIRST}.x7").write_text("half")
    (tmp_path / f".{FIRST}.part").write_text("half, of version 0.4")
    begin(tmp_path)
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_file_that_comes_once_more_after_it_was_read_is_kept_beside_it(tmp_path):
    first, second, third = begin(tmp_path)
    put(tmp_path, *[reply_line(key, Answer.text("x")) for key in (first, second)])
    command(tmp_path, THREE)
    put(tmp_path, reply_line(third, Answer.text("y")))
    assert command(tmp_path, THREE).texts == {0: "x", 1: "x", 2: "y"}


@given(
    st.lists(
        st.one_of(st.binary(max_size=60), st.sampled_from([b"\n", b"{}", b"\xff\xfe"]))
    )
)
def test_no_file_can_make_reading_fail(tmp_path_factory, parts):
    folder = tmp_path_factory.mktemp("any")
    (folder / "x.jsonl").write_bytes(b"".join(parts))
    assert list(Folder(folder, "m").read()) == []


NAMES = ["status_code", "body", "error", "choices", "message", "content", "code"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(JSON, JSON)
def test_no_reply_can_make_reading_fail(response, error):
    row = {"custom_id": "k", "response": response, "error": error}
    line = read_line(json.dumps(row).encode(), "m")
    assert line.key == "k"
    assert line.reply is not None


def test_the_file_of_submissions_is_named_where_it_is_damaged(tmp_path):
    (tmp_path / "submitted.json").write_text('{"half')
    with pytest.raises(InputError, match=r"submitted\.json: not as it was written"):
        command(tmp_path, THREE)


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"submit": "perhaps"}, "submit"),
        ({"max_requests": 50_001}, "max_requests"),
        ({"answer_as": "poem"}, "answer_as"),
    ],
)
def test_an_option_with_a_value_that_can_not_be_is_named(tmp_path, options, key):
    with pytest.raises(InputError, match=rf"^generate\.options\.{key}: "):
        command(tmp_path, THREE, options=options)
