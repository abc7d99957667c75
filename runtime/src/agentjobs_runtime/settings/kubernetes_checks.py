"""Validates the settings of agents in pods, and the keys of an agent that say where its pods run.

Asks no cluster.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence

from agentjobs_runtime.settings.locations import SettingsFileError
from agentjobs_runtime.settings.model import Settings

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MAX_NAME = 63
_MAX_PREFIX = 253
_MAX_IMAGE = 512
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_SUBDOMAIN = re.compile(rf"{_NAME.pattern}(?:\.{_NAME.pattern})*")
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
# Only what cannot be one: the registry decides whether an image exists.
_IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._:/@-]*")
_OPERATORS = ("Equal", "Exists")
_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATION_KEYS = ("key", "operator", "value", "effect", "tolerationSeconds")

Toleration = Mapping[str, str | int]


def check_kubernetes(settings: Settings) -> None:
    if not is_name(settings.kubernetes_namespace):
        raise SettingsFileError("kubernetes_namespace", "must be the name of a namespace")
    image = settings.kubernetes_image
    if image and not (_IMAGE.fullmatch(image) and len(image) <= _MAX_IMAGE):
        reason = "must be an image, such as registry.example.com/agents:1.0"
        raise SettingsFileError("kubernetes_image", reason)
    if settings.kubernetes_image_pull_policy not in PULL_POLICIES:
        reason = f"must be one of: {', '.join(PULL_POLICIES)}"
        raise SettingsFileError("kubernetes_image_pull_policy", reason)
    claim = settings.kubernetes_cache_claim
    if claim and not is_subdomain(claim):
        reason = "must be the name of a PersistentVolumeClaim (or be left out)"
        raise SettingsFileError("kubernetes_cache_claim", reason)
    for text in settings.kubernetes_image_pull_secrets:
        if not is_subdomain(text):
            reason = f"{text!r} must be the name of a secret in the namespace of agents"
            raise SettingsFileError("kubernetes_image_pull_secrets", reason)
    for text in settings.kubernetes_worker_labels:
        key, separator, value = text.partition("=")
        if not separator or label_fault(key, value) is not None:
            reason = f"{text!r} must be a label, such as app.kubernetes.io/component=worker"
            raise SettingsFileError("kubernetes_worker_labels", reason)
    for text in settings.kubernetes_worker_cidrs:
        try:
            ipaddress.ip_network(text)
        except ValueError as error:
            raise SettingsFileError("kubernetes_worker_cidrs", str(error)) from None


def is_name(text: str) -> bool:
    return len(text) <= _MAX_NAME and _NAME.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Whether the text is a name in Kubernetes, such as that of a runtime class."""
    return len(text) <= _MAX_PREFIX and _SUBDOMAIN.fullmatch(text) is not None


def label_fault(key: str, value: str) -> str | None:
    """What is wrong with a label; None if it is valid."""
    if not _is_label_key(key):
        return f"{key!r} is not the key of a label"
    if value and not _is_label_part(value):
        return f"{value!r} is not the value of a label"
    return None


def toleration_fault(tolerations: Sequence[Toleration]) -> str | None:
    """What is wrong with the tolerations of an agent; None if they are valid."""
    faults = (fault for toleration in tolerations for fault in _toleration_faults(toleration))
    return next(faults, None)


def _toleration_faults(toleration: Toleration) -> Iterator[str]:
    for name in sorted(set(toleration) - set(_TOLERATION_KEYS)):
        yield f"`{name}` must be one of: {', '.join(_TOLERATION_KEYS)}"
    operator, key = toleration.get("operator", "Equal"), toleration.get("key", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    if operator not in _OPERATORS:
        yield f"`operator` must be one of: {', '.join(_OPERATORS)}"
    if effect not in _EFFECTS:
        yield f"`effect` must be one of: {', '.join(filter(None, _EFFECTS))} (or be left out)"
    if operator == "Equal" and not key:
        yield 'a toleration without `key` needs `operator = "Exists"`'
    if operator == "Exists" and value:
        yield '`value` has no meaning with `operator = "Exists"`'
    if key and not _is_label_key(str(key)):
        yield f"{key!r} is not the key of a taint"
    if not isinstance(value, str) or (value and not _is_label_part(value)):
        yield f"{value!r} is not the value of a taint"
    seconds = toleration.get("tolerationSeconds", 0)
    if not isinstance(seconds, int) or (seconds and effect != "NoExecute"):
        yield '`tolerationSeconds` is a number, for `effect = "NoExecute"` only'


def _is_label_key(key: str) -> bool:
    prefix, separator, name = key.rpartition("/")
    return _is_label_part(name) and (not separator or is_subdomain(prefix))


def _is_label_part(text: str) -> bool:
    return len(text) <= _MAX_NAME and _LABEL.fullmatch(text) is not None
