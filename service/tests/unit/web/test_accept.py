"""Choosing a media type by the Accept header."""

import pytest

from agentjobs.web.api.accept import preferred_type

OFFERED = ("text/x-diff", "text/plain", "application/json")


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ([], "text/x-diff"),
        (["*/*"], "text/x-diff"),
        (["text/*"], "text/x-diff"),
        (["text/plain"], "text/plain"),
        (["Application/JSON"], "application/json"),
        (["application/json; charset=utf-8"], "application/json"),
        (["application/*"], "application/json"),
        (["application/json, */*"], "application/json"),
        (["application/json;q=0.1, */*"], "text/x-diff"),
        (["text/x-diff;q=0.4, application/json;q=0.5"], "application/json"),
        (["text/x-diff;q=0.4", "application/json;q=0.5"], "application/json"),
        (["text/*;q=0, application/json;q=0.1"], "application/json"),
        (["text/plain, text/x-diff;q=0.9"], "text/plain"),
        # None that could be sent: the default.
        (["image/png"], "text/x-diff"),
        (["application/json;q=0"], "text/x-diff"),
        (["application/json;q=nonsense"], "text/x-diff"),
        (["", ",;,;;q=,"], "text/x-diff"),
        ([",".join(["image/png"] * 10_000)], "text/x-diff"),
    ],
)
def test_the_preferred_type_is_chosen(accept: list[str], chosen: str) -> None:
    scope = {"headers": [(b"accept", value.encode()) for value in accept]}
    assert preferred_type(scope, OFFERED) == chosen
