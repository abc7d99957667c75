"""`agentjobs serve` in its own process, or the bare framework that it is compared to."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from agentjobs.cli.services import serve


class Serving(NamedTuple):
    port: int
    process_id: int


@contextlib.contextmanager
def running(
    data_dir: Path, environment: dict[str, str], module: str = "bench.server"
) -> Iterator[Serving]:
    """`module` prints its URL on the first line once it listens."""
    with (data_dir / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(data_dir)],
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


if __name__ == "__main__":
    serve(data_dir=Path(sys.argv[1]), host="127.0.0.1", port=0)
