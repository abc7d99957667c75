"""JSON with comments and trailing commas."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs_runtime.json_with_comments import decode_json_with_comments

_EXTRAS = (" ", "\n", '// a, ] "\n', '/* " // */', "/**/", "/* a\n* b */")
_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('/*",]}\\ax\n', max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text('/"a', max_size=3), inner),
    max_leaves=12,
)


@given(_values, st.randoms(use_true_random=False))
def test_comments_and_trailing_commas_change_nothing(value: Any, random: Any) -> None:
    def write(value: Any) -> str:
        extra = random.choice(_EXTRAS)
        comma = extra + random.choice(["", ","]) + random.choice(_EXTRAS)
        if isinstance(value, list) and value:
            return f"[{extra}{f'{extra},'.join(map(write, value))}{comma}]"
        if isinstance(value, dict) and value:
            pairs = (f"{json.dumps(key)}{extra}:{write(each)}" for key, each in value.items())
            return f"{{{extra}{f'{extra},'.join(pairs)}{comma}}}"
        return extra + json.dumps(value) + extra

    assert decode_json_with_comments(write(value).encode()) == value


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"a": 1,\n// x\n "b" 2}', "line 3"),
        (b'/* a\nb */ {"a": /* " */ x}', "line 2"),
        (b"[1,,2]", "line 1"),
        (b"{} // a\n[", "line 2"),
        (b'"\xff"', "it is not UTF-8"),
    ],
)
def test_an_error_names_the_line(content: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_json_with_comments(content)
