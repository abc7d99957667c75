"""How a secret of an environment is used, as an admin enters it. Pure."""

from typing import Literal, get_args

import msgspec

from agentjobs.organizations.secrets import check_secret
from agentjobs_runtime.environments.brokered_host import (
    DEFAULT_METHODS,
    KINDS,
    Kind,
    parse_header,
    parse_host,
    parse_methods,
    parse_path_prefix,
)
from agentjobs_runtime.environments.images.errors import ImageError
from agentjobs_runtime.environments.images.reference import parse_reference
from agentjobs_runtime.environments.validation import variable_fault
from agentjobs_runtime.problems import Problem

Purpose = Literal["setup", "proxy", "registry"]
PURPOSES: tuple[Purpose, ...] = get_args(Purpose)
# Shorter values cannot be told apart from other text, in logs and in what setup leaves behind.
MIN_SETUP_CHARACTERS = 8
MAX_USERNAME_CHARACTERS = 256
_ANY_IMAGE = "image"
# The fields that each purpose has; the first ones are required.
_FIELDS = {
    "setup": ((), ()),
    "proxy": (("host", "header"), ("path_prefix", "methods", "kind")),
    "registry": (("host", "username"), ()),
}


class SecretUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where and how the value is sent: `username` to a registry, the others by the proxy."""

    header: str = ""
    path_prefix: str = "/"
    methods: tuple[str, ...] = DEFAULT_METHODS
    kind: Kind = ""
    username: str = ""


class SecretDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """All but the value. `repo_id` is empty for a registry, which the organization uses."""

    name: str
    purpose: Purpose
    repo_id: str = ""
    host: str = ""
    usage: SecretUsage = SecretUsage()


class SecretInput(msgspec.Struct, frozen=True, kw_only=True):
    """The texts of a form or of options; empty if they are not given."""

    name: str
    purpose: str
    value: str
    host: str = ""
    header: str = ""
    path_prefix: str = ""
    methods: str = ""
    kind: str = ""
    username: str = ""


def parse_secret(entered: SecretInput, repo_id: str) -> SecretDefinition:
    """Raises Problem."""
    check_secret(entered.name, entered.value)
    if entered.purpose not in PURPOSES:
        raise _invalid(f"A secret is for {', '.join(PURPOSES[:-1])} or {PURPOSES[-1]}.")
    purpose = entered.purpose
    _check_fields(entered, purpose, has_repo=bool(repo_id))
    try:
        host, usage = _parse_usage(entered, purpose)
    except ValueError as error:
        raise _invalid(f"{str(error)[:1].upper()}{str(error)[1:]}.") from None
    return SecretDefinition(
        name=entered.name, purpose=purpose, repo_id=repo_id, host=host, usage=usage
    )


def _check_fields(entered: SecretInput, purpose: Purpose, *, has_repo: bool) -> None:
    if purpose == "registry" and has_repo:
        raise _invalid("All repositories of the organization use its registries: name none.")
    if purpose != "registry" and not has_repo:
        raise _invalid(f"Name the repository that uses the secret for {purpose}.")
    required, optional = _FIELDS[purpose]
    for field in ("host", "header", "path_prefix", "methods", "kind", "username"):
        is_given = bool(getattr(entered, field))
        label = field.replace("_", " ")
        if is_given and field not in (*required, *optional):
            raise _invalid(f"A secret for {purpose} has no {label}.")
        if field in required and not is_given:
            raise _invalid(f"A secret for {purpose} needs a {label}.")


def _parse_usage(entered: SecretInput, purpose: Purpose) -> tuple[str, SecretUsage]:
    """Raises ValueError."""
    if purpose == "setup":
        if fault := variable_fault(entered.name, entered.value):
            raise ValueError(f"{entered.name} {fault}")
        if len(entered.value) < MIN_SETUP_CHARACTERS:
            raise ValueError(
                f"a secret for setup must have at least {MIN_SETUP_CHARACTERS} characters"
            )
        return "", SecretUsage()
    if purpose == "registry":
        return _parse_registry(entered.host), SecretUsage(username=_parse_username(entered))
    if entered.kind not in ("", *KINDS):
        raise ValueError(f"the kind must be one of {', '.join(KINDS)}")
    name, value = parse_header(entered.header)
    return parse_host(entered.host), SecretUsage(
        header=f"{name}: {value}",
        path_prefix=parse_path_prefix(entered.path_prefix or "/"),
        methods=parse_methods(entered.methods) if entered.methods else DEFAULT_METHODS,
        kind=entered.kind,
    )


def _parse_registry(text: str) -> str:
    """Parses a host as the names of images have it. Raises ValueError."""
    try:
        reference = parse_reference(f"{text}/{_ANY_IMAGE}")
    except ImageError:
        reference = None
    if reference is None or reference.path != _ANY_IMAGE:
        raise ValueError(
            f"{text!r} is not a registry: write its host as names of images have it, such as"
            " registry.example.com or HOST:PORT"
        )
    return reference.host


def _parse_username(entered: SecretInput) -> str:
    # Basic authentication separates user and password by a colon.
    is_valid = ":" not in entered.username and entered.username.isprintable()
    if not is_valid or len(entered.username) > MAX_USERNAME_CHARACTERS:
        raise ValueError("the user name must be printable, without a colon")
    return entered.username


def _invalid(message: str) -> Problem:
    return Problem("invalid_secret", message)
