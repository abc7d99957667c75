"""The addresses of a test cluster, and the configuration of its programs."""

import json
import resource
from dataclasses import dataclass
from pathlib import Path

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
NODE = "node"
POLICY_PLUGIN = "policies"
PAUSE_IMAGE = "localhost/pause:test"
# kubelet writes these sysctls of the whole machine unless they already have its values.
KERNEL_VALUES = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


@dataclass(frozen=True)
class Addresses:
    """Addresses of cluster `number`, so that several run on one machine."""

    number: int

    @property
    def link(self) -> str:
        return f"agentjobs{self.number}"

    @property
    def cgroup(self) -> str:
        return f"agentjobs-test-{self.number}"

    @property
    def machine(self) -> str:
        """This machine, as pods see it."""
        return f"10.{self.number}.0.1"

    @property
    def node(self) -> str:
        return f"10.{self.number}.0.2"

    @property
    def pod_gateway(self) -> str:
        return f"10.{self.number}.1.1"

    @property
    def pods(self) -> str:
        return f"10.{self.number}.1.0/24"

    @property
    def services(self) -> str:
        return f"10.{self.number}.2.0/24"

    @property
    def api_service(self) -> str:
        return f"10.{self.number}.2.1"

    @property
    def server(self) -> str:
        return f"https://{self.node}:6443"


def containerd(directory: Path) -> str:
    return f"""\
version = 3
root = "{directory}/containerd"
state = "/run/containerd"
[grpc]
address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"
[plugins."io.containerd.cri.v1.images".registry]
config_path = "{directory}/registries"
[plugins."io.containerd.cri.v1.runtime"]
# Lowering a score needs CAP_SYS_RESOURCE, which not all machines have.
restrict_oom_score_adj = true
disable_apparmor = true
tolerate_missing_hugetlb_controller = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{directory}/cni-plugins"]
conf_dir = "{directory}/cni"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


def kubelet(directory: Path, addresses: Addresses) -> str:
    _, open_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": addresses.node,
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": f"{directory}/ca.crt"},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{addresses.cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "maxOpenFiles": open_files,
            "makeIPTablesUtilChains": False,
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "resolvConf": f"{directory}/resolv.conf",
            "podLogsDir": f"{directory}/pod-logs",
            "volumePluginDir": f"{directory}/volume-plugins",
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%"},
            # Afterwards, a node takes pods again.
            "evictionPressureTransitionPeriod": "1s",
            "serializeImagePulls": False,
            "maxPods": 100,
            # A node that stops is noticed soon.
            "nodeStatusUpdateFrequency": "2s",
            "nodeLeaseDurationSeconds": 8,
        }
    )


def network(addresses: Addresses) -> str:
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": "/run/cni",
            "ranges": [[{"subnet": addresses.pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    plugins = [bridge, {"type": POLICY_PLUGIN}]
    return json.dumps({"cniVersion": "0.4.0", "name": "pods", "plugins": plugins})


def service_rules(addresses: Addresses) -> str:
    """Nothing but the API server needs a service's address, so no kube-proxy runs."""
    rule = f"ip daddr {addresses.api_service} tcp dport 443 dnat to {addresses.node}:6443"
    return f"""\
table ip services {{
  chain prerouting {{ type nat hook prerouting priority -100; {rule}; }}
  chain output {{ type nat hook output priority -100; {rule}; }}
}}
"""
