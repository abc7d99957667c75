from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.deployment import Engine


@pytest.fixture(scope="session")
def engine(postgres_files: Path, postgres_template: str) -> Iterator[Engine]:
    """PostgreSQL, whose history names the process that made a change."""
    engine = Engine("postgresql", postgres_files, postgres_template)
    yield engine
    engine.close()
