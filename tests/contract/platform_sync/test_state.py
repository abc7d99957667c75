"""How repositories of a platform stand, as those who look are told, on both stores."""

from pathlib import Path

from agentjobs.git.remote import Remote
from agentjobs.platform_sync.state import count_by_connection, repos_of_connection, sync_state
from agentjobs.settings import Settings
from agentjobs.store.database import Database
from tests.support.platform_sync import SHOP, platform_house


async def test_what_is_connected_is_listed_by_name_and_counted(
    database: Database, tmp_path: Path
) -> None:
    # Nothing is fetched here.
    house = await platform_house(database, Settings(data_dir=str(tmp_path)), Remote(""))
    house.is_seen_as("42", full_name="group/sub/app")
    connection = house.connection
    assert await count_by_connection(database, connection.organization_id) == {}
    await house.connect()
    assert await count_by_connection(database, connection.organization_id) == {connection.id: 2}
    listed = await repos_of_connection(database, connection.id)
    names = ["acme/shop", "group/sub/app"]
    assert ([repo.full_name for repo in listed.repos], listed.total) == (names, 2)
    first = await repos_of_connection(database, connection.id, limit=1)
    assert ([repo.full_name for repo in first.repos], first.total) == (names[:1], 2)
    await house.execute(
        "UPDATE repos SET head_commit = 'abc', sync_error = 'It is away.', sync_failures = 2"
        " WHERE external_id = :id",
        id=SHOP,
    )
    repo_id = (await house.row())["id"]
    found = await sync_state(database, repo_id)
    assert found is not None
    assert (found.url, found.connection) == ("https://git.example.org/acme/shop", "gitea")
    assert (found.is_new, found.error, found.failures) == (False, "It is away.", 2)
    await house.execute("UPDATE repos SET disconnected_at = 1 WHERE id = :id", id=repo_id)
    assert await sync_state(database, repo_id) is None
    assert (await repos_of_connection(database, connection.id)).total == 1
