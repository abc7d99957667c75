"""What the API server refuses, and the defaults that it adds."""

import base64
import binascii
import ipaddress
import re
import secrets
from collections.abc import Iterator
from typing import Any

from tests.support.kubernetes.objects import ApiError, Object, Resource

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)([numkMGTPE]|[KMGTPE]i|e[0-9]+)?")
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*|[^=]+")
_UNITS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3} | {
    f"{unit}{suffix}": float(base**power)
    for suffix, base in (("", 1000), ("i", 1024))
    for power, unit in enumerate("KMGTPE", 1)
}
# What may change in a pod after it was created.
_MUTABLE = ("activeDeadlineSeconds", "tolerations", "nodeName")
_POD_DEFAULTS = {
    "restartPolicy": "Always",
    "dnsPolicy": "ClusterFirst",
    "terminationGracePeriodSeconds": 30,
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "serviceAccountName": "default",
}

Problem = tuple[str, str]


def prepare(resource: Resource, item: Object) -> None:
    """Check a new object and add what the server adds. Raises ApiError."""
    _check_envelope(resource, item)
    metadata = item.setdefault("metadata", {})
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = f"{metadata['generateName']}{secrets.token_hex(3)[:5]}"
    _refuse(resource, item, list(_problems(resource, item)))
    if resource.kind == "Pod":
        item["spec"] = {**_POD_DEFAULTS, **item["spec"]}
        for container in (*item["spec"]["containers"], *item["spec"].get("initContainers", ())):
            container.setdefault("imagePullPolicy", "IfNotPresent")
        item["status"] = {"phase": "Pending", "qosClass": _quality_of_service(item["spec"])}
    elif resource.kind == "NetworkPolicy":
        types = ["Ingress", "Egress"] if "egress" in item["spec"] else ["Ingress"]
        item["spec"].setdefault("policyTypes", types)
    elif resource.kind == "Secret":
        for name, value in item.pop("stringData", {}).items():
            item.setdefault("data", {})[name] = base64.b64encode(value.encode()).decode()
        item.setdefault("type", "Opaque")
    elif resource.kind == "Namespace":
        item["status"] = {"phase": "Active"}


def check_update(resource: Resource, before: Object, after: Object) -> None:
    """Raises ApiError."""
    _check_envelope(resource, after)
    problems = list(_problems(resource, after))
    if resource.kind == "Pod" and _immutable(before) != _immutable(after):
        problems.append(("spec", "Forbidden: pod updates may not change fields other than …"))
    if resource.kind == "Secret" and before["type"] != after.get("type", before["type"]):
        problems.append(("type", "Invalid value: field is immutable"))
    _refuse(resource, after, problems)


def amount(quantity: str | int) -> float:
    """`64Mi` as a number."""
    match = _QUANTITY.fullmatch(str(quantity))
    assert match is not None
    suffix = match[2] or "e0"
    return float(match[1]) * (_UNITS[suffix] if suffix in _UNITS else float(f"1{suffix}"))


def _check_envelope(resource: Resource, item: Any) -> None:
    if not isinstance(item, dict) or item.get("kind", resource.kind) != resource.kind:
        raise ApiError(400, "BadRequest", f"the object provided is no {resource.kind}")
    if item.get("apiVersion", resource.group_version) != resource.group_version:
        raise ApiError(400, "BadRequest", "the API version in the data does not match the expected")
    item["kind"], item["apiVersion"] = resource.kind, resource.group_version


def _refuse(resource: Resource, item: Object, problems: list[Problem]) -> None:
    if not problems:
        return
    name = item["metadata"].get("name", "")
    text = ", ".join(f"{field}: {message}" for field, message in problems)
    raise ApiError(
        422,
        "Invalid",
        f'{resource.kind} "{name}" is invalid: {text}',
        name=name,
        kind=resource.kind,
        causes=[{"field": field, "message": message} for field, message in problems],
    )


def _problems(resource: Resource, item: Object) -> Iterator[Problem]:
    yield from _metadata_problems(resource, item["metadata"])
    match resource.kind:
        case "Pod":
            yield from _pod_problems(item.get("spec") or {})
        case "NetworkPolicy" if "podSelector" not in item.get("spec", {}):
            # A real server takes it for a selector of all pods.
            item.setdefault("spec", {})["podSelector"] = {}
        case "Secret":
            yield from _secret_problems(item.get("data") or {})


def _metadata_problems(resource: Resource, metadata: Object) -> Iterator[Problem]:
    name = metadata.get("name")
    pattern = _LABEL if resource.kind == "Namespace" else _SUBDOMAIN
    if not name:
        yield "metadata.name", "Required value: name or generateName is required"
    elif len(name) > 253 or not pattern.fullmatch(name):
        yield "metadata.name", f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must …'
    for key, value in (metadata.get("labels") or {}).items():
        yield from _key_problems("metadata.labels", key)
        if value and not _QUALIFIED_NAME.fullmatch(value):
            yield "metadata.labels", f'Invalid value: "{value}": a valid label must be …'
    for key, value in (metadata.get("annotations") or {}).items():
        yield from _key_problems("metadata.annotations", key)
        if not isinstance(value, str):
            raise ApiError(400, "BadRequest", "json: cannot unmarshal into annotations of string")


def _key_problems(field: str, key: str) -> Iterator[Problem]:
    prefix, _, name = key.rpartition("/")
    if (prefix and not _SUBDOMAIN.fullmatch(prefix)) or not _QUALIFIED_NAME.fullmatch(name):
        yield field, f'Invalid value: "{key}": name part must consist of alphanumeric characters …'


def _secret_problems(data: dict[str, str]) -> Iterator[Problem]:
    for value in data.values():
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, TypeError):
            raise ApiError(400, "BadRequest", "illegal base64 data at input byte 0") from None
    yield from ()


def _pod_problems(spec: Object) -> Iterator[Problem]:
    containers = spec.get("containers") or []
    if not containers:
        yield "spec.containers", "Required value"
    volumes = [volume.get("name") for volume in spec.get("volumes") or []]
    everything = [*containers, *(spec.get("initContainers") or [])]
    names = [container.get("name") for container in everything]
    for name in {name for name in (*names, None) if names.count(name) > 1}:
        yield "spec.containers", f'Duplicate value: "{name}"'
    for container in everything:
        yield from _container_problems(container, volumes)
    if spec.get("restartPolicy", "Always") not in ("Always", "OnFailure", "Never"):
        yield "spec.restartPolicy", f'Unsupported value: "{spec["restartPolicy"]}"'
    if (deadline := spec.get("activeDeadlineSeconds")) is not None and deadline < 1:
        yield "spec.activeDeadlineSeconds", f"Invalid value: {deadline}: must be between 1 and …"
    if spec.get("dnsPolicy") == "None" and not spec.get("dnsConfig", {}).get("nameservers"):
        yield "spec.dnsConfig.nameservers", "Required value: must provide at least one DNS …"
    for alias in spec.get("hostAliases") or []:
        try:
            ipaddress.ip_address(alias.get("ip", ""))
        except ValueError:
            yield "spec.hostAliases.ip", f'Invalid value: "{alias.get("ip")}": must be a valid IP'


def _container_problems(container: Object, volumes: list[str | None]) -> Iterator[Problem]:
    name = container.get("name") or ""
    if not _LABEL.fullmatch(name):
        kind = "Invalid value" if name else "Required value"
        yield "spec.containers[].name", f'{kind}: "{name}"'
    if not container.get("image"):
        yield "spec.containers[].image", "Required value"
    for mount in container.get("volumeMounts") or []:
        if not mount.get("mountPath"):
            yield "spec.containers[].volumeMounts[].mountPath", "Required value"
        if mount.get("name") not in volumes:
            yield "spec.containers[].volumeMounts[].name", f'Not found: "{mount.get("name")}"'
    for variable in container.get("env") or []:
        if not _VARIABLE.fullmatch(variable.get("name") or ""):
            yield "spec.containers[].env[].name", f'Invalid value: "{variable.get("name")}"'
    resources = container.get("resources") or {}
    quantities = [*resources.get("limits", {}).values(), *resources.get("requests", {}).values()]
    if not all(_QUANTITY.fullmatch(str(quantity)) for quantity in quantities):
        raise ApiError(400, "BadRequest", "quantities must match the regular expression …")
    for resource, request in resources.get("requests", {}).items():
        limit = resources.get("limits", {}).get(resource)
        if limit is not None and amount(request) > amount(limit):
            yield (
                "spec.containers[].resources.requests",
                f'Invalid value: "{request}": must be less than or equal to {resource} limit',
            )


def _immutable(pod: Object) -> Object:
    spec = {key: value for key, value in pod.get("spec", {}).items() if key not in _MUTABLE}
    spec["containers"] = [
        {key: value for key, value in container.items() if key != "image"}
        for container in spec.get("containers", ())
    ]
    return spec


def _quality_of_service(spec: Object) -> str:
    resources = [container.get("resources") or {} for container in spec["containers"]]
    if not any(resources):
        return "BestEffort"
    is_guaranteed = all(
        {"cpu", "memory"} <= set(each.get("limits", {}))
        and each.get("requests", each["limits"]) == each["limits"]
        for each in resources
    )
    return "Guaranteed" if is_guaranteed else "Burstable"
