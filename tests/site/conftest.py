"""These tests need the built documentation site, so only `make test SUITE=site` runs them."""

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.paths import PROJECT

SITE = PROJECT / "site"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return None if any("tests/site" in argument for argument in config.args) else True


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """The browser reports what it cannot load."""


@pytest.fixture(scope="session")
def site_url() -> Iterator[str]:
    assert (SITE / "index.html").is_file(), "the site is missing: run `make docs`"
    handler = functools.partial(QuietHandler, directory=str(SITE))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
