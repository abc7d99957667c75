"""The HTTP side of the in-memory API server: what workers ask for, and faults that tests switch on.

A real server validates the pods of workers in tests/kubernetes.
"""

import asyncio
import contextlib
import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from aiohttp import web

from tests.support.kubernetes.objects import (
    KINDS,
    ApiError,
    Object,
    Objects,
    is_selected,
    timestamp,
)

VERSION = {"major": "1", "minor": "34", "gitVersion": "v1.34.4", "platform": "linux/amd64"}
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_COLLECTIONS = (
    "/api/v1/{plural:namespaces}",
    "/api/v1/namespaces/{namespace}/{plural:pods|secrets}",
    "/apis/networking.k8s.io/v1/namespaces/{namespace}/{plural:networkpolicies}",
)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,251}[a-z0-9])?")


@dataclass
class Faults:
    """What goes wrong until a test changes it.

    `errors` are raised by the next requests, one each. `forbidden` are pairs of verb and resource.
    `ends_watches`: they are accepted, and end without an event.
    """

    errors: list[ApiError] = field(default_factory=list)
    forbidden: set[tuple[str, str]] = field(default_factory=set)
    delay_seconds: float = 0.0
    ends_watches: bool = False


class Target(NamedTuple):
    """What a path names; `name` is empty for a collection."""

    plural: str
    namespace: str = ""
    name: str = ""


class ApiServer:
    """`on_delete` is asked to end a pod; if it is True, `remove_pod` is called at its end."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.faults = Faults()
        self.token = secrets.token_hex(16)
        self.requests: list[str] = []
        self.on_delete: Callable[[Object, int], bool] = lambda _pod, _seconds: False
        self.read_log: Callable[[Object], bytes] = lambda _pod: b""
        self._watches: set[asyncio.Task[Any]] = set()
        self.port = 0
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """On the port of before, if there was one."""
        app = web.Application(middlewares=[self._respond])
        app.router.add_get("/version", self._version)
        app.router.add_post(_REVIEWS, self._review)
        app.router.add_get(f"{_COLLECTIONS[1]}/{{name}}/log", self._log)
        for path in _COLLECTIONS:
            app.router.add_get(path, self._list)
            app.router.add_post(path, self._create)
            app.router.add_get(f"{path}/{{name}}", self._get)
            app.router.add_put(f"{path}/{{name}}", self._update)
            app.router.add_delete(f"{path}/{{name}}", self._delete)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Connections break, new ones are refused."""
        self.drop_watches()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def drop_watches(self) -> None:
        for watch in self._watches:
            watch.cancel()

    @web.middleware
    async def _respond(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path_qs}")
        try:
            await self._fail(request)
            response: web.StreamResponse = await handler(request)
        except ApiError as error:
            return _json(error.status, error.code, error.headers)
        return response

    async def _fail(self, request: web.Request) -> None:
        if self.faults.delay_seconds:
            await asyncio.sleep(self.faults.delay_seconds)
        if self.faults.errors:
            raise self.faults.errors.pop(0)
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            raise ApiError(401, "Unauthorized", "Unauthorized")

    def _target(self, request: web.Request, verb: str) -> Target:
        target = Target(**request.match_info)
        if (verb, target.plural) in self.faults.forbidden:
            message = (
                f'{target.plural} is forbidden: User "tests" cannot {verb} resource '
                f'"{target.plural}" in API group "" in the namespace "{target.namespace}"'
            )
            raise ApiError(403, "Forbidden", message)
        return target

    async def _version(self, _request: web.Request) -> web.Response:
        return _json(VERSION)

    async def _review(self, request: web.Request) -> web.Response:
        review = await request.json()
        attributes = review["spec"]["resourceAttributes"]
        pair = (attributes["verb"], attributes["resource"])
        return _json({**review, "status": {"allowed": pair not in self.faults.forbidden}}, 201)

    async def _create(self, request: web.Request) -> web.Response:
        target = self._target(request, "create")
        return _json(self.create(target, await request.json()), 201)

    def create(self, target: Target, item: Object) -> Object:
        if target.namespace:
            self.objects.get("namespaces", "", target.namespace)
        name = item["metadata"]["name"]
        if not _NAME.fullmatch(name):
            kind = KINDS[target.plural]
            message = f'{kind} "{name}" is invalid: metadata.name: Invalid value: "{name}"'
            raise ApiError(422, "Invalid", message)
        if target.plural == "pods":
            item["spec"].setdefault("terminationGracePeriodSeconds", 30)
            item["status"] = {"phase": "Pending"}
        return self.objects.create(target.plural, target.namespace, item)

    async def _get(self, request: web.Request) -> web.Response:
        return _json(self.objects.get(*self._target(request, "get")))

    async def _log(self, request: web.Request) -> web.Response:
        pod = self.objects.get(*self._target(request, "get"))
        return web.Response(body=self.read_log(pod), content_type="text/plain")

    async def _list(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch") == "true":
            return await self._watch(request)
        target = self._target(request, "list")
        items = self.objects.list(target.plural, target.namespace)
        return _json(
            {
                "kind": f"{KINDS[target.plural]}List",
                "metadata": {"resourceVersion": str(self.objects.version)},
                "items": [x for x in items if is_selected(x, target.namespace, request.query)],
            }
        )

    async def _update(self, request: web.Request) -> web.Response:
        target = self._target(request, "update")
        return _json(self.objects.replace(target.plural, await request.json()))

    async def _delete(self, request: web.Request) -> web.Response:
        target = self._target(request, "delete")
        options = await request.json() if request.can_read_body else {}
        current = self.objects.get(*target)
        if target.plural != "pods":
            return _json(self.objects.delete(*target))
        default = current["spec"]["terminationGracePeriodSeconds"]
        seconds = request.query.get(
            "gracePeriodSeconds", options.get("gracePeriodSeconds", default)
        )
        if not self.on_delete(current, int(seconds)):
            return _json(self.remove_pod(current))
        self.objects.change(
            *target, lambda pod: pod["metadata"].setdefault("deletionTimestamp", timestamp())
        )
        return _json(self.objects.get(*target))

    def remove_pod(self, pod: Object) -> Object:
        """Together with what it owns, as the garbage collector of a cluster does."""
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"]["uid"]
        for item in self.objects.list("secrets", namespace):
            if any(each["uid"] == uid for each in item["metadata"].get("ownerReferences", ())):
                self.objects.delete("secrets", namespace, item["metadata"]["name"])
        return self.objects.delete("pods", namespace, pod["metadata"]["name"])

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        target = self._target(request, "watch")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if self.faults.ends_watches:
            return response
        seconds = float(request.query.get("timeoutSeconds", 1800))
        sending = asyncio.ensure_future(self._send_events(request, response, target))
        self._watches.add(sending)
        try:
            with contextlib.suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(seconds):
                    await sending
        except asyncio.CancelledError:
            if not sending.cancelled() or request.transport is None:
                raise
            # The connection breaks in the middle, as that of a restarting server.
            request.transport.abort()
        finally:
            sending.cancel()
            self._watches.discard(sending)
        return response

    async def _send_events(
        self, request: web.Request, response: web.StreamResponse, target: Target
    ) -> None:
        async def send(type: str, item: Object) -> None:
            await response.write(json.dumps({"type": type, "object": item}).encode() + b"\n")

        version = int(request.query.get("resourceVersion") or 0)
        if not version:
            version = self.objects.version
            for item in self.objects.list(target.plural):
                if is_selected(item, target.namespace, request.query):
                    await send("ADDED", item)
        while True:
            try:
                changes = list(self.objects.since(version))
            except ApiError as error:
                await send("ERROR", error.status)
                return
            version = self.objects.version
            for change in changes:
                is_watched = change.plural == target.plural
                if is_watched and is_selected(change.item, target.namespace, request.query):
                    await send(change.type, change.item)
            if version == self.objects.version:
                await self.objects.wait_for_change()


def _json(document: Object, status: int = 200, headers: Any = None) -> web.Response:
    """With the exact content type of a real API server: clients compare it."""
    body = json.dumps(document).encode()
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")
