"""Secrets in an agent's output are redacted, however the stream is split."""

import base64
import hashlib
import json
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs.organizations.tokens import new_token
from agentjobs_runtime.redaction.redactor import Redactor
from agentjobs_runtime.redaction.secret_forms import list_fragments

PASSWORD = "correct horse/battery+staple"
LONG = "".join(f"<{number}>" for number in range(400))
RANDOM = "hQ7vTz2LpX9aRw4KdY6mBn3s"
VALUES = (
    PASSWORD,
    RANDOM,
    "abcdef",
    "abcdefghij",
    "aaaaaaab",
    LONG,
    LONG[:200] + "!" * 50,
    "zürich",
)
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{'TUlJRQ' * 10}\n-----END RSA PRIVATE KEY-----"
TOKENS = (
    new_token("ajk_"),
    new_token("ajt_"),
    "whsec_" + base64.b64encode(bytes(range(32))).decode(),
    "sk-" + "a1B2" * 12,
    "sk-ant-api03-" + "a1-_" * 20,
    "ghp_" + "a1B2" * 9,
    "gho_" + "a1B2" * 9,
    "ghs_" + "a1B2" * 9,
    "ghs_4711_eyJhbGciOiJSUzI1NiJ9." + "a1-_" * 90 + "." + "B2-_" * 40,
    "ghr_" + "a1B2" * 19,
    "github_pat_" + "a1_" * 20,
    "glpat-" + "a1-_" * 5,
    "glpat-" + "a1-_" * 7 + ".01.0z1a2b3c4",
    "glcbt-" + "64_" + "a1-_" * 5,
    "xoxb-123456789012-abcdef",
    "AKIAIOSFODNN7EXAMPLE",
    "AIza" + "a1-_B" * 7,
    KEY,
)


def redacted(text: str | bytes, *values: str, size: int | None = None) -> str:
    data = text.encode() if isinstance(text, str) else text
    redactor = Redactor(values)
    pieces = range(0, len(data), size or len(data) or 1)
    shown = b"".join(redactor.feed(data[at : at + (size or len(data))]) for at in pieces)
    return (shown + redactor.end()).decode("utf-8", "replace")


@pytest.mark.parametrize("size", [None, 1, 3, 7])
def test_a_value_is_redacted_wherever_it_is_split(size: int | None) -> None:
    results = {value: redacted(f"before {value} after", *VALUES, size=size) for value in VALUES}
    assert results == dict.fromkeys(VALUES, "before [redacted] after")


@pytest.mark.parametrize("size", [None, 1, 5])
@pytest.mark.parametrize("text", ["key={}\nnext", '"{}"', "{}", "\x1b[32m{}\x1b[0m"])
def test_a_token_of_a_known_format_is_redacted(text: str, size: int | None) -> None:
    results = {token: redacted(text.format(token), size=size) for token in TOKENS}
    assert results == dict.fromkeys(TOKENS, text.format("[redacted]"))


@pytest.mark.parametrize("offset", range(3))
def test_a_value_inside_base64_is_redacted(offset: int) -> None:
    whole = base64.b64encode(b"x" * offset + PASSWORD.encode() + b":and more").decode()
    shown = redacted(whole, PASSWORD)
    assert "[redacted]" in shown
    assert len(shown) < len(whole) - len(PASSWORD) + len("[redacted]")


@pytest.mark.parametrize(
    "text",
    [
        "s3cret/of%2Bthe%3Dteam%26",
        "s3cret%2Fof%2Bthe%3Dteam%26",
        "s3cret%2fof%2bthe%3dteam%26",
        "s3cret/of+the=team&",
        r"s3cret\/of+the=team&",
        "s3cret/of+the=team&amp;",
    ],
)
def test_a_value_is_redacted_however_an_encoder_escapes_it(text: str) -> None:
    assert redacted(f"<{text}>", "s3cret/of+the=team&") == "<[redacted]>"


def test_a_value_is_redacted_in_urls_and_json() -> None:
    value = 'two\nlines & "quotes"'
    assert redacted(quote(value, safe=""), value) == "[redacted]"
    assert redacted(json.dumps({"a": value}), value) == '{"a": "[redacted]"}'


def test_each_line_of_a_key_inside_json_is_redacted() -> None:
    value = json.dumps({"private_key": KEY.replace("TUlJRQ", "aB3dE5", 1)})
    assert redacted("the key is " + "aB3dE5" + "TUlJRQ" * 9, value) == "the key is [redacted]"


def test_each_line_of_a_value_is_redacted() -> None:
    value = "-----BEGIN PRIVATE KEY-----\nfirst line\nsecond line\n-----END PRIVATE KEY-----\n"
    assert redacted("1  first line\n2  second line\n", value) == "1  [redacted]\n2  [redacted]\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("> Authorization: Bearer abc.def-123\r\n", "> Authorization: Bearer [redacted]\r\n"),
        ('{"authorization": "Basic dXNlcjpwYXNz"}', '{"authorization": "Basic [redacted]"}'),
        ("AUTHORIZATION=token 0123456789", "AUTHORIZATION=token [redacted]"),
        ("Authorization: Bearer $TOKEN", "Authorization: Bearer $TOKEN"),
        ("the authorization of a bearer of news", "the authorization of a bearer of news"),
    ],
)
@pytest.mark.parametrize("size", [None, 1, 4])
def test_the_value_of_an_authorization_header_is_redacted(
    text: str, shown: str, size: int | None
) -> None:
    assert redacted(text, size=size) == shown


@pytest.mark.parametrize(
    "text",
    [
        "task-list-of-things-to-do-today-and-tomorrow",
        "sk-short",
        "-----BEGIN CERTIFICATE-----\nTUlJRQ\n-----END CERTIFICATE-----",
        "ghp_ is how such tokens begin",
        "AKIA",
        "pass",
    ],
)
@pytest.mark.parametrize("size", [None, 1])
def test_ordinary_text_is_not_redacted(text: str, size: int | None) -> None:
    assert redacted(text, "", "pass", " \n", size=size) == text


def test_a_private_key_cannot_hide_the_rest_of_a_log() -> None:
    assert redacted(f"{KEY}\nall words shown") == "[redacted]\nall words shown"
    unending = "-----BEGIN PRIVATE KEY-----\n" + "words " * 10_000
    assert 40_000 < len(redacted(unending, size=1000)) < 50_000


@pytest.mark.parametrize("prompt", ["Continue? [y/n] ", "Password: ", "$ ", "50%"])
def test_a_terminal_prompt_is_not_held_back(prompt: str) -> None:
    assert Redactor([PASSWORD]).feed(prompt.encode()) == prompt.encode()


def test_output_held_back_is_bounded() -> None:
    redactor = Redactor([LONG])
    fed = shown = 0
    for piece in (LONG[:500].encode(), b"sk-", b"a" * 10_000, b"-" * 10_000, b"-----BEGIN A"):
        fed, shown = fed + len(piece), shown + len(redactor.feed(piece))
        assert len(redactor._held) <= 64
    assert len(redactor.end()) <= 64


def test_a_value_cut_off_by_the_end_of_the_stream_is_redacted() -> None:
    assert redacted("the password is correct horse/batt", PASSWORD) == "the password is [redacted]"
    assert redacted("that is corr", PASSWORD) == "that is corr"


def test_a_value_added_later_is_redacted_from_then_on() -> None:
    redactor = Redactor()
    assert redactor.feed(b"hunter22 ") == b"hunter22 "
    redactor.add("hunter22")
    assert redactor.feed(b"hunter22 ") + redactor.end() == b"[redacted] "


@pytest.mark.parametrize("size", [None, 1, 3, 8, 11])
@pytest.mark.parametrize(
    "encode", [str.encode, lambda text: base64.b64encode(b"user:" + text.encode() + b"@host/")]
)
def test_a_value_without_some_letters_is_redacted(
    encode: Callable[[str], bytes], size: int | None
) -> None:
    for part in (RANDOM[3:], RANDOM[:-3], RANDOM[2:-1], RANDOM[6:17]):
        shown = redacted(encode(part), RANDOM, size=size)
        assert "[redacted]" in shown
        assert not any(part[at : at + 4] in shown for at in range(len(part) - 3))
    middle = redacted(f"a {RANDOM[:11]}-{RANDOM[12:]} b", RANDOM, size=size)
    assert middle == "a [redacted]-[redacted] b"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("postgres", "postgre"),
        ("correct-horse-battery-staple", "correct-horse-battery"),
        (f"postgresql://app:{RANDOM}@db.example.com/app", "postgresql://app:"),
        (f"postgresql://app:{RANDOM}@db.example.com/app", "@db.example.com/app"),
        ("1234567890123456", "1234567890123"),
        ("ABABABABABABABAB-0", "ABABABABABABABA"),
        (f"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ.{RANDOM}", "IkpXVCJ9.eyJ"),
        (KEY.replace("TUlJRQ", "MIIEvQIBADANBgkqhkiG9w0BAQ", 1), "MIIEvQIBADANBgkqhkiG"),
    ],
)
def test_a_part_that_is_ordinary_text_is_not_redacted(value: str, text: str) -> None:
    assert redacted(f"with {text} in it", value) == f"with {text} in it"


def test_a_long_value_has_a_bounded_number_of_fragments() -> None:
    value = "".join(
        base64.b64encode(hashlib.sha512(b"%d" % n).digest()).decode() for n in range(300)
    )
    assert len(list(list_fragments([value]))) < 6_000
    shown = redacted(value[3000:3100], value).replace("[redacted]", "")
    assert len(shown) < 20


FRAGMENTS = st.one_of(
    st.sampled_from([*VALUES, *TOKENS]).flatmap(
        lambda text: st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(
            lambda ends: text[min(ends) : max(ends)]
        )
    ),
    st.sampled_from(VALUES[:2]).map(lambda text: base64.b64encode(text.encode())[:-2].decode()),
    st.sampled_from(["Authorization: Bearer ", "authorization", '": "', "basic abc", "-----END "]),
    st.text(alphabet="abs k-_\n\rAB=:\x1bm", max_size=6),
)


@given(
    text=st.lists(FRAGMENTS, max_size=8).map("".join),
    cuts=st.lists(st.integers(0, 3000), max_size=12),
)
def test_any_split_gives_the_same_text(text: str, cuts: list[int]) -> None:
    data = text.encode()
    redactor = Redactor(VALUES)
    at = 0
    shown = b""
    for cut in [*sorted(cuts), len(data)]:
        shown += redactor.feed(data[at : max(cut, at)])
        at = max(cut, at)
    shown += redactor.end()
    assert shown.decode() == redacted(data, *VALUES)


@given(
    st.text(min_size=6, max_size=200).filter(lambda text: len(text.strip()) >= 6),
    st.text(max_size=30),
    st.text(max_size=30),
    st.integers(1, 40),
)
def test_values_are_always_redacted(value: str, before: str, after: str, size: int) -> None:
    data = f"{before}{value}{after}".encode(errors="replace")
    hidden = value.strip().encode(errors="replace")
    shown = redacted(data, value, size=size).encode()
    assert hidden not in shown.replace(b"[redacted]", b"\0")
