"""Comments on lines and words of reviews, on both stores: heard once, each kind by its own numbers,
and nothing that was said before anybody listened."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentjobs.settings import load
from agentjobs.store.database import Database
from agentjobs.store.opening import open_database
from tests.support.platform_sync import PlatformHouse, platform_house
from tests.support.workspace import House, open_house

SEEN = ("comment_seen", "line_comment_seen", "review_seen")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with open_house(tmp_path) as house:
        yield house


@pytest.fixture
async def at(database: Database, tmp_path: Path, house: House) -> PlatformHouse:
    settings = load({"AGENTJOBS_DATA_DIR": str(tmp_path / "data")})
    found = await platform_house(database, settings, house.remote)
    await found.connect()
    return found


def heard(at: PlatformHouse) -> list[str]:
    return [text for _, _, text in at.heard]


async def seen(at: PlatformHouse, number: int = 1) -> list[int | None]:
    row = await at.pull(number)
    return [row[column] for column in SEEN]


async def test_kinds_with_the_same_numbers_are_each_heard_once(at: PlatformHouse) -> None:
    await at.opened(1)
    assert await seen(at) == [0, 0, 0]
    at.says(1, 10, "of the review", "review")
    at.says(1, 10, "on a line", "line")
    at.says(1, 10, "in general")
    at.says(1, 9, "on a line before", "line")
    for _ in range(2):
        await at.look()
        assert heard(at) == ["in general", "on a line before", "on a line", "of the review"]
        assert await seen(at) == [10, 10, 10]
        at.restart()


async def test_what_fails_of_one_kind_holds_up_no_other(at: PlatformHouse) -> None:
    await at.opened(1)
    at.says(1, 10, "poison", "line")
    at.says(1, 11, "on a line", "line")
    at.says(1, 10, "in general")
    at.says(1, 10, "of the review", "review")
    at.deaf["poison"] = ValueError("it")
    for _ in range(2):
        row = await at.look()
        assert "A comment on #1 was not handled" in row["sync_error"]
        assert heard(at) == ["in general", "on a line", "of the review"]
        assert await seen(at) == [10, 0, 10]
    row = await at.glance()
    assert (row["sync_error"], await seen(at)) == (None, [10, 11, 10])
    assert heard(at) == ["in general", "on a line", "of the review"]


async def test_what_was_said_before_the_upgrade_starts_nothing_and_what_comes_after_does(
    at: PlatformHouse, database_url: str
) -> None:
    await at.opened(1)
    await at.opened(2)
    # As the schema was when these pull requests were opened.
    for column in SEEN[1:]:
        await at.execute(f"ALTER TABLE pulls DROP COLUMN {column}")
    await at.execute("DROP TABLE used_form_tokens")
    await at.execute("UPDATE alembic_version SET version_num = '0006'")
    await (await open_database(database_url, migrate=True)).close()
    assert await seen(at) == [0, None, None]
    await at.opened(3)
    for number in (1, 3):
        at.says(number, 5, f"in general {number}")
        at.says(number, 6, f"on a line {number}", "line")
        at.says(number, 7, f"of a review {number}", "review")
    await at.look()
    expected = ["in general 1", "in general 3", "on a line 3", "of a review 3"]
    assert heard(at) == expected
    assert [await seen(at, number) for number in (1, 2, 3)] == [[5, 6, 7], [0, 0, 0], [5, 6, 7]]
    at.says(1, 8, "a new line", "line")
    at.says(2, 1, "the first line", "line")
    at.says(2, 1, "the first review", "review")
    await at.look()
    assert heard(at) == [*expected, "a new line", "the first line", "the first review"]
