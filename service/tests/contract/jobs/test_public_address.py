"""Links to pull requests follow the public address of the service."""

from agentjobs.jobs.public_address import follow_public_address
from agentjobs.store.database import Database, Transaction
from agentjobs_runtime.settings import Settings
from tests.support.jobs import job_harness

PLATFORM = "https://git.example/acme/shop/pulls/7"
OLD, NEW = "https://old.example", "https://new.example/jobs"


async def test_links_of_local_repositories_follow_and_others_stay(database: Database) -> None:
    harness = job_harness(database, Settings(data_dir="/nowhere"))
    caller = await harness.organization()
    local, elsewhere, without = [await harness.job(caller) for _ in range(3)]

    async def set_links(tx: Transaction) -> None:
        for job_id, url in ((local, f"{OLD}/acme/shop/pulls/1"), (elsewhere, PLATFORM)):
            await tx.execute("UPDATE jobs SET pr_url = :url WHERE id = :id", id=job_id, url=url)

    await follow_public_address(database, Settings(data_dir="/nowhere", public_url=OLD))
    await database.transact(set_links)
    for _ in range(2):
        await follow_public_address(database, Settings(data_dir="/nowhere", public_url=f"{NEW}/"))
        links = {
            row["id"]: row["pr_url"]
            for row in await database.fetch_all("SELECT id, pr_url FROM jobs")
        }
        assert links == {local: f"{NEW}/acme/shop/pulls/1", elsewhere: PLATFORM, without: None}
