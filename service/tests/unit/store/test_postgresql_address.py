"""URLs of PostgreSQL that name several hosts."""

import pytest

from agentjobs.store.postgresql.address import split_hosts


@pytest.mark.parametrize(
    ("url", "urls"),
    [
        ("postgresql://me:hush@a/db", ["postgresql://me:hush@a/db"]),
        ("postgresql:///db", ["postgresql:///db"]),
        ("postgresql:///db?host=/run/pg", ["postgresql:///db?host=/run/pg"]),
        (
            "postgresql://me@a:1,[::1]:2,c/db?target_session_attrs=any",
            [
                "postgresql://me@a:1/db?target_session_attrs=any",
                "postgresql://me@[::1]:2/db?target_session_attrs=any",
                "postgresql://me@c/db?target_session_attrs=any",
            ],
        ),
        (
            "postgresql:///db?user=me&host=a,b&port=1,2",
            [
                "postgresql:///db?user=me&host=a&port=1",
                "postgresql:///db?user=me&host=b&port=2",
            ],
        ),
        (
            "postgresql://me@/db?host=a,b&port=1",
            ["postgresql://me@/db?host=a&port=1", "postgresql://me@/db?host=b&port=1"],
        ),
        (
            "postgresql:///db?host=a,b",
            ["postgresql:///db?host=a", "postgresql:///db?host=b"],
        ),
    ],
)
def test_each_host_has_its_own_url(url: str, urls: list[str]) -> None:
    assert split_hosts(url) == urls
