"""Enforces NetworkPolicies on the test node, which its bridge plugin does not.

A network plugin calls it for each new pod before its containers start, so no packet escapes; its
loop applies later changes. Runs on the node with nothing but the standard library.

Usage: python -m tests.kubernetes.policy_plugin RUN_DIRECTORY [loop]
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.kubernetes import network_rules

SWITCH = "policies-enforced"
SETTINGS = "policies.json"
RECORDS = "pod-networks"
_PAUSE_SECONDS = 0.5
_PATHS = ("/api/v1/pods", "/api/v1/namespaces", "/apis/networking.k8s.io/v1/networkpolicies")


class Enforcer:
    """`RECORDS` has a file per pod, which names its network namespace."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._applied: dict[Path, str] = {}

    def apply(self, *records: Path) -> None:
        settings = json.loads((self._directory / SETTINGS).read_text())
        pods, namespaces, policies = self._lists(settings["server"])
        directory = network_rules.Directory(pods, namespaces)
        for pod in pods:
            record = _record(self._directory, pod["metadata"]["namespace"], pod["metadata"]["name"])
            if record not in records:
                continue
            text = network_rules.rules(pod, policies, directory, settings["node_addresses"])
            if self._applied.get(record) != text:
                change_rules(record.read_text(), text)
                self._applied[record] = text

    def _lists(self, server: str) -> list[list[Any]]:
        # Slow to import, and most pods of tests have no policies.
        import ssl
        import urllib.request

        context = ssl.create_default_context(cafile=str(self._directory / "ca.crt"))
        context.load_cert_chain(self._directory / "admin.crt", self._directory / "admin.key")
        lists = []
        for path in _PATHS:
            with urllib.request.urlopen(f"{server}{path}", context=context, timeout=10) as answer:
                lists.append(json.load(answer)["items"])
        return lists


def _record(directory: Path, namespace: str, name: str) -> Path:
    return directory / RECORDS / f"{namespace}_{name}"


def change_rules(network: str, text: str) -> None:
    command = ["nsenter", f"--net={network}", "nft", "-f", "-"]
    subprocess.run(command, input=text, text=True, check=True, stdout=subprocess.DEVNULL)


def run_plugin(directory: Path) -> None:
    """As CNI prescribes: the command is in the environment, the result so far in the input."""
    request = json.load(sys.stdin)
    command = os.environ["CNI_COMMAND"]
    if command == "VERSION":
        json.dump({"cniVersion": "0.4.0", "supportedVersions": ["0.4.0"]}, sys.stdout)
        return
    names = dict(pair.split("=", 1) for pair in os.environ["CNI_ARGS"].split(";"))
    record = _record(directory, names["K8S_POD_NAMESPACE"], names["K8S_POD_NAME"])
    if command == "ADD":
        record.write_text(os.environ["CNI_NETNS"])
        if (directory / SWITCH).exists():
            Enforcer(directory).apply(record)
        json.dump(request["prevResult"], sys.stdout)
    elif command == "DEL":
        record.unlink(missing_ok=True)


def run_loop(directory: Path) -> None:
    enforcer = Enforcer(directory)
    while True:
        try:
            enforcer.apply(*(directory / RECORDS).iterdir())
        except (OSError, subprocess.CalledProcessError) as error:
            # The API server restarts, or a pod has just ended.
            sys.stderr.write(f"{error}\n")
        time.sleep(_PAUSE_SECONDS)


if __name__ == "__main__":
    run = run_loop if sys.argv[2:] == ["loop"] else run_plugin
    run(Path(sys.argv[1]))
