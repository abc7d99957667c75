"""A migration that stores already have never changes: they would lack what it adds later.

The baseline changes until 0.3.0 is released.
"""

import hashlib

from agentjobs.store.revisions import MIGRATIONS
from tests.support.paths import DATA

HASHES = DATA / "migrations.sha256"
ADVICE = (
    f"A landed migration must not change; write a new one. Add a new one to {HASHES.name}: "
    "sha256sum NAME.py"
)


def test_landed_migrations_never_change() -> None:
    pinned = dict(reversed(line.split()) for line in HASHES.read_text().splitlines())
    migrations = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (MIGRATIONS / "versions").glob("[0-9]*.py")
        if path.name != "1000_baseline.py"
    }
    assert migrations == pinned, ADVICE
