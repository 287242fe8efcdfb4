"""The batch engine by hand: files out, files in, whatever these hold."""

import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus_files import CORPUS, check_expected
from tests.llm.batch_rounds import command, config, jsonl, request
from tests.llm.test_completion import JSON
from tests.servers.batch import answer_file, reply_line, unanswered_line
from tests.servers.chat import Answer
from toolbank.llm.chat import EngineError
from toolbank.llm.engines.batch import folder as writing
from toolbank.llm.engines.batch.folder import Folder, read_line
from toolbank.llm.engines.openai.completion import make_identity
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


def test_the_message_has_files_and_commands_that_can_be_pasted(tmp_path):
    folder = tmp_path / "my run" / "batch"
    url = "http://localhost:1/v1;id/$(id)/`id`/'"
    message = command(folder, THREE, base_url=url).message
    assert str(folder / FIRST) in message
    assert f"toolbank run '{tmp_path / 'my run'}'" in message
    assert "generate.options.submit=true" in message
    lines = [shlex.split(line) for line in message.splitlines() if "curl" in line]
    assert [line[1] for line in lines] == [f"{url}/files", f"{url}/batches"]
    assert all(line[0] == "curl" and ";id" not in line for line in lines)


def test_another_round_holds_what_follows_and_nothing_twice(tmp_path):
    begin(tmp_path)
    output = answer_file((tmp_path / FIRST).read_text(), said)
    (tmp_path / "out.jsonl").write_text(output)
    later = [*THREE, request(0, "polish"), request(3)]
    message = command(tmp_path, later).message
    names = [SECOND.replace("write", "polish"), SECOND]
    assert jsonl(tmp_path) == ["out.jsonl", FIRST, *names]
    assert [len(keys(tmp_path / name)) for name in names] == [1, 1]
    again = command(tmp_path, later).message
    assert jsonl(tmp_path) == ["out.jsonl", FIRST, *names]
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
    assert jsonl(tmp_path) == ["a.jsonl", first, second]


def test_files_are_split_at_the_bytes_that_the_api_takes(tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "MOST_BYTES", 1000)
    command(tmp_path, [request(number) for number in range(9)])
    sizes = [(tmp_path / name).stat().st_size for name in jsonl(tmp_path)]
    assert len(sizes) > 1
    assert max(sizes) <= 1000
    assert sum(len(keys(tmp_path / name)) for name in jsonl(tmp_path)) == 9


def test_a_request_is_sent_again_as_often_as_retries_say(tmp_path):
    begin(tmp_path)
    for round_number in range(1, 4):
        sent = keys(tmp_path / f"round-{round_number:03d}-write-001.jsonl")
        assert len(sent) == (3 if round_number == 1 else 1)
        lines = [reply_line(key, Answer.text("x")) for key in sent[:-1]]
        put(tmp_path, *lines, unanswered_line(sent[-1]), name=f"{round_number}.jsonl")
        told = command(tmp_path, THREE)
    (error,) = told.errors.values()
    assert error.reason == "batch-expired"
    assert not (error.retryable or error.fatal)
    assert "3 tries" in str(error)
    assert set(told.replies) == {0, 1}
    assert not told.message


def test_an_old_error_does_not_answer_the_round_that_asks_again(tmp_path):
    key, _, _ = begin(tmp_path)
    others = [reply_line(other, Answer.text("x")) for other in keys(tmp_path / FIRST)]
    put(tmp_path, unanswered_line(key), *others[1:], name="zz_error.jsonl")
    for name in ("zz_error.jsonl", "a copy.jsonl"):
        put(tmp_path, unanswered_line(key), *others[1:], name=name)
        for _ in range(2):
            assert SECOND in command(tmp_path, THREE).message
    assert jsonl(tmp_path) == ["a copy.jsonl", FIRST, SECOND, "zz_error.jsonl"]
    (again,) = keys(tmp_path / SECOND)
    put(tmp_path, unanswered_line(again, "batch_cancelled"), name="zz_error.jsonl")
    told = command(tmp_path, THREE)
    assert told.counts.retries == {"batch-cancelled": 1}
    assert jsonl(tmp_path)[-2:] == ["round-003-write-001.jsonl", "zz_error.jsonl"]
    put(tmp_path, reply_line(again, Answer.text("late")), name="batch_aa_output.jsonl")
    assert command(tmp_path, THREE).texts == {0: "late", 1: "x", 2: "x"}


def test_replies_that_were_renamed_after_their_round_answer_no_later_one(tmp_path):
    """Folders of versions before 0.10: each try of a request has the same `custom_id`."""
    key, *_ = begin(tmp_path, THREE[:1])
    put(tmp_path, unanswered_line(key), name="round-001.out.jsonl")
    command(tmp_path, THREE[:1])
    content = (tmp_path / SECOND).read_text()
    (tmp_path / SECOND).write_text(content.replace(f"{key}-2", key))
    told = command(tmp_path, THREE[:1])
    assert SECOND in told.message
    assert not told.counts.retries
    put(tmp_path, unanswered_line(key, "batch_cancelled"), name="new.jsonl")
    assert command(tmp_path, THREE[:1]).counts.retries == {"batch-cancelled": 1}


def refused(status, message="busy"):
    return lambda key: reply_line(key, Answer.error(status, message))


def without_completion(body):
    response = {"status_code": 200, "body": body}
    return lambda key: reply_line(key, Answer.text(""), response=response)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        *((refused(status), f"http-{status}") for status in (429, 500, 401, 404)),
        (refused(400, "use 'max_completion_tokens' instead"), "http-400"),
        (unanswered_line, "batch-expired"),
        (lambda _: "", "no-reply"),
        (without_completion({"error": {"message": "overloaded"}}), "error-in-reply"),
        (without_completion(None), "not-json-response"),
    ],
)
def test_a_request_without_a_reply_goes_into_the_next_round(tmp_path, line, reason):
    url = "http://127.0.0.1:1/v1"
    first, second, third = begin(tmp_path, base_url=url)
    assert "max_tokens" in rows(tmp_path / FIRST)[0]["body"]
    lines = [reply_line(key, Answer.text("x")) for key in (second, third)]
    put(tmp_path, line(first), *lines)
    told = command(tmp_path, THREE, base_url=url)
    assert set(told.texts) == {1, 2}
    assert told.counts.retries == {reason: 1}
    (row,) = rows(tmp_path / SECOND)
    name = "max_completion_tokens" if reason == "http-400" else "max_tokens"
    assert {n: v for n, v in row["body"].items() if "tokens" in n} == {name: 4096}


def test_lines_are_read_as_expected(update_corpus):
    """One line of each kind, as the documentation of the providers has it."""
    lines, found = CORPUS / "completions" / "batch_lines.json", {}
    for name, row in json.loads(lines.read_text()).items():
        key, reply = read_line(json.dumps({"custom_id": "k", **row}).encode(), "m")
        assert key == "k"
        is_error = isinstance(reply, EngineError)
        found[name] = reply.reason if is_error else [reply.text, reply.finish]
    expected = lines.with_name(f"{lines.name}.tools.json")
    check_expected(expected, found, update=update_corpus)


@pytest.mark.parametrize("secret", ["sk-test-77aa01bc", "sk-" + "s3cret" * 20])
def test_an_echoed_key_is_in_no_reply_and_no_message(tmp_path, monkeypatch, secret):
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    first, second, _ = begin(tmp_path)
    echo = Answer.text(f"your key is {secret}")
    put(
        tmp_path,
        reply_line(first, echo).replace("served-model", f"m-{secret}"),
        reply_line(second, Answer.error(400, f"{'so ' * 80}bad\nkey: {secret}")),
    )
    told = command(tmp_path, THREE)
    assert told.texts[0] == "your key is ***"
    assert told.replies[0].model == "m-***"
    assert told.errors[1].reason == "http-400"
    assert "bad key: ***" in str(told.errors[1])
    assert secret[:10] not in str(told.errors[1])


def test_the_first_of_several_replies_counts_and_any_reply_outdoes_an_error(tmp_path):
    first, second, third = begin(tmp_path)
    put(
        tmp_path,
        unanswered_line(first),
        reply_line(first, Answer.text("one")),
        reply_line(second, Answer.text("two")),
        reply_line(first, Answer.text("another")),
        reply_line(second, Answer.error(500)),
        reply_line(third, Answer.text("three")),
    )
    put(tmp_path, reply_line(second, Answer.text("other")), name="copy.jsonl")
    assert command(tmp_path, THREE).texts == {0: "one", 1: "two", 2: "three"}


def reversed_with_crlf_and_bom(folder, lines):
    content = "\ufeff" + "\r\n".join(reversed(lines))
    (folder / "out.jsonl").write_bytes(content.encode())


def in_place_of_the_requests(folder, lines):
    put(folder, lines[0])
    (folder / FIRST).write_text("\n".join(lines[1:]))


def over_an_earlier_part(folder, lines):
    put(folder, *lines[:2])
    command(folder, THREE)
    put(folder, lines[2])


def among_other_lines(folder, lines):
    other = reply_line("request-1", Answer.text("of another run"))
    odd = ["{broken", '{"custom_id": 7, "response": {}}', '["list"]', "[" * 100_000]
    put(folder, *lines[:2], other, "", *odd, lines[2])


def next_to_copied_requests(folder, lines):
    copy = (folder / FIRST).read_text()
    put(folder, copy, copy.replace(": ", ":"), *lines, name="copy of requests.jsonl")


WAYS = (
    *(reversed_with_crlf_and_bom, in_place_of_the_requests, over_an_earlier_part),
    *(among_other_lines, next_to_copied_requests),
)


@pytest.mark.parametrize("write", WAYS)
def test_replies_are_found_however_the_file_was_made(tmp_path, capsys, write):
    write(tmp_path, [reply_line(key, Answer.text(key)) for key in begin(tmp_path)])
    sent = [request(n).key(make_identity(config())) for n in range(3)]
    told = command(tmp_path, THREE)
    assert told.texts == dict(enumerate(sent))
    assert told.replies[0].model == "served-model"
    assert (told.replies[0].prompt_tokens, told.replies[0].completion_tokens) == (7, 3)
    assert told.message == ""
    note = "batch_6f_output.jsonl, line 3: " if write is among_other_lines else ""
    assert note in capsys.readouterr().err


def test_a_file_that_is_empty_or_cut_is_still_coming(tmp_path, capsys):
    lines = [reply_line(key, Answer.text("x")) for key in begin(tmp_path)]
    (tmp_path / f"{FIRST}.output.jsonl").touch()
    assert FIRST in command(tmp_path, THREE).message
    put(tmp_path, lines[0], lines[1][:-20], end="")
    told = command(tmp_path, THREE)
    assert set(told.replies) == {0}
    assert FIRST in told.message
    assert "batch_6f_output.jsonl ends in the middle" in capsys.readouterr().err
    assert SECOND not in jsonl(tmp_path)
    put(tmp_path, *lines)
    assert set(command(tmp_path, THREE).replies) == {0, 1, 2}


def test_a_huge_reply_is_one_that_is_too_large(tmp_path):
    first, second, _ = begin(tmp_path)
    put(
        tmp_path,
        reply_line(first, Answer.text("one")),
        reply_line(second, Answer.text("x" * (9 * 2**20))),
    )
    replies = command(tmp_path, THREE).replies
    assert [reply.finish for reply in replies.values()] == ["stop", "too-large"]
    assert len(replies[1].text) == 100_000


def test_requests_that_were_written_anew_by_another_program_still_count(tmp_path):
    begin(tmp_path)
    kept = rows(tmp_path / FIRST)[:2]
    compact = "\n".join(json.dumps(row, separators=(",", ":")) for row in kept)
    (tmp_path / FIRST).write_text(compact)
    message = command(tmp_path, THREE).message
    assert FIRST in message
    assert len(keys(tmp_path / SECOND)) == 1


def test_what_a_kill_left_half_written_goes_with_the_next_round(tmp_path):
    (tmp_path / f".{FIRST}.x7").write_text("half")
    begin(tmp_path)
    assert list(tmp_path.glob(".*")) == []


@given(
    st.lists(
        st.one_of(st.binary(max_size=60), st.sampled_from([b"\n", b"{}", b"\xff\xfe"]))
    )
)
def test_no_file_can_make_reading_fail(tmp_path_factory, parts):
    folder = tmp_path_factory.mktemp("any")
    (folder / "x.jsonl").write_bytes(b"".join(parts))
    assert list(Folder(folder, "m").read()) == []


@given(JSON, JSON)
def test_no_reply_can_make_reading_fail(response, error):
    row = {"custom_id": "k", "response": response, "error": error}
    custom_id, reply = read_line(json.dumps(row).encode(), "m")
    assert custom_id == "k"
    assert reply is not None


def test_a_damaged_list_of_submitted_files_is_refused(tmp_path):
    (tmp_path / "submitted.json").write_text('{"half')
    with pytest.raises(InputError, match=r"submitted\.json: "):
        command(tmp_path, THREE)
