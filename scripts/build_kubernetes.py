"""Builds the programs of a cluster for `make test SUITE=kubernetes`, from the Go module proxy.

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
# Debian 12 has older ones: without user namespaces, and with an etcd that fails quiet watches.
ETCD = "3.7.3"
CONTAINERD = "2.4.2"
RUNC = "1.5.2"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
# Older ones do not fetch the toolchain that a module asks for.
MIN_GO = (1, 21)
_STAGING = re.compile(r"^\s+(k8s\.io/[a-z-]+) => \./staging", re.MULTILINE)


def main(directory: str) -> None:
    root = Path(directory).resolve()
    binaries = root / "bin"
    if is_complete(binaries):
        return
    go = find_go()
    print("building Kubernetes (about 15 minutes the first time)", file=sys.stderr)
    built = root / "bin.incomplete"
    shutil.rmtree(built, ignore_errors=True)
    built.mkdir(parents=True)
    build_kubernetes(go, root / "source", built)
    build_etcd(go, root / "source", built)
    install(go, built, f"helm.sh/helm/v4/cmd/helm@v{HELM}")
    containerd = "github.com/containerd/containerd/v2/cmd"
    for program in ("containerd", "containerd-shim-runc-v2", "ctr"):
        install(go, built, f"{containerd}/{program}@v{CONTAINERD}")
    install(go, built, f"github.com/opencontainers/runc@v{RUNC}", "-tags=seccomp", CGO_ENABLED="1")
    versions_file(built).write_text(versions())
    shutil.rmtree(binaries, ignore_errors=True)
    built.rename(binaries)


def is_complete(binaries: Path) -> bool:
    file = versions_file(binaries)
    return file.exists() and file.read_text() == versions()


def versions() -> str:
    parts = {"kubernetes": KUBERNETES, "etcd": ETCD, "containerd": CONTAINERD, "runc": RUNC}
    return "".join(f"{name} {version}\n" for name, version in {**parts, "helm": HELM}.items())


def versions_file(binaries: Path) -> Path:
    return binaries / "versions"


def find_go() -> str:
    """The machine's Go, or that of the development environment where it is too old or missing."""
    for program in (shutil.which("go"), str(Path(sys.prefix, "go", "bin", "go"))):
        if program and Path(program).exists():
            match = re.search(r"go(\d+)\.(\d+)", run(program, "version"))
            if match and tuple(map(int, match.groups())) >= MIN_GO:
                return program
    sys.exit("build_kubernetes: Go is missing; run `make install-dev`, or put `go` into PATH")


def build_kubernetes(go: str, source: Path, binaries: Path) -> None:
    """Its module replaces others by directories that are not in its archive."""
    module = f"k8s.io/kubernetes@v{KUBERNETES}"
    create_module(go, source, module)
    download = json.loads(run(go, "mod", "download", "-json", module, cwd=source))
    staging = _STAGING.findall(Path(download["GoMod"]).read_text())
    version = f"v0.{KUBERNETES.partition('.')[2]}"
    replacements = [f"-replace={name}={name}@{version}" for name in staging]
    run(go, "mod", "edit", *replacements, cwd=source)
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion=v{KUBERNETES}"
    packages = [f"k8s.io/kubernetes/cmd/{program}" for program in PROGRAMS]
    build(go, source, flags, f"{binaries}/", *packages)


def build_etcd(go: str, source: Path, binaries: Path) -> None:
    """Its module has replacements too, so `go install` refuses it."""
    create_module(go, source, f"go.etcd.io/etcd/server/v3@v{ETCD}")
    package = "go.etcd.io/etcd/server/v3"
    build(go, source, "-s -w", f"{binaries}/etcd", package, CGO_ENABLED="0")


def create_module(go: str, source: Path, requirement: str) -> None:
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    run(go, "mod", "init", "agentjobs.dev/test-cluster", cwd=source)
    run(go, "mod", "edit", f"-require={requirement}", cwd=source)


def build(
    go: str, source: Path, flags: str, output: str, *packages: str, **environment: str
) -> None:
    options = ("-mod=mod", "-trimpath", "-ldflags", flags, "-o", output)
    run("nice", "-n", "10", go, "build", *options, *packages, cwd=source, **environment)


def install(go: str, binaries: Path, package: str, *options: str, **environment: str) -> None:
    command = ("nice", "-n", "10", go, "install", "-trimpath", "-ldflags", "-s -w")
    run(*command, *options, package, **{"CGO_ENABLED": "0", "GOBIN": str(binaries), **environment})


def run(*command: str, cwd: Path | None = None, **environment: str) -> str:
    defaults = {"GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "auto"}
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
