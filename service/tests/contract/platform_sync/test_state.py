"""The sync state of repositories, as pages show it, on both stores."""

from pathlib import Path

from agentjobs.platform_sync.state import count_by_connection, repos_of_connection, sync_state
from agentjobs.store.database import Database
from agentjobs_runtime.git.remote import Remote
from agentjobs_runtime.settings import Settings
from tests.support.platform_sync import SHOP, sync_environment


async def test_connected_repositories_are_listed_by_name_and_counted(
    database: Database, tmp_path: Path
) -> None:
    env = await sync_environment(database, Settings(data_dir=str(tmp_path)), Remote(""))
    env.change_repo("42", full_name="group/sub/app")
    connection = env.connection
    assert await count_by_connection(database, connection.organization_id) == {}
    await env.connect()
    assert await count_by_connection(database, connection.organization_id) == {connection.id: 2}
    listed = await repos_of_connection(database, connection.id)
    names = ["acme/shop", "group/sub/app"]
    assert ([repo.full_name for repo in listed.repos], listed.total) == (names, 2)
    first = await repos_of_connection(database, connection.id, limit=1)
    assert ([repo.full_name for repo in first.repos], first.total) == (names[:1], 2)
    await env.update_repos(
        "head_commit = 'abc', sync_error = 'It is down.', sync_failures = 2",
        "r.external_id = :id",
        id=SHOP,
    )
    repo_id = (await env.row())["id"]
    state = await sync_state(database, repo_id)
    assert state is not None
    assert (state.url, state.connection) == ("https://git.example.org/acme/shop", "gitea")
    assert (state.is_new, state.error, state.failures) == (False, "It is down.", 2)
    await env.execute("UPDATE repos SET disconnected_at = 1 WHERE id = :id", id=repo_id)
    assert await sync_state(database, repo_id) is None
    assert (await repos_of_connection(database, connection.id)).total == 1
