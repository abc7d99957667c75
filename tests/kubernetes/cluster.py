"""A real Kubernetes cluster of one node for tests, in namespaces of its own.

Usage: python -m tests.kubernetes.cluster start|stop|load ARCHIVE|run COMMAND… [--directory …]
"""

import argparse
import json
import os
import shutil
import ssl
import subprocess
import sys
import urllib.request
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tests.kubernetes import cgroups, configuration, images, policy_plugin, programs
from tests.kubernetes.certificates import Authority
from tests.kubernetes.configuration import (
    CONTAINERD_SOCKET,
    KERNEL_VALUES,
    NODE,
    POLICY_PLUGIN,
    Addresses,
)
from tests.kubernetes.namespaces import CommandFailed, Namespaces, wait_for
from tests.support.paths import PROJECT

DIRECTORY = PROJECT / ".kubernetes"
_NUMBERS = range(70, 100)
_CNI_PLUGINS = ("/usr/lib/cni", "/opt/cni/bin")
# kubelet has no setting for them.
_HOST_DIRECTORIES = ("/var/lib/kubelet", "/var/lib/cni")


class Cluster:
    """`kubeconfig` is the administrator's. Pods' addresses are reachable from this machine, and
    it is reachable from pods as `addresses.machine`."""

    def __init__(self, directory: Path = DIRECTORY) -> None:
        self.directory = directory.resolve()
        self.run_directory = self.directory / "run"
        self.namespaces = Namespaces(self.run_directory, self.directory / "bin")
        self.kubeconfig = self.run_directory / "admin.kubeconfig"

    @property
    def addresses(self) -> Addresses:
        return Addresses(int((self.run_directory / "number").read_text()))

    def start(self, *, outlives_caller: bool = False) -> None:
        if os.geteuid() != 0:
            sys.exit("The test cluster creates namespaces, mounts and cgroups: run it as root.")
        if not (self.directory / "bin" / "kubelet").exists():
            sys.exit(f"Build it first: scripts/build_kubernetes.py {self.directory}")
        if not images.SUPERVISOR.exists():
            sys.exit("Build the supervisor of agents' pods first: make supervisor")
        self.stop()
        self.run_directory.mkdir(parents=True)
        try:
            self._start_parts(outlives_caller=outlives_caller)
        except BaseException:
            # Its logs stay.
            self.namespaces.destroy()
            raise

    def _start_parts(self, *, outlives_caller: bool) -> None:
        self.namespaces.create(outlives_caller=outlives_caller)
        self._create_link()
        self._write_files()
        self._prepare_mounts()
        self._prepare_network()
        cgroups.remove(self.addresses.cgroup)
        cgroups.create(self.addresses.cgroup)
        self._start_control_plane()
        self._start_node()
        wait_for(self._is_ready, f"the node did not become ready: {self.run_directory}/*.log")

    def stop(self) -> None:
        """Removes what a run left, also if it was killed."""
        self.namespaces.destroy()
        with suppress(FileNotFoundError):
            cgroups.remove(self.addresses.cgroup)
        shutil.rmtree(self.run_directory, ignore_errors=True)
        for path in _HOST_DIRECTORIES:
            with suppress(OSError):
                Path(path).rmdir()

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        done = subprocess.run(
            [str(self.directory / "bin" / "kubectl"), "--kubeconfig", self.kubeconfig, *arguments],
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CommandFailed(f"kubectl {' '.join(arguments)}: {done.stderr[-2000:]}")
        return done.stdout

    def load_image(self, archive: Path) -> None:
        """An archive of `docker save`, `podman save`, `buildah push` or skopeo."""
        command = ("ctr", "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io")
        self.namespaces.run(*command, "images", "import", "--no-unpack", archive.resolve())

    def __enter__(self) -> "Cluster":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _write_files(self) -> None:
        run, addresses = self.run_directory, self.addresses
        authority = Authority(run)
        authority.write_signing_key("service-accounts")
        names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
        numbers = (addresses.node, addresses.api_service, addresses.machine, "127.0.0.1")
        authority.issue("api-server", "kube-apiserver", addresses=(*names, *numbers))
        authority.issue("kubelet-client", "kube-apiserver-kubelet", group="system:masters")
        for name, user, group in (
            ("admin", "admin", "system:masters"),
            ("controller-manager", "system:kube-controller-manager", ""),
            ("scheduler", "system:kube-scheduler", ""),
            ("kubelet", f"system:node:{NODE}", "system:nodes"),
        ):
            authority.write_kubeconfig(name, user, addresses.server, group=group)
        for name in ("cni", "registries", "volume-plugins", "kernel", "kubelet", "cni-plugins"):
            (run / name).mkdir()
        plugins = next(Path(path) for path in _CNI_PLUGINS if Path(path).is_dir())
        for plugin in plugins.iterdir():
            (run / "cni-plugins" / plugin.name).symlink_to(plugin)
        self._write_policy_plugin()
        (run / "cni" / "10-pods.conflist").write_text(configuration.network(addresses))
        (run / "containerd.toml").write_text(configuration.containerd(run))
        (run / "kubelet.json").write_text(configuration.kubelet(run, addresses))
        (run / "resolv.conf").write_text("")
        for name, value in KERNEL_VALUES.items():
            (run / "kernel" / name.replace("/", ".")).write_text(f"{value}\n")

    def _write_policy_plugin(self) -> None:
        run, addresses = self.run_directory, self.addresses
        (run / policy_plugin.RECORDS).mkdir()
        nodes = [addresses.node, addresses.pod_gateway]
        settings = {"server": addresses.server, "node_addresses": nodes}
        (run / policy_plugin.SETTINGS).write_text(json.dumps(settings))
        plugin = run / "cni-plugins" / POLICY_PLUGIN
        command = f"exec {sys.executable} -S -m tests.kubernetes.policy_plugin {run}"
        plugin.write_text(f"#!/bin/sh\ncd {PROJECT} && {command}\n")
        plugin.chmod(0o755)

    def _prepare_mounts(self) -> None:
        for path in _HOST_DIRECTORIES:
            Path(path).mkdir(exist_ok=True)
        run = self.run_directory
        etcd = run / "etcd"
        etcd.mkdir()
        commands = [
            "mount --make-rprivate / && mount --make-rshared /",
            "mount -t tmpfs -o mode=755 tmpfs /run",
            # User namespaces mount another /proc only where a complete one is mounted.
            "mkdir /run/proc && mount -t proc proc /run/proc",
            f"mount -t tmpfs -o mode=700 tmpfs {etcd}",
            *(f"mount -t tmpfs -o mode=755 tmpfs {path}" for path in _HOST_DIRECTORIES),
            *(
                f"mount --bind {run}/kernel/{name.replace('/', '.')} /proc/sys/{name}"
                for name in KERNEL_VALUES
            ),
            f"hostname {NODE}",
        ]
        self.namespaces.run("sh", "-ec", "\n".join(commands))

    def _create_link(self) -> None:
        """The link, which ends with the namespaces, reserves the addresses of its number."""
        init = self.namespaces.init_pid
        for number in _NUMBERS:
            link = Addresses(number).link
            command = f"ip link add {link} type veth peer name eth0 netns {init}"
            if not subprocess.run(command.split(), capture_output=True, check=False).returncode:
                (self.run_directory / "number").write_text(str(number))
                return
        raise CommandFailed(f"no network link could be created: {command}")

    def _prepare_network(self) -> None:
        addresses = self.addresses
        link, inside = addresses.link, self.namespaces.run
        for command in (
            f"ip address add {addresses.machine}/30 dev {link}",
            f"ip link set {link} up",
        ):
            subprocess.run(command.split(), check=True)
        for command in (
            "ip link set lo up",
            "ip link set eth0 up",
            f"ip address add {addresses.node}/30 dev eth0",
            f"ip route add default via {addresses.machine}",
            "sysctl -qw net.ipv4.ip_forward=1",
        ):
            inside(*command.split())
        inside("nft", "-f", "-", text=configuration.service_rules(addresses))
        for network in (addresses.pods, addresses.services):
            subprocess.run(["ip", "route", "add", network, "via", addresses.node], check=True)

    def _start_control_plane(self) -> None:
        run = self.run_directory
        self.start_etcd()
        self.start_api_server()
        wait_for(self.is_api_ready, f"the API server did not start: {run}/kube-apiserver.log")
        self._start("kube-controller-manager", programs.controller_manager(run))
        self._start("kube-scheduler", programs.scheduler(run))

    def start_etcd(self) -> None:
        self.namespaces.start("etcd", "etcd", *programs.etcd(self.run_directory / "etcd"))

    def start_api_server(self) -> None:
        self._start("kube-apiserver", programs.api_server(self.run_directory, self.addresses))

    def start_kubelet(self) -> None:
        self._start("kubelet", programs.kubelet(self.run_directory, self.addresses))

    def start_containerd(self) -> None:
        options = ("--config", self.run_directory / "containerd.toml")
        self.namespaces.start("containerd", "containerd", *options)

    def is_api_ready(self) -> bool:
        trust = ssl.create_default_context(cafile=str(self.run_directory / "ca.crt"))
        try:
            with urllib.request.urlopen(f"{self.addresses.server}/readyz", context=trust) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _start(self, name: str, options: list[str]) -> None:
        self.namespaces.start(name, self.directory / "bin" / name, *options)

    def _start_node(self) -> None:
        self.start_containerd()
        archive = images.write_images(self.directory / "images")
        ctr = ("ctr", "--address", CONTAINERD_SOCKET, "version")
        wait_for(lambda: _succeeds(self.namespaces, *ctr), "containerd did not start")
        self.load_image(archive)
        self.start_kubelet()

    def _is_ready(self) -> bool:
        try:
            node = json.loads(self.kubectl("get", "node", NODE, "-o", "json"))
            self.kubectl("get", "serviceaccount", "default")
        except CommandFailed:
            return False
        conditions = node["status"]["conditions"]
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _succeeds(namespaces: Namespaces, *command: str) -> bool:
    try:
        namespaces.run(*command)
    except CommandFailed:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes.cluster")
    parser.add_argument("action", choices=("start", "stop", "load", "run"))
    parser.add_argument("arguments", nargs="*")
    parser.add_argument("--directory", type=Path, default=DIRECTORY)
    options = parser.parse_args()
    cluster = Cluster(options.directory)
    if options.action == "start":
        cluster.start(outlives_caller=True)
        sys.stdout.write(f"export KUBECONFIG={cluster.kubeconfig}\n")
    elif options.action == "stop":
        cluster.stop()
    elif options.action == "load":
        for archive in options.arguments:
            cluster.load_image(Path(archive))
    else:
        os.execvp("nsenter", [*cluster.namespaces.enter(), *options.arguments])


if __name__ == "__main__":
    try:
        main()
    except (CommandFailed, TimeoutError) as error:
        sys.exit(str(error))
