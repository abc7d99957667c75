"""The objects of the in-memory API server, their versions, and the changes that watches replay."""

import asyncio
import copy
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

Object = dict[str, Any]

KINDS = {
    "namespaces": "Namespace",
    "pods": "Pod",
    "secrets": "Secret",
    "networkpolicies": "NetworkPolicy",
}


class Change(NamedTuple):
    """`type` is that of the event which a watch gets."""

    version: int
    plural: str
    type: str
    item: Object


class ApiError(Exception):
    """What a client gets as a Status object."""

    def __init__(
        self, code: int, reason: str, message: str, *, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        self.status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }


class Objects:
    """Used by one event loop only. What goes in and comes out is a copy."""

    def __init__(self) -> None:
        self.version = 1
        self._compacted_version = 0
        self._changes: list[Change] = []
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._changed = asyncio.Event()

    def list(self, plural: str, namespace: str = "") -> list[Object]:
        return [
            copy.deepcopy(item)
            for (kind, place, _), item in self._objects.items()
            if kind == plural and namespace in ("", place)
        ]

    def get(self, plural: str, namespace: str, name: str) -> Object:
        if (item := self._objects.get((plural, namespace, name))) is None:
            raise ApiError(404, "NotFound", f'{plural} "{name}" not found')
        return copy.deepcopy(item)

    def create(self, plural: str, namespace: str, item: Object) -> Object:
        name = item["metadata"]["name"]
        if (plural, namespace, name) in self._objects:
            raise ApiError(409, "AlreadyExists", f'{plural} "{name}" already exists')
        item["metadata"] |= {"uid": str(uuid.uuid4()), "creationTimestamp": timestamp()}
        if namespace:
            item["metadata"]["namespace"] = namespace
        return self._store(plural, "ADDED", item)

    def replace(self, plural: str, item: Object) -> Object:
        """Nothing happens if it is equal. Its resource version must be the stored one."""
        metadata = item["metadata"]
        current = self.get(plural, metadata.get("namespace", ""), metadata["name"])
        if metadata["resourceVersion"] != current["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        item["metadata"] = {**current["metadata"], **metadata}
        return current if item == current else self._store(plural, "MODIFIED", item)

    def change(
        self, plural: str, namespace: str, name: str, edit: Callable[[Object], None]
    ) -> None:
        """Change it in place, as parts of the cluster do. Raises ApiError if it is gone."""
        item = self.get(plural, namespace, name)
        edit(item)
        self.replace(plural, item)

    def delete(self, plural: str, namespace: str, name: str) -> Object:
        item = self.get(plural, namespace, name)
        self._store(plural, "DELETED", item)
        del self._objects[plural, namespace, name]
        return item

    def since(self, version: int) -> Iterator[Change]:
        """Raises ApiError if they are no longer known."""
        if version < self._compacted_version:
            raise ApiError(410, "Expired", f"too old resource version: {version}")
        return (change for change in list(self._changes) if change.version > version)

    def compact(self) -> None:
        """Forget all changes until now."""
        self._compacted_version = self.version
        self._changes.clear()

    async def wait_for_change(self) -> None:
        await self._changed.wait()

    def _store(self, plural: str, type: str, item: Object) -> Object:
        self.version += 1
        item = copy.deepcopy(item)
        metadata = item["metadata"]
        metadata["resourceVersion"] = str(self.version)
        self._objects[plural, metadata.get("namespace", ""), metadata["name"]] = item
        self._changes.append(Change(self.version, plural, type, item))
        self._changed.set()
        self._changed = asyncio.Event()
        return copy.deepcopy(item)


def timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_selected(item: Object, namespace: str, query: Mapping[str, str]) -> bool:
    """By labels that are equal, and by the name."""
    metadata = item["metadata"]
    selector = query.get("labelSelector", "")
    labels = dict(part.split("=") for part in selector.split(",") if part)
    name = query.get("fieldSelector", "").removeprefix("metadata.name=")
    return (
        namespace in ("", metadata.get("namespace"))
        and name in ("", metadata["name"])
        and labels.items() <= metadata.get("labels", {}).items()
    )
