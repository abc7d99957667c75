"""The provider's key does not come through to the agent, however it is cut."""

from hypothesis import given
from hypothesis import strategies as st

from agentjobs_runtime.sandbox_http.key_filter import KeyFilter, redact_key

KEY = "sk-sk-sk-key-of-the-organization"


@given(
    st.lists(st.sampled_from([KEY, KEY[:7], KEY[3:], "s", "sk-", "text ", "\n"]), max_size=8),
    st.integers(1, 9),
)
def test_any_chunks_give_the_same_text_without_the_key(words: list[str], size: int) -> None:
    text = "".join(words)
    key_filter = KeyFilter(KEY)
    pieces = [text[at : at + size].encode() for at in range(0, len(text), size)]

    passed = b"".join(key_filter.feed(piece) for piece in pieces) + key_filter.end()

    assert passed.decode() == redact_key(text, KEY)


def test_only_a_possible_beginning_of_the_key_is_held_back() -> None:
    key_filter = KeyFilter(KEY)

    assert key_filter.feed(b'data: {"a": 1}\n\n') == b'data: {"a": 1}\n\n'
    assert key_filter.feed(b"tasks-") == b"tasks-"
    assert key_filter.feed(b"task sk-s") == b"task "
    assert key_filter.feed(b"omething") == b"sk-something"


def test_a_placeholder_key_is_redacted_only_in_errors() -> None:
    assert KeyFilter("ollama").feed(b"run ollama!") == b"run ollama!"
    assert KeyFilter("ollama", min_length=1).feed(b"no ollama!") == b"no [redacted]!"
    assert KeyFilter("", min_length=1).feed(b"text") == b"text"
    assert redact_key("text", "") == "text"
