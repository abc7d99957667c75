"""The options of the programs of a test cluster."""

from pathlib import Path

from tests.kubernetes.configuration import NODE, Addresses

_ETCD = "http://127.0.0.1:2379"


def etcd(directory: Path) -> list[str]:
    return [
        f"--data-dir={directory}/data",
        "--log-outputs=stderr",
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
    ]


def api_server(directory: Path, addresses: Addresses) -> list[str]:
    options = {
        "advertise-address": addresses.node,
        "allow-privileged": "true",
        "authorization-mode": "Node,RBAC",
        "bind-address": addresses.node,
        "client-ca-file": directory / "ca.crt",
        "default-not-ready-toleration-seconds": 5,
        "default-unreachable-toleration-seconds": 5,
        "enable-admission-plugins": "NodeRestriction",
        "etcd-servers": _ETCD,
        "kubelet-client-certificate": directory / "kubelet-client.crt",
        "kubelet-client-key": directory / "kubelet-client.key",
        "kubelet-preferred-address-types": "InternalIP",
        "profiling": "false",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": directory / "service-accounts.pub",
        "service-account-signing-key-file": directory / "service-accounts.key",
        "service-cluster-ip-range": addresses.services,
        "tls-cert-file": directory / "api-server.crt",
        "tls-private-key-file": directory / "api-server.key",
    }
    return [f"--{name}={value}" for name, value in options.items()]


def controller_manager(directory: Path) -> list[str]:
    return [
        *_access(directory / "controller-manager.kubeconfig"),
        "--use-service-account-credentials",
        f"--service-account-private-key-file={directory}/service-accounts.key",
        f"--root-ca-file={directory}/ca.crt",
        # A node that stops is noticed soon.
        "--node-monitor-grace-period=8s",
        "--node-monitor-period=1s",
    ]


def scheduler(directory: Path) -> list[str]:
    return _access(directory / "scheduler.kubeconfig")


def kubelet(directory: Path, addresses: Addresses) -> list[str]:
    return [
        f"--config={directory}/kubelet.json",
        f"--kubeconfig={directory}/kubelet.kubeconfig",
        f"--hostname-override={NODE}",
        f"--node-ip={addresses.node}",
        f"--root-dir={directory}/kubelet",
        f"--cert-dir={directory}/kubelet",
    ]


def _access(kubeconfig: Path) -> list[str]:
    names = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
    common = ["--leader-elect=false", "--bind-address=127.0.0.1"]
    return [*(f"--{name}={kubeconfig}" for name in names), *common]
