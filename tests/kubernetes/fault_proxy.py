"""A proxy before the API server that answers for it, cuts connections or expires watches."""

import asyncio
import json
import ssl
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from aiohttp import web

from tests.kubernetes.cluster import Cluster

_Result = TypeVar("_Result")
_ACCOUNT = "fault-proxy"
_HOP_HEADERS = ("connection", "content-length", "host", "transfer-encoding")
_WAIT_SECONDS = 30.0


@dataclass
class Fault:
    """What happens to the next `times` requests with this method and with `path` in their path.
    Without a `status` their connection is cut."""

    status: int | None
    times: int
    method: str = ""
    path: str = ""
    retry_after_seconds: int | None = None

    def applies_to(self, request: web.BaseRequest) -> bool:
        fits = self.path in request.path and self.method in ("", request.method)
        return self.times > 0 and fits


class FaultProxy:
    """Clients need a token: it passes their headers on, but cannot pass on a certificate."""

    def __init__(self, server: str, trust: ssl.SSLContext) -> None:
        self._server = server
        self._trust = trust
        self._faults: list[Fault] = []
        self._endings: set[asyncio.Future[bytes | None]] = set()
        self._loop = asyncio.new_event_loop()
        self.requests: list[str] = []

    def add(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault

    def expire_watches(self) -> int:
        """Ends watches as the API server does when their version is too old."""
        return self._end_watches(_line({"type": "ERROR", "object": _status(410)}))

    def cut_watches(self) -> int:
        return self._end_watches(None)

    @contextmanager
    def listen(self, address: str, certificates: ssl.SSLContext) -> Iterator[int]:
        """Its port."""
        thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        runner = self._call(self._start(address, certificates))
        try:
            yield int(runner.addresses[0][1])
        finally:
            self._end_watches(None)
            self._call(runner.cleanup())
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    async def _start(self, address: str, certificates: ssl.SSLContext) -> web.ServerRunner:
        # A watch that the client leaves must not stay open until its next event.
        server = web.Server(self._handle, handler_cancellation=True)
        runner = web.ServerRunner(server, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, address, 0, ssl_context=certificates).start()
        return runner

    def _end_watches(self, last_line: bytes | None) -> int:
        async def end() -> int:
            endings = [each for each in self._endings if not each.done()]
            for each in endings:
                each.set_result(last_line)
            return len(endings)

        return self._call(end())

    def _call(self, call: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(_WAIT_SECONDS)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        fault = next((fault for fault in self._faults if fault.applies_to(request)), None)
        if fault is not None:
            fault.times -= 1
            return _failure(request, fault)
        headers = {
            name: text for name, text in request.headers.items() if name.lower() not in _HOP_HEADERS
        }
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(
                request.method,
                f"{self._server}{request.path_qs}",
                headers=headers,
                data=await request.read() or None,
                ssl=self._trust,
                timeout=aiohttp.ClientTimeout(total=None),
            ) as answer,
        ):
            return await self._pass_on(request, answer)

    async def _pass_on(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        headers = {
            name: text for name, text in answer.headers.items() if name.lower() not in _HOP_HEADERS
        }
        response = web.StreamResponse(status=answer.status, headers=headers)
        await response.prepare(request)
        ending: asyncio.Future[bytes | None] = self._loop.create_future()
        if "watch" in request.query:
            self._endings.add(ending)
        try:
            while part := await _read_or_end(answer, ending):
                await response.write(part)
            if ending.done():
                last_line = ending.result()
                if last_line is None:
                    _cut(request)
                else:
                    await response.write(last_line)
        finally:
            self._endings.discard(ending)
        await response.write_eof()
        return response


async def _read_or_end(
    answer: aiohttp.ClientResponse, ending: asyncio.Future[bytes | None]
) -> bytes:
    """Empty at the end."""
    reading = asyncio.ensure_future(answer.content.readany())
    await asyncio.wait((reading, ending), return_when=asyncio.FIRST_COMPLETED)
    if ending.done():
        reading.cancel()
        return b""
    return await reading


def _failure(request: web.BaseRequest, fault: Fault) -> web.StreamResponse:
    if fault.status is None:
        _cut(request)
        return web.Response()
    headers = {}
    if fault.retry_after_seconds is not None:
        headers["Retry-After"] = str(fault.retry_after_seconds)
    return web.json_response(_status(fault.status), status=fault.status, headers=headers)


def _cut(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


def _status(code: int) -> dict[str, Any]:
    reasons = {410: "Expired", 429: "TooManyRequests", 503: "ServiceUnavailable"}
    return {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "code": code,
        "reason": reasons.get(code, "InternalError"),
        "message": f"the test wants a {code}",
    }


def _line(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode() + b"\n"


@contextmanager
def fault_proxy(cluster: Cluster, directory: Path) -> Iterator[tuple[FaultProxy, Path]]:
    """With the kubeconfig of an administrator whose requests go through it."""
    run, addresses = cluster.run_directory, cluster.addresses
    certificates = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificates.load_cert_chain(run / "api-server.crt", run / "api-server.key")
    proxy = FaultProxy(addresses.server, ssl.create_default_context(cafile=str(run / "ca.crt")))
    with proxy.listen(addresses.machine, certificates) as port:
        config = json.loads(cluster.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://{addresses.machine}:{port}"
        config["users"][0]["user"] = {"token": _administrator_token(cluster)}
        kubeconfig = directory / "proxy.kubeconfig"
        kubeconfig.touch(0o600)
        kubeconfig.write_text(json.dumps(config))
        yield proxy, kubeconfig


def _administrator_token(cluster: Cluster) -> str:
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": _ACCOUNT, "namespace": "kube-system"},
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": _ACCOUNT},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
        "subjects": [{"kind": "ServiceAccount", "name": _ACCOUNT, "namespace": "kube-system"}],
    }
    for item in (account, binding):
        cluster.kubectl("apply", "-f", "-", text=json.dumps(item))
    return cluster.kubectl("create", "token", _ACCOUNT, "--namespace=kube-system").strip()
