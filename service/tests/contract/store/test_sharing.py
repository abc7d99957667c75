"""Several processes share one store without breaking each other."""

import asyncio
import sys

from agentjobs.store.database import Transaction
from agentjobs.store.opening import open_database

COUNT = """
import asyncio, sys
from agentjobs.store.opening import open_database

async def main():
    db = await open_database(sys.argv[1], migrate=True)
    row = await db.fetch_one("SELECT COUNT(*) AS n FROM organizations")
    print(row["n"])
    await db.close()

asyncio.run(main())
"""


async def insert(tx: Transaction, name: str) -> None:
    await tx.execute(
        "INSERT INTO organizations (id, name, plan, created_at) VALUES (:name, :name, 'free', 1)",
        name=name,
    )


async def count_elsewhere(url: str) -> int:
    visitor = await asyncio.create_subprocess_exec(
        sys.executable, "-c", COUNT, url, stdout=asyncio.subprocess.PIPE
    )
    printed, _ = await visitor.communicate()
    return int(printed)


async def test_short_lived_processes_do_not_corrupt_a_newly_migrated_store(
    empty_database_url: str,
) -> None:
    db = await open_database(empty_database_url, migrate=True)
    try:
        for number in range(3):
            await db.transact(insert, f"organization-{number}")
            assert await count_elsewhere(empty_database_url) == number + 1
    finally:
        await db.close()
