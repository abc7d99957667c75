"""What setup left is searched for whole secrets and for parts of them."""

import base64
from pathlib import Path

import pytest

from agentjobs_worker.environments.secret_search import find_secret

SECRET = "hQ7vTz2LpX9aRw4KdY6mBn3s"


@pytest.mark.parametrize("part", [SECRET, SECRET[3:], SECRET[:-3], SECRET[2:-1], SECRET[:11]])
async def test_a_part_of_a_secret_is_found_in_files_and_names(tmp_path: Path, part: str) -> None:
    for name, content in (
        ("plain", part.encode()),
        ("encoded", base64.b64encode(b"user:" + part.encode() + b":x")),
        (f"cache-{part}.json", b""),
    ):
        directory = tmp_path / f"home-{name[:5]}"
        directory.mkdir()
        (directory / "ordinary").write_bytes(b"x" * 1000)
        (directory / name).write_bytes(content)
        assert await find_secret([directory], [SECRET]) == name


async def test_ordinary_parts_of_a_secret_are_not_found(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("postgresql://app: the database of db.example.com/app")
    secrets = [f"postgresql://app:{SECRET}@db.example.com/app", "correct-horse-battery-staple"]
    assert await find_secret([tmp_path], secrets) is None
    (tmp_path / "notes").write_text("correct-horse-battery-staple")
    assert await find_secret([tmp_path], secrets) == "notes"
