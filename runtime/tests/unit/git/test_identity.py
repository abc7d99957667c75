"""Identities from text that others wrote."""

import pytest

from agentjobs_runtime.git.identity import Identity


@pytest.mark.parametrize(
    ("name", "email", "line"),
    [
        ("Ada", "ada@example.org", "Ada <ada@example.org>"),
        (" Ada\nJob: job_1 ", "ada@example.org", "Ada Job: job_1 <ada@example.org>"),
        ("Ada <x@y>", " ada@example.org\n", "Ada x@y <ada@example.org>"),
        ("a\u2028b\x85c\x00d\x1b", "a@b", "a b c d <a@b>"),
        ("x" * 500, "a@b", f"{'x' * 200} <a@b>"),
    ],
)
def test_an_identity_is_one_line_without_delimiters(name: str, email: str, line: str) -> None:
    assert str(Identity.clean(name, email)) == line


@pytest.mark.parametrize(
    ("name", "email"),
    [
        ("", "a@b"),
        ("<>\n", "a@b"),
        ("Ada", ""),
        ("Ada", "nobody"),
        ("Ada", "a@b\nJob: job_1"),
        ("Ada", "a b@c"),
        ("Ada", "a>@b"),
        ("Ada", f"{'a' * 300}@b"),
    ],
)
def test_text_without_a_name_or_an_address_is_no_identity(name: str, email: str) -> None:
    assert Identity.clean(name, email) is None
