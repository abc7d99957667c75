"""A small Kubernetes cluster in this process: an API server and a node that runs pods for real."""

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

from agentjobs_runtime.files.removal import remove
from tests.support.kubernetes.api_server import ApiServer, Target
from tests.support.kubernetes.kubelet import Kubelet
from tests.support.kubernetes.objects import Objects

T = TypeVar("T")


class MemoryCluster:
    """Lives in a thread of its own: tests reach its parts with `call` only, or over HTTP."""

    def __init__(self, directory: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._directory = directory
        self.wait(self._start())
        self.kubeconfig = directory / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(_kubeconfig(self.url, self.api.token)))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.api.port}"

    def create_namespace(self, name: str) -> str:
        self.call(lambda: self.api.create(Target("namespaces"), {"metadata": {"name": name}}))
        return name

    def call(self, function: Callable[[], T]) -> T:
        async def run() -> T:
            return function()

        return self.wait(run())

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def close(self) -> None:
        self.wait(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        self.objects = Objects()
        self.api = ApiServer(self.objects)
        self.kubelet = Kubelet(self.objects, self._directory)
        self.api.on_delete = self.kubelet.end
        self.kubelet.delete = self.api.remove_pod
        self.api.read_log = self.kubelet.log_of
        self.api.create(Target("namespaces"), {"metadata": {"name": "default"}})
        await self.api.start()

    async def _stop(self) -> None:
        await self.api.stop()
        await self.kubelet.close()


@contextlib.contextmanager
def memory_cluster() -> Iterator[MemoryCluster]:
    # On a disk: files of pods in memory would count as memory of the tests.
    directory = Path(tempfile.mkdtemp(prefix="agentjobs-cluster-", dir="/var/tmp"))
    directory.chmod(0o755)
    cluster = MemoryCluster(directory)
    try:
        yield cluster
    finally:
        cluster.close()
        remove(directory)


@contextlib.contextmanager
def memory_cluster_process() -> Iterator[Path]:
    """The kubeconfig of one in a process of its own, whose descriptors tests do not count."""
    with subprocess.Popen(
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Path(process.stdout.readline().decode().strip())
        process.stdin.close()


def main() -> None:
    """Until the standard input ends, also because the tests were killed."""
    with memory_cluster() as cluster:
        sys.stdout.write(f"{cluster.kubeconfig}\n")
        sys.stdout.flush()
        sys.stdin.read()


def _kubeconfig(url: str, token: str) -> dict[str, Any]:
    # Otherwise each client would read all certificates of the machine, for plain HTTP too.
    cluster = {"server": url, "insecure-skip-tls-verify": True}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "tests", "cluster": cluster}],
        "users": [{"name": "tests", "user": {"token": token}}],
        "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        "current-context": "tests",
    }


if __name__ == "__main__":
    main()
