"""Validation of a platform's responses, and the limits on what is read from them."""

import msgspec
import pytest
from multidict import CIMultiDict

from agentjobs.platforms.comments import MAX_COMMENTS, NewerComments
from agentjobs.platforms.gitea.responses import CommentTime
from agentjobs.platforms.github.app import InstallationToken
from agentjobs.platforms.github.responses import RepositoryPage
from agentjobs.platforms.http.responses import (
    ApiError,
    Response,
    decode_as,
    error_from,
    link_url,
)
from agentjobs.platforms.protocol import (
    Account,
    Comment,
    PlatformError,
    PullRequest,
    RemotePull,
    RemoteRepository,
)
from agentjobs.platforms.text import line_location
from agentjobs.platforms.validate import MAX_COMMENT_BYTES, parse_count, validate

PULL = RemotePull(7, "A change", "open", False, "a" * 40, "https://git.acme.test/a/b/pull/7")
REPOSITORY = RemoteRepository("41", "acme/shop", "main")
COMMENT = Comment(3, "ada", "Hello", "https://git.acme.test/a/b/pull/7#3")


def response(body: bytes, status: int = 200, **headers: str) -> Response:
    return Response(status, CIMultiDict(headers), body)


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (PULL, {"number": 0}),
        (PULL, {"number": 2**63}),
        (PULL, {"head_commit": "\x00"}),
        (PULL, {"head_commit": "main"}),
        (PULL, {"url": "javascript:alert(1)"}),
        (PULL, {"url": "https://git.acme.test/\x00"}),
        (PULL, {"url": "https://git.acme.test/ x"}),
        (PULL, {"url": "https:///a"}),
        (PULL, {"url": "https://[x"}),
        (PULL, {"url": "https://git.acme.test@elsewhere.test/"}),
        (PULL, {"url": f"https://git.acme.test/{'x' * 2_000}"}),
        (PullRequest(7, PULL.url, False), {"url": ""}),
        (REPOSITORY, {"external_id": "0"}),
        (REPOSITORY, {"external_id": "-1"}),
        (REPOSITORY, {"external_id": "9" * 5_000}),
        (REPOSITORY, {"default_branch": "ma\x00in"}),
        (REPOSITORY, {"full_name": "acme/sh\x00op"}),
        (REPOSITORY, {"full_name": "x" * 1_001}),
        (Account("ada", is_own=False), {"login": "a\x00"}),
        (Account("ada", is_own=False), {"login": ""}),
        (COMMENT, {"id": -3}),
        (COMMENT, {"author": "a\x00da"}),
    ],
)
def test_values_that_no_platform_returns_are_refused(
    value: msgspec.Struct, fields: dict[str, str]
) -> None:
    assert validate("GitHub", value) == value
    with pytest.raises(PlatformError, match="GitHub returned an invalid"):
        validate("GitHub", msgspec.structs.replace(value, **fields))


def test_valid_values_are_accepted_and_texts_are_cleaned() -> None:
    merged = msgspec.structs.replace(PULL, head_commit="", url="http://hub.internal:8080/a/b/7")
    assert validate("GitHub", merged) == merged
    empty = RemoteRepository("1", "acme/deep/er/.github", "")
    assert validate("GitLab", empty) == empty
    odd = msgspec.structs.replace(PULL, title="a\x00b" + "x" * 5_000)
    assert validate("Gitea", odd).title == "a\ufffdb" + "x" * 997


def test_a_count_in_a_header_is_a_number_or_none() -> None:
    assert [parse_count(text) for text in ("0", "61", "", "-1", "1.5", "٣", "9" * 5_000)] == [
        0,
        61,
        *[None] * 5,
    ]


@pytest.mark.parametrize("moment", ["2026-01-01T00:00:00", "9999-12-31T23:59:59.999999", "soon"])
def test_a_time_without_a_zone_is_refused(moment: str) -> None:
    body = msgspec.json.encode({"token": "x", "expires_at": moment, "created_at": moment})
    for shape in (InstallationToken, CommentTime):
        with pytest.raises(PlatformError, match="unexpected response"):
            decode_as("GitHub", response(body), shape)


def test_reading_starts_an_hour_earlier_and_only_from_a_plausible_time() -> None:
    def since(moment: str) -> str | None:
        api_response = response(msgspec.json.encode({"created_at": moment}))
        return decode_as("Gitea", api_response, CommentTime).one_hour_earlier

    assert since("2026-01-02T00:30:00+02:00") == "2026-01-01T21:30:00Z"
    for never in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        assert since(never) is None


def test_messages_are_read_only_from_small_bodies() -> None:
    def message_of(body: bytes) -> str:
        return str(error_from("GitHub", response(body, 403), "", 0))

    assert "(No, ada)" in message_of(msgspec.json.encode({"message": "No, ada"}))
    assert "(" not in message_of(msgspec.json.encode({"message": "No", "more": ["x"] * 20_000}))
    # Only the first of thousands of empty messages are read.
    assert "a late message" not in message_of(
        msgspec.json.encode({"errors": [" "] * 2_000 + ["a late message"]})
    )


def test_responses_must_match_their_type() -> None:
    costly = b"[" + b"[]," * 400_000 + b"[]]"
    with pytest.raises(PlatformError, match=r"unexpected response \(Expected `int`, got `array`"):
        decode_as("GitHub", response(costly), list[int])
    many = {"repositories": [{"id": 1, "full_name": "a/b"}] * 1_001}
    with pytest.raises(PlatformError, match="unexpected response"):
        decode_as("GitHub", response(msgspec.json.encode(many)), RepositoryPage)
    assert decode_as("Gitea", response(b" null "), list[int]) == []
    with pytest.raises(ApiError, match="web page"):
        decode_as("Gitea", response(b"<html>"), list[int])


def test_each_page_is_found_by_its_relation() -> None:
    link = '<https://x/?page=2>; rel="next", <https://x/?page=9>; rel="last"'
    api_response = response(b"", Link=link)
    assert link_url(api_response, "last") == "https://x/?page=9"
    assert link_url(api_response, "next") == "https://x/?page=2"
    assert link_url(api_response, "prev") is None


def test_of_many_comments_the_oldest_come_first_and_all_are_bounded() -> None:
    newer = NewerComments("GitHub", 10)
    for numbers in (range(900, 2_000), range(5, 950)):
        comments = [
            msgspec.structs.replace(COMMENT, id=number, text="ü" * 60_000) for number in (numbers)
        ]
        newer.add(comments)
    comments = newer.oldest_first
    assert [comment.id for comment in comments] == list(range(11, 11 + MAX_COMMENTS))
    assert all(len(comment.text.encode()) <= MAX_COMMENT_BYTES for comment in comments)


def test_without_a_cursor_only_the_newest_comment_is_returned() -> None:
    newer = NewerComments("GitHub", None)
    assert newer.oldest_first == []
    for numbers in ((3, 900, 7), (20, 4)):
        newer.add(msgspec.structs.replace(COMMENT, id=number) for number in numbers)
    assert [comment.id for comment in newer.oldest_first] == [900]
    assert newer.is_known(1_000)


def test_a_place_is_one_plain_line_of_bounded_length() -> None:
    assert line_location("src/a.py", 12, 9) == "src/a.py, line 12"
    assert line_location("src/a.py", None, 9) == "src/a.py, line 9 before the change"
    assert line_location("src/a.py", 0, -1) == line_location("src/a.py", 10**30) == "src/a.py"
    assert line_location("a\x00\x1b[2J\nb\u202e.py", 1) == "a\ufffd[2J b.py, line 1"
    assert line_location("", 12) == ""
    assert len(line_location("ü" * 5_000, 12)) == 300 + len(", line 12")
