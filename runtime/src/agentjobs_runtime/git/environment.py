"""The environment of every git process, built from scratch.

Owns the configuration that makes git safe with untrusted files. Knows nothing of the command.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict, Unpack

HARDENED_CONFIGURATION: Mapping[str, str] = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.safecrlf": "false",
    "core.symlinks": "true",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    # One flush for all objects of an `add` instead of one per object.
    "core.fsyncMethod": "batch",
    "core.askPass": "",
    "credential.helper": "",
    "safe.bareRepository": "explicit",
    # The service names every git directory and git discovers none, so owners do not matter.
    "safe.directory": "*",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "push.recurseSubmodules": "no",
    "push.gpgSign": "false",
    "commit.gpgSign": "false",
    # Bounds of memory: larger files are streamed, packs are mapped in windows, deltas are few.
    "core.bigFileThreshold": "64m",
    "core.packedGitWindowSize": "32m",
    "core.packedGitLimit": "256m",
    "pack.windowMemory": "64m",
    "pack.threads": "2",
    # Unpacked, a small pack can become many large files: of a fetch, a push, or a deleted branch.
    "transfer.unpackLimit": "1",
    "gc.cruftPacks": "true",
    "gc.autoPackLimit": "200",
    "gc.auto": "0",
    "gc.autoDetach": "false",
    "maintenance.auto": "false",
    "http.followRedirects": "false",
    # Uploads over HTTP/2 stall with libcurl before 8.2, which Debian 12 has.
    "http.version": "HTTP/1.1",
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "60",
}

# A tuple has the values of a key that may be given several times.
Configuration = Mapping[str, str | tuple[str, ...]]

CERTIFICATE_VARIABLES = ("GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "SSL_CERT_FILE", "SSL_CERT_DIR")


class GitOptions(TypedDict, total=False):
    """`protocols` as in GIT_ALLOW_PROTOCOL, none by default."""

    git_dir: Path | None
    work_tree: Path | None
    index_file: Path | None
    environment: Mapping[str, str] | None
    configuration: Configuration | None
    protocols: str


def git_environment(**options: Unpack[GitOptions]) -> dict[str, str]:
    """All variables of one git process."""
    configuration = {**HARDENED_CONFIGURATION, **(options.get("configuration") or {})}
    variables = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        # An arena per thread would reserve most of the memory that the limit allows.
        "MALLOC_ARENA_MAX": "2",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": options.get("protocols", ""),
        **_certificates(),
        **_configuration_variables(configuration),
    }
    for name, path in (
        ("GIT_DIR", options.get("git_dir")),
        ("GIT_WORK_TREE", options.get("work_tree")),
        ("GIT_INDEX_FILE", options.get("index_file")),
    ):
        if path is not None:
            variables[name] = str(path)
    variables.update(options.get("environment") or {})
    return variables


def _configuration_variables(configuration: Configuration) -> dict[str, str]:
    entries = [
        (key, value)
        for key, values in configuration.items()
        for value in ((values,) if isinstance(values, str) else values)
    ]
    variables = {"GIT_CONFIG_COUNT": str(len(entries))}
    for number, (key, value) in enumerate(entries):
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = value
    return variables


def _certificates() -> dict[str, str]:
    variables = {name: os.environ[name] for name in CERTIFICATE_VARIABLES if os.environ.get(name)}
    if "SSL_CERT_FILE" in variables:
        # A git built with GnuTLS ignores the variable that OpenSSL reads.
        variables.setdefault("GIT_SSL_CAINFO", variables["SSL_CERT_FILE"])
    return variables
