"""Renders and installs the chart with the real helm."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.namespaces import CommandFailed
from tests.support.paths import PROJECT

CHART = PROJECT / "kubernetes" / "chart" / "agentjobs"
RELEASE = "agentjobs"
URL = "https://agents.example.com"


class Helm:
    """`values` are in addition to the chart's defaults."""

    def __init__(self, cluster: Cluster, namespace: str, directory: Path) -> None:
        self.namespace = namespace
        self._program = cluster.directory / "bin" / "helm"
        self._directory = directory
        self.environment = {
            **os.environ,
            "KUBECONFIG": str(cluster.kubeconfig),
            "PATH": f"{cluster.directory / 'bin'}:{os.environ['PATH']}",
            **{f"HELM_{kind}_HOME": str(directory) for kind in ("CACHE", "CONFIG", "DATA")},
        }

    def run(self, *arguments: str | Path) -> str:
        done = subprocess.run(
            [self._program, *arguments, "--namespace", self.namespace],
            capture_output=True,
            text=True,
            check=False,
            env=self.environment,
        )
        if done.returncode:
            raise CommandFailed(f"helm {' '.join(map(str, arguments))}: {done.stderr[-3000:]}")
        return done.stdout

    def lint(self, values: dict[str, Any]) -> str:
        return self.run("lint", "--strict", CHART, "--values", self._write(values))

    def render(self, values: dict[str, Any]) -> list[dict[str, Any]]:
        """The objects with their namespaces, as helm would create them."""
        text = self.run("template", RELEASE, CHART, "--values", self._write(values))
        objects = [document for document in yaml.safe_load_all(text) if document]
        for each in objects:
            if each["kind"] != "Namespace":
                each["metadata"].setdefault("namespace", self.namespace)
        return objects

    def install(self, values: dict[str, Any], timeout: str = "5m") -> str:
        options = ("--wait", "--timeout", timeout, "--values", self._write(values))
        return self.run("upgrade", "--install", RELEASE, CHART, *options)

    def uninstall(self) -> None:
        self.run("uninstall", RELEASE, "--wait", "--ignore-not-found", "--timeout", "3m")

    def _write(self, values: dict[str, Any]) -> Path:
        path = self._directory / "values.yaml"
        path.write_text(json.dumps({"publicUrl": URL, **values}))
        return path
