"""`agentjobs serve` in its own process, on a real store or in memory."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch
from urllib.parse import urlsplit

from agentjobs.cli.services import serve
from bench.memory_store import open_memory

MEMORY = "memory"


class Serving(NamedTuple):
    port: int
    process_id: int


@contextlib.contextmanager
def running(store: str, data_dir: Path, environment: dict[str, str]) -> Iterator[Serving]:
    with (data_dir / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.server", store, str(data_dir)],
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        assert process.stdout is not None
        port = urlsplit(process.stdout.readline()).port
        if port is None:
            raise SystemExit((data_dir / "serve.log").read_text())
        yield Serving(port, process.pid)
    finally:
        process.terminate()
        process.communicate()


def main(store: str, data_dir: str) -> None:
    opening = patch("agentjobs.app.services.open_database", open_memory)
    with opening if store == MEMORY else contextlib.nullcontext():
        serve(data_dir=Path(data_dir), host="127.0.0.1", port=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
