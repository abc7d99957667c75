"""An agent's output as text: harmless on a terminal, and never mistaken for the service's notes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs_runtime.log_decoder import LogDecoder, service_line


def safe(data: bytes, size: int | None = None) -> str:
    text = LogDecoder()
    step = size or len(data) or 1
    return "".join(text.feed(data[at : at + step]) for at in range(0, len(data), step)) + text.end()


SIZES = (None, 1, 2, 5)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain\ttext\r\n", "plain\ttext\r\n"),
        ("zürich €\n".encode(), "zürich €\n"),
        (b"\xff\xc3", "\ufffd\ufffd"),
        (b"\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
        (b"\x1b[2Jcleared", "\ufffd[2Jcleared"),
        (b"\x1b]0;title\x07", "\ufffd]0;title\ufffd"),
        (b"half \x1b[3", "half \ufffd[3"),
        (b"nul \x00", "nul \ufffd"),
        ("c1 \x9b2J".encode(), "c1 \ufffd2J"),
        ("turned \u202eround".encode(), "turned \ufffdround"),
    ],
)
def test_terminal_control_sequences_are_replaced(data: bytes, shown: str) -> None:
    assert {size: safe(data, size) for size in SIZES} == dict.fromkeys(SIZES, shown)


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("[agentjobs] pushed\n", "[agentjobs\\] pushed\n"),
        ("words\n[agentjobs] pushed", "words\n[agentjobs\\] pushed"),
        ("words\r[agentjobs] pushed", "words\r[agentjobs\\] pushed"),
        ("\x1b[0m[agent\x1b[1mjobs] x", "\x1b[0m[agent\x1b[1mjobs\\] x"),
        ("\u200b[agentjobs] x", "\u200b[agentjobs\\] x"),
        ("[agentjobs]\n[agentjobs]", "[agentjobs\\]\n[agentjobs\\]"),
        ("in [agentjobs] a line", "in [agentjobs] a line"),
        ("[agentjob] [agentjobs]", "[agentjob] [agentjobs]"),
        ("[agentjobs\n] x", "[agentjobs\n] x"),
    ],
)
def test_no_line_of_an_agent_begins_with_the_services_marker(data: str, shown: str) -> None:
    assert {size: safe(data.encode(), size) for size in SIZES} == dict.fromkeys(SIZES, shown)


def test_the_rest_of_an_interrupted_line_is_a_new_line() -> None:
    text = LogDecoder()
    assert text.feed(b"words") == "words"
    text.begin_line()
    assert text.feed(b"[agentjobs] x") == "[agentjobs\\] x"


def test_a_note_of_the_service_stays_on_one_line() -> None:
    assert service_line("a\n[agentjobs] b\r\n\x1b[2Jc") == "a [agentjobs] b \ufffd[2Jc"


PARTS = st.one_of(
    st.sampled_from(["[agentjobs]", "[agen", "tjobs]", "\n", "\r", "\x1b[0m", "\x1b[", "é", "x"]),
    st.binary(max_size=3).map(lambda data: data.decode("latin-1")),
)


@given(st.lists(PARTS, max_size=12).map("".join), st.integers(1, 9))
def test_any_split_gives_the_same_text(text: str, size: int) -> None:
    data = text.encode()
    assert safe(data, size) == safe(data)
