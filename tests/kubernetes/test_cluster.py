"""What the other tests rely on: the cluster runs pods, limits them, and leaves nothing behind."""

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubernetes.cluster import Cluster
from tests.kubernetes.images import BUSYBOX_IMAGE, DEBIAN_IMAGE
from tests.kubernetes.namespaces import Namespaces, wait_for
from tests.kubernetes.pods import run_pod, wait_for_phase


def test_a_pod_runs_with_a_restricted_security_context(cluster: Cluster) -> None:
    context = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    # In one stream: the order of lines in two is not certain.
    script = "exec 2>&1; id -u; grep -E 'Seccomp:|CapEff' /proc/self/status; touch /file"
    command = ["sh", "-c", script]
    run_pod(
        cluster,
        "restricted",
        {"image": DEBIAN_IMAGE, "command": command, "securityContext": context},
    )
    wait_for_phase(cluster, "restricted", "Failed")
    lines = cluster.kubectl("logs", "restricted").splitlines()
    assert lines[:3] == ["10001", "CapEff:\t0000000000000000", "Seccomp:\t2"]
    assert "Read-only file system" in lines[3]


def test_a_pod_has_a_user_namespace_of_its_own(cluster: Cluster) -> None:
    container = {"image": BUSYBOX_IMAGE, "command": ["cat", "/proc/self/uid_map"]}
    run_pod(cluster, "user-namespace", container, hostUsers=False)
    wait_for_phase(cluster, "user-namespace", "Succeeded")
    inside, outside, count = cluster.kubectl("logs", "user-namespace").split()
    assert (inside, count) == ("0", "65536")
    assert int(outside) >= 65536


def test_the_memory_limit_of_a_pod_holds(cluster: Cluster) -> None:
    program = "kept = []\nwhile True: kept.append(bytearray(1 << 20))"
    container = {"image": DEBIAN_IMAGE, "command": ["python3", "-c", program]}
    run_pod(cluster, "greedy", {**container, "resources": {"limits": {"memory": "64Mi"}}})
    ended = wait_for_phase(cluster, "greedy", "Failed")["containerStatuses"][0]["state"]
    assert ended["terminated"]["reason"] == "OOMKilled"


def test_pods_and_this_machine_reach_each_other(cluster: Cluster) -> None:
    serve = ["python3", "-m", "http.server", "8463"]
    run_pod(cluster, "server", {"image": DEBIAN_IMAGE, "command": serve})
    address = wait_for_phase(cluster, "server", "Running")["podIP"]
    wait_for(lambda: _connects(address, 8463), "the pod did not listen")
    with socket.create_server((cluster.addresses.machine, 0)) as listener:
        port = str(listener.getsockname()[1])
        call = ["nc", cluster.addresses.machine, port]
        run_pod(cluster, "client", {"image": BUSYBOX_IMAGE, "command": call})
        listener.settimeout(60)
        connection, (caller, _) = listener.accept()
        connection.close()
    assert caller == wait_for_phase(cluster, "client", "Succeeded")["podIP"]


def test_pods_reach_the_api_server_at_its_service_address(cluster: Cluster) -> None:
    call = ["sh", "-c", "nc $KUBERNETES_SERVICE_HOST 443 </dev/null"]
    run_pod(cluster, "dialer", {"image": BUSYBOX_IMAGE, "command": call})
    wait_for_phase(cluster, "dialer", "Succeeded")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_namespaces_end_with_the_process_that_made_them(
    tmp_path: Path, number: signal.Signals
) -> None:
    program = (
        "import sys, signal, pathlib; from tests.kubernetes.namespaces import Namespaces\n"
        "namespaces = Namespaces(pathlib.Path(sys.argv[1]), pathlib.Path())\n"
        "namespaces.create(outlives_caller=False)\n"
        "namespaces.start('sleeper', 'sleep', 'infinity')\n"
        "print('ready', flush=True); signal.pause()"
    )
    owner = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"ready\n"
    namespaces = Namespaces(tmp_path, tmp_path)
    assert namespaces.is_running("sleeper")
    owner.send_signal(number)
    owner.wait()
    owner.stdout.close()
    wait_for(lambda: namespaces.init_pid is None, "the namespaces outlived their owner")


def _connects(address: str, port: int) -> bool:
    try:
        socket.create_connection((address, port), 1).close()
    except OSError:
        return False
    return True
