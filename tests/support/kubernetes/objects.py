"""The objects of the in-memory API server, their versions, and the changes that watches replay."""

import asyncio
import copy
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """`group_version` is `v1`, or the group and the version."""

    plural: str
    kind: str
    group_version: str = "v1"
    is_namespaced: bool = True
    has_status: bool = False


RESOURCES = {
    resource.plural: resource
    for resource in (
        Resource("namespaces", "Namespace", is_namespaced=False, has_status=True),
        Resource("nodes", "Node", is_namespaced=False, has_status=True),
        Resource("pods", "Pod", has_status=True),
        Resource("secrets", "Secret"),
        Resource("events", "Event"),
        Resource("persistentvolumeclaims", "PersistentVolumeClaim", has_status=True),
        Resource("networkpolicies", "NetworkPolicy", "networking.k8s.io/v1"),
    )
}


@dataclass(frozen=True)
class Change:
    """`before` and `after` are None when the object did not exist."""

    version: int
    plural: str
    before: Object | None
    after: Object | None


class ApiError(Exception):
    """What a client gets as a Status object."""

    def __init__(self, code: int, reason: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        retry_after = details.pop("retry_after", None)
        self.headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        self.status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": details,
            "code": code,
        }


def not_found(plural: str, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{plural} "{name}" not found', name=name, kind=plural)


def expired(version: int) -> ApiError:
    return ApiError(410, "Expired", f"too old resource version: {version}")


class Objects:
    """Used by one event loop only. What goes in and comes out is a copy."""

    def __init__(self) -> None:
        self.version = 1
        self.compacted_version = 0
        self.changes: list[Change] = []
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._changed = asyncio.Event()

    def list(self, plural: str, namespace: str = "") -> list[Object]:
        return [
            copy.deepcopy(item)
            for (kind, place, _), item in sorted(self._objects.items(), key=lambda pair: pair[0])
            if kind == plural and namespace in ("", place)
        ]

    def get(self, plural: str, namespace: str, name: str) -> Object:
        if (item := self._objects.get((plural, namespace, name))) is None:
            raise not_found(plural, name)
        return copy.deepcopy(item)

    def create(self, resource: Resource, namespace: str, item: Object) -> Object:
        metadata = item["metadata"]
        key = (resource.plural, namespace, metadata["name"])
        if key in self._objects:
            name = metadata["name"]
            message = f'{resource.plural} "{name}" already exists'
            raise ApiError(409, "AlreadyExists", message, name=name, kind=resource.plural)
        metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": timestamp()}
        if namespace:
            metadata["namespace"] = namespace
        return self._store(key, item)

    def replace(self, plural: str, item: Object) -> Object:
        """Nothing happens if it is equal. A resource version in it must be the stored one."""
        metadata = item["metadata"]
        key = (plural, metadata.get("namespace", ""), metadata["name"])
        current = self.get(*key)
        version = metadata.get("resourceVersion")
        if version and version != current["metadata"]["resourceVersion"]:
            message = (
                f'Operation cannot be fulfilled on {plural} "{key[2]}": the object has been '
                "modified; please apply your changes to the latest version and try again"
            )
            raise ApiError(409, "Conflict", message, name=key[2], kind=plural)
        for field in ("uid", "creationTimestamp", "resourceVersion"):
            metadata[field] = current["metadata"][field]
        return current if item == current else self._store(key, item)

    def change(
        self, plural: str, namespace: str, name: str, edit: Callable[[Object], None]
    ) -> None:
        """Change it in place, as parts of the cluster do. Raises ApiError if it is gone."""
        item = self.get(plural, namespace, name)
        edit(item)
        self.replace(plural, item)

    def delete(self, plural: str, namespace: str, name: str) -> Object:
        item = self.get(plural, namespace, name)
        del self._objects[plural, namespace, name]
        before = copy.deepcopy(item)
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self._log(Change(self.version, plural, before, None), item)
        return item

    def since(self, version: int) -> Iterator[Change]:
        """Raises ApiError if they are no longer known."""
        if version < self.compacted_version:
            raise expired(version)
        return (change for change in list(self.changes) if change.version > version)

    def compact(self) -> None:
        """Forget all changes until now."""
        self.compacted_version = self.version
        self.changes.clear()

    async def wait_for_change(self) -> None:
        await self._changed.wait()

    def wake_watches(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _store(self, key: tuple[str, str, str], item: Object) -> Object:
        self.version += 1
        item = copy.deepcopy(item)
        item["metadata"]["resourceVersion"] = str(self.version)
        before = self._objects.get(key)
        self._objects[key] = item
        self._log(Change(self.version, key[0], before, item), item)
        return copy.deepcopy(item)

    def _log(self, change: Change, last: Object) -> None:
        """A watch shows the last state of a deleted object, with the version of its deletion."""
        if change.after is None:
            change = Change(change.version, change.plural, last, None)
        self.changes.append(change)
        self.wake_watches()


def timestamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Selector:
    """`labelSelector` and `fieldSelector` of a request, and its namespace."""

    def __init__(self, namespace: str, query: Mapping[str, str]) -> None:
        self._namespace = namespace
        self._labels = [_requirement(text) for text in _split(query.get("labelSelector", ""))]
        self._fields = [_requirement(text) for text in _split(query.get("fieldSelector", ""))]

    def matches(self, item: Object | None) -> bool:
        if item is None or self._namespace not in ("", item["metadata"].get("namespace", "")):
            return False
        labels = item["metadata"].get("labels", {})
        return all(accepts(labels.get(key)) for key, accepts in self._labels) and all(
            accepts(_field(item, key)) for key, accepts in self._fields
        )


def _split(text: str) -> list[str]:
    """At commas outside of parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _requirement(text: str) -> tuple[str, Callable[[str | None], bool]]:
    if text.endswith(")"):
        key, operator, values = text.replace("(", " ( ").split(maxsplit=2)
        allowed = {value.strip() for value in values.strip("() ").split(",")}
        return key, (lambda v: v in allowed) if operator == "in" else (lambda v: v not in allowed)
    if (match := re.fullmatch(r"([^=!\s]+)\s*(!=|==?)\s*(.*)", text)) is not None:
        key, operator, value = match.groups()
        return key, (lambda v: v != value) if operator == "!=" else (lambda v: v == value)
    if text.startswith("!"):
        return text[1:], lambda v: v is None
    return text, lambda v: v is not None


def _field(item: Object, path: str) -> str:
    value: Any = item
    for name in path.split("."):
        value = value.get(name, "") if isinstance(value, dict) else ""
    return str(value)
