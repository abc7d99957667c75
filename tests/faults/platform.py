"""A platform that can be away: a contract server behind a proxy whose port never changes."""

import asyncio
import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.faults.proxy import TcpProxy
from tests.support.forge_servers import faults
from tests.support.forge_servers.contract_server import ContractServer
from tests.support.forge_servers.gitea import GiteaServer
from tests.support.forge_servers.state import PullRow, RepositoryRow
from tests.support.live_platform import served

SHOP = "forest/shop"
_FILES: dict[str, str | bytes] = {"app.py": "import os\nx = 1\n"}


class HostedPlatform:
    """Every run has a server of its own, with the same repository."""

    def __init__(self, server: ContractServer, shop: RepositoryRow, proxy: TcpProxy) -> None:
        self.server = server
        self.shop = shop
        self.proxy = proxy
        self._loop: asyncio.AbstractEventLoop | None = None

    @classmethod
    def create(
        cls, directory: Path, proxy: TcpProxy, template: "HostedPlatform | None" = None
    ) -> "HostedPlatform":
        server = GiteaServer(directory / "platform")
        shop = server.add_repository(SHOP, _FILES if template is None else None)
        if template is not None:
            shutil.copytree(
                template.server.git.directory(template.shop), server.git.directory(shop)
            )
        return cls(server, shop, proxy)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Fails at the end if a request violated the platform's description."""
        with served(self.server) as self._loop:
            self.proxy.target_port = self.server.port
            # Links and clone URLs lead through the proxy.
            self.server.port = self.proxy.port
            self.proxy.restore()
            yield

    def fail(self) -> None:
        self._do(lambda: self.server.next(faults.server_error(503, times=None)))

    def restore(self) -> None:
        self.proxy.restore()
        self._do(self.server.clear_faults)

    def pulls_of(self, branch: str) -> list[PullRow]:
        return list(self.shop.pull_of_branch(branch))

    @property
    def repository(self) -> Path:
        return self.server.git.directory(self.shop)

    def _do(self, change: object) -> None:
        assert self._loop is not None
        assert callable(change)
        self._loop.call_soon_threadsafe(change)
