"""Debian's docker-registry on loopback, and what it was asked for."""

import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

_START_SECONDS = 30
_LISTENING = re.compile(r"listening on \S*:([0-9]+)")
_REQUEST = re.compile(r'"([A-Z]+ /v2/\S*) HTTP/1\.1" ([0-9]{3})')
USERNAME = "builder"
PASSWORD = "correct horse"
# The password with bcrypt and its lowest cost.
_HTPASSWD = f"{USERNAME}:$2b$04$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e\n"


class ImageRegistry:
    """`name` is how images in it are referred to; it resolves to loopback in the tests."""

    def __init__(
        self,
        directory: Path,
        *,
        storage: Path | None = None,
        host: str = "127.0.0.1",
        **auth: Any,
    ) -> None:
        directory.mkdir(parents=True)
        self.storage = storage or directory / "storage"
        self._log = directory / "log"
        config = {
            "version": "0.1",
            "log": {"level": "info"},
            "storage": {"filesystem": {"rootdirectory": str(self.storage)}},
            "http": {"addr": f"{host}:0", "secret": "secret"},
            **({"auth": auth} if auth else {}),
        }
        # JSON is YAML.
        (directory / "config.yml").write_text(json.dumps(config))
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                ["docker-registry", "serve", str(directory / "config.yml")],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.port = self._wait_until_listening()

    @property
    def name(self) -> str:
        return f"registry.test:{self.port}"

    @property
    def address(self) -> str:
        """For programs outside the sandbox, such as the one that pushes."""
        return f"127.0.0.1:{self.port}"

    def requests(self) -> list[str]:
        """`GET /v2/… 200`, in order."""
        return [" ".join(match) for match in _REQUEST.findall(self._log.read_text())]

    def forget_requests(self) -> None:
        with self._log.open("r+") as log:
            log.truncate()

    def downloads(self) -> list[str]:
        """The digests of the layers and configurations that were sent."""
        return [
            request.split()[1].rpartition("/")[2]
            for request in self.requests()
            if request.startswith("GET") and "/blobs/" in request and request.endswith("200")
        ]

    def stop(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def _wait_until_listening(self) -> int:
        deadline = time.monotonic() + _START_SECONDS
        while (match := _LISTENING.search(self._log.read_text())) is None:
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, "the registry did not start"
            time.sleep(0.01)
        return int(match[1])


def with_password(directory: Path, host: str = "127.0.0.1") -> ImageRegistry:
    """It accepts USERNAME and PASSWORD only."""
    directory.mkdir(parents=True)
    file = directory / "htpasswd"
    file.write_text(_HTPASSWD)
    realm = {"realm": "test", "path": str(file)}
    return ImageRegistry(directory / "registry", host=host, htpasswd=realm)
