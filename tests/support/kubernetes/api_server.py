"""The HTTP side of the in-memory API server: requests, watches, and faults that tests switch on."""

import asyncio
import contextlib
import copy
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml
from aiohttp import web

from tests.support.kubernetes.objects import (
    RESOURCES,
    ApiError,
    Change,
    Object,
    Objects,
    Resource,
    Selector,
    expired,
    not_found,
    timestamp,
)
from tests.support.kubernetes.validation import check_update, prepare

BOOKMARK_SECONDS = 1.0
VERSION = {"major": "1", "minor": "34", "gitVersion": "v1.34.4", "platform": "linux/amd64"}
_PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json")
_APPLY = "application/apply-patch+yaml"


@dataclass
class Faults:
    """What goes wrong until a test changes it.

    `errors` are raised by the next requests, one each. `forbidden` are pairs of verb and resource.
    """

    errors: list[ApiError] = field(default_factory=list)
    forbidden: set[tuple[str, str]] = field(default_factory=set)
    delay_seconds: float = 0.0


@dataclass(frozen=True)
class Target:
    """What a path names; empty if it does not."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


class ApiServer:
    """`on_delete` is asked to end a pod; it removes the object when the pod has ended."""

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
        app = web.Application(client_max_size=3 * 1024**2)
        app.router.add_route("*", "/{path:.*}", self._respond)
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

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        try:
            await self._fail(request)
            return await self._handle(request)
        except ApiError as error:
            return _json(error.status, status=error.code, headers=error.headers)

    async def _fail(self, request: web.Request) -> None:
        self.requests.append(f"{request.method} {request.path_qs}")
        if self.faults.delay_seconds:
            await asyncio.sleep(self.faults.delay_seconds)
        if self.faults.errors:
            raise self.faults.errors.pop(0)
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            raise ApiError(401, "Unauthorized", "Unauthorized")

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if (document := _discovery(request.path)) is not None:
            return _json(document)
        if request.path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews":
            return _json(self._review(await _body(request)), status=201)
        target = _target(request.path)
        verb = _verb(request, target)
        self._authorize(verb, target)
        operation = {
            ("watch", ""): self._watch,
            ("list", ""): self._list,
            ("get", ""): self._get,
            ("get", "log"): self._log,
            ("create", ""): self._create,
            ("create", "eviction"): self._evict,
            ("update", ""): self._update,
            ("update", "status"): self._update,
            ("patch", ""): self._patch,
            ("patch", "status"): self._patch,
            ("delete", ""): self._delete,
        }.get((verb, target.subresource))
        if operation is None:
            raise ApiError(405, "MethodNotAllowed", "the server does not allow this method on it")
        return await operation(request, target)

    def _authorize(self, verb: str, target: Target) -> None:
        plural = target.resource.plural
        if (verb, plural) in self.faults.forbidden:
            group = target.resource.group_version.rpartition("/")[0]
            message = (
                f'{plural} is forbidden: User "tests" cannot {verb} resource "{plural}" in API '
                f'group "{group}" in the namespace "{target.namespace}"'
            )
            raise ApiError(403, "Forbidden", message, name=target.name, kind=plural)

    def _review(self, review: Object) -> Object:
        attributes = review.get("spec", {}).get("resourceAttributes", {})
        pair = (attributes.get("verb"), attributes.get("resource"))
        return {**review, "status": {"allowed": pair not in self.faults.forbidden}}

    def create(self, target: Target, item: Object) -> Object:
        if target.resource.is_namespaced:
            if not target.namespace:
                raise ApiError(405, "MethodNotAllowed", "the server does not allow this method")
            self.objects.get("namespaces", "", target.namespace)
        prepare(target.resource, item)
        if item["metadata"].get("namespace", target.namespace) != target.namespace:
            raise ApiError(
                400, "BadRequest", "the namespace of the provided object does not match the request"
            )
        return self.objects.create(target.resource, target.namespace, item)

    async def _create(self, request: web.Request, target: Target) -> web.Response:
        return _json(self.create(target, await _body(request)), status=201)

    async def _evict(self, _request: web.Request, target: Target) -> web.Response:
        self.delete(target, None)
        return _json(_success(), status=201)

    async def _get(self, _request: web.Request, target: Target) -> web.Response:
        return _json(self.objects.get(target.resource.plural, target.namespace, target.name))

    async def _log(self, _request: web.Request, target: Target) -> web.Response:
        pod = self.objects.get("pods", target.namespace, target.name)
        return web.Response(body=self.read_log(pod), content_type="text/plain")

    async def _list(self, request: web.Request, target: Target) -> web.Response:
        selector = Selector(target.namespace, request.query)
        items = [
            item for item in self.objects.list(target.resource.plural) if selector.matches(item)
        ]
        kind, group_version = f"{target.resource.kind}List", target.resource.group_version
        metadata = {"resourceVersion": str(self.objects.version)}
        return _json(
            {"kind": kind, "apiVersion": group_version, "metadata": metadata, "items": items}
        )

    async def _update(self, request: web.Request, target: Target) -> web.Response:
        return _json(self.update(target, await _body(request)))

    def update(self, target: Target, item: Object) -> Object:
        current = self.objects.get(target.resource.plural, target.namespace, target.name)
        check_update(target.resource, current, item)
        if target.subresource == "status":
            item = {**current, "status": item.get("status", {})}
        elif target.resource.has_status:
            item["status"] = current.get("status", {})
        return self.objects.replace(target.resource.plural, item)

    async def _patch(self, request: web.Request, target: Target) -> web.Response:
        patch = await _body(request)
        if request.content_type == _APPLY:
            try:
                self.objects.get(target.resource.plural, target.namespace, target.name)
            except ApiError:
                return _json(self.create(target, patch), status=201)
        elif request.content_type not in _PATCHES:
            raise ApiError(415, "UnsupportedMediaType", "the body of the request was unknown")
        current = self.objects.get(target.resource.plural, target.namespace, target.name)
        return _json(self.update(target, _merge(current, patch)))

    async def _delete(self, request: web.Request, target: Target) -> web.Response:
        if not target.name:
            raise ApiError(405, "MethodNotAllowed", "collections are not deleted here")
        options = await _body(request) if request.can_read_body else {}
        seconds = request.query.get("gracePeriodSeconds", options.get("gracePeriodSeconds"))
        uid = (options.get("preconditions") or {}).get("uid")
        current = self.objects.get(target.resource.plural, target.namespace, target.name)
        if uid and uid != current["metadata"]["uid"]:
            raise ApiError(409, "Conflict", f"the UID in the precondition ({uid}) does not match")
        return _json(self.delete(target, None if seconds is None else int(seconds)))

    def delete(self, target: Target, seconds: int | None) -> Object:
        plural = target.resource.plural
        current = self.objects.get(plural, target.namespace, target.name)
        if plural == "pods":
            if seconds is None:
                seconds = int(current["spec"]["terminationGracePeriodSeconds"])
            if self.on_delete(current, seconds):

                def mark(pod: Object) -> None:
                    pod["metadata"].setdefault("deletionTimestamp", timestamp())
                    pod["metadata"]["deletionGracePeriodSeconds"] = seconds

                self.objects.change(plural, target.namespace, target.name, mark)
                return self.objects.get(plural, target.namespace, target.name)
            return self.remove_pod(current)
        self.objects.delete(plural, target.namespace, target.name)
        return _success()

    def remove_pod(self, pod: Object) -> Object:
        """Together with what only it owns, as the garbage collector of a cluster does."""
        metadata = pod["metadata"]
        deleted = self.objects.delete("pods", metadata["namespace"], metadata["name"])
        for item in self.objects.list("secrets", metadata["namespace"]):
            owners = {each.get("uid") for each in item["metadata"].get("ownerReferences") or ()}
            if owners == {metadata["uid"]}:
                self.objects.delete("secrets", metadata["namespace"], item["metadata"]["name"])
        return deleted

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
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
        selector = Selector(target.namespace, request.query)
        plural = target.resource.plural
        version = int(request.query.get("resourceVersion") or 0)
        if not version:
            for item in filter(selector.matches, self.objects.list(plural)):
                await _send(response, "ADDED", item)
            version = self.objects.version
        while True:
            try:
                changes = list(self.objects.since(version))
            except ApiError:
                await _send(response, "ERROR", expired(version).status)
                return
            version = self.objects.version
            for change in changes:
                if change.plural == plural and (event := _event(change, selector)) is not None:
                    await _send(response, *event)
            try:
                async with asyncio.timeout(BOOKMARK_SECONDS):
                    await self.objects.wait_for_change()
            except TimeoutError:
                if request.query.get("allowWatchBookmarks") in ("true", "1"):
                    await _send(response, "BOOKMARK", _bookmark(target.resource, version))


def _json(document: Object, status: int = 200, headers: Any = None) -> web.Response:
    """With the exact content type of a real API server: clients compare it."""
    body = json.dumps(document).encode()
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


def _verb(request: web.Request, target: Target) -> str:
    if request.method == "GET" and not target.name:
        return "watch" if request.query.get("watch") in ("true", "1") else "list"
    verbs = {"GET": "get", "POST": "create", "PUT": "update"}
    return verbs.get(request.method, request.method.lower())


def _event(change: Change, selector: Selector) -> tuple[str, Object] | None:
    """For a watch, an object that no longer matches is deleted."""
    before, after = selector.matches(change.before), selector.matches(change.after)
    if after and change.after is not None:
        return "MODIFIED" if before else "ADDED", change.after
    if before and change.before is not None:
        item = copy.deepcopy(change.before)
        item["metadata"]["resourceVersion"] = str(change.version)
        return "DELETED", item
    return None


async def _send(response: web.StreamResponse, kind: str, item: Object) -> None:
    await response.write(json.dumps({"type": kind, "object": item}).encode() + b"\n")


def _bookmark(resource: Resource, version: int) -> Object:
    metadata = {"resourceVersion": str(version), "creationTimestamp": None}
    return {"kind": resource.kind, "apiVersion": resource.group_version, "metadata": metadata}


def _success() -> Object:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


async def _body(request: web.Request) -> Object:
    try:
        body = await request.read()
        item = yaml.safe_load(body) if request.content_type == _APPLY else json.loads(body)
    except (ValueError, yaml.YAMLError) as error:
        raise ApiError(400, "BadRequest", f"the object could not be parsed: {error}") from None
    if not isinstance(item, dict):
        raise ApiError(400, "BadRequest", "the object provided is unrecognized")
    return item


def _merge(item: Any, patch: Any) -> Any:
    if not isinstance(patch, dict) or not isinstance(item, dict):
        return patch
    merged = {key: value for key, value in item.items() if patch.get(key, value) is not None}
    for key, value in patch.items():
        if value is not None:
            merged[key] = _merge(item.get(key, {}), value)
    return merged


def _target(path: str) -> Target:
    """Raises ApiError."""
    prefix, _, rest = path.strip("/").partition("/")
    parts = rest.split("/")
    group_version = parts.pop(0)
    if prefix == "apis" and parts:
        group_version = f"{group_version}/{parts.pop(0)}"
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces" and parts[2] not in ("status", "finalize"):
        namespace = parts[1]
        parts = parts[2:]
    resource = RESOURCES.get(parts[0]) if parts else None
    is_right = resource is not None and resource.group_version == group_version
    if resource is None or not is_right or len(parts) > 3 or prefix not in ("api", "apis"):
        raise ApiError(404, "NotFound", "the server could not find the requested resource")
    if namespace and not resource.is_namespaced:
        raise not_found(resource.plural, "")
    return Target(resource, namespace, *parts[1:])


def _discovery(path: str) -> Object | None:
    groups = {resource.group_version for resource in RESOURCES.values()} - {"v1"}
    path = path.rstrip("/")
    if path == "/version":
        return VERSION
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        return {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [
                {"name": name.partition("/")[0], "preferredVersion": {"groupVersion": name}}
                for name in sorted(groups)
            ],
        }
    group_version = path.removeprefix("/apis/").removeprefix("/api/")
    resources = [each for each in RESOURCES.values() if each.group_version == group_version]
    if not resources:
        return None
    return {
        "kind": "APIResourceList",
        "groupVersion": group_version,
        "resources": [
            {"name": each.plural, "namespaced": each.is_namespaced, "kind": each.kind}
            for each in resources
        ],
    }
