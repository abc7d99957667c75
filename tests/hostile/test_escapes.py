"""Agents that try to escape: to the network, the service, its store, other jobs, the kernel."""

import platform
import socket
from urllib.parse import urlsplit

from agentjobs_worker.sandbox.syscalls import ARCHITECTURES
from tests.support.hostile_service import FinishedJob, HostileService

# Each of these would lead out of a namespace, into another process, or into the kernel.
CALLS = (
    *("mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "fsopen", "open_tree"),
    *("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp"),
    *("keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd"),
    *("io_uring_setup", "open_by_handle_at", "init_module", "kexec_load", "swapon", "syslog"),
)


def refusals(
    finished: FinishedJob, minimum: int, harmless: frozenset[str] = frozenset()
) -> dict[str, str]:
    """How each attempt was refused, by name; fails if one succeeded, except `harmless` ones."""
    assert finished.outcome == "completed", (finished.job, finished.log)
    lines = (line.partition(": ") for line in finished.log.splitlines())
    results = {name: text for name, _, text in lines if text.startswith(("refused", "REACHED"))}
    reached = {name: text for name, text in results.items() if "REACHED" in text}
    assert {name: text for name, text in reached.items() if name not in harmless} == {}
    assert len(results) >= minimum, results
    return results


def port_of(hostile: HostileService) -> int:
    port = urlsplit(hostile.service.base_url).port
    assert port is not None
    return port


def own_address() -> str:
    """The address of this machine on the network, found without sending anything."""
    with socket.socket(type=socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "192.0.2.1"
        return str(probe.getsockname()[0])


def test_there_is_no_network(hostile: HostileService) -> None:
    finished = hostile.python(
        """
        def dial(host, port, family=socket.AF_INET):
            with socket.socket(family) as connection:
                connection.settimeout(5)
                connection.connect((host, port))

        hosts = ("169.254.169.254", "127.0.0.1", "0.0.0.0", "10.0.0.1", "8.8.8.8", given["own"])
        for host in hosts:
            for port in (80, given["port"]):
                probe(f"{host} port {port}", lambda: dial(host, port))
        for host in ("fd00:ec2::254", "::1", "::ffff:169.254.169.254"):
            probe(f"[{host}]", lambda: dial(host, given["port"], socket.AF_INET6))
        datagrams = socket.socket(type=socket.SOCK_DGRAM)
        probe("a datagram", lambda: datagrams.sendto(b"x", ("8.8.8.8", 53)))
        probe("names", lambda: socket.getaddrinfo("metadata.google.internal", 80))
        for family in ("AF_PACKET", "AF_VSOCK", "AF_ALG"):
            probe(family, lambda: socket.socket(getattr(socket, family), socket.SOCK_DGRAM))
        probe("a raw socket", lambda: socket.socket(type=socket.SOCK_RAW, proto=1))
        print("interfaces", [name for _, name in socket.if_nameindex()])
        change()
        """,
        port=port_of(hostile),
        own=own_address(),
    )
    refusals(finished, minimum=20)
    assert "interfaces ['lo']" in finished.log


def test_an_allow_list_allows_no_other_host(hostile: HostileService) -> None:
    finished = hostile.python(
        """
        proxy = os.environ["HTTPS_PROXY"].removeprefix("http://").rpartition(":")

        def ask(request):
            with socket.create_connection((proxy[0], int(proxy[2])), 10) as connection:
                connection.sendall(request.encode() + b"\\r\\n\\r\\n")
                answer = connection.makefile("rb").read().decode()
            status = int(answer.split()[1])
            if status not in (400, 403):
                return answer
            raise OSError(f"status {status}")

        api = f"127.0.0.1:{given['port']}"
        for target in (api, f"localhost:{given['port']}", "169.254.169.254:80",
                "169.254.169.254:81",
                "[::ffff:169.254.169.254]:80", "2852039166:80", "0xa9fea9fe:80", "0:80",
                "metadata.google.internal:80", "example.com:443", "x.example.com:22",
                "x.example.com.evil.test:443", "x.example.com@169.254.169.254:443"):
            probe(f"CONNECT {target}", lambda: ask(f"CONNECT {target} HTTP/1.1"))
        for url in ("http://169.254.169.254/latest/meta-data/", f"http://{api}/v1/jobs",
                f"http://x.example.com@{api}/", "/v1/jobs", "file:///etc/passwd"):
            probe(f"GET {url}", lambda: ask(f"GET {url} HTTP/1.1\\r\\nHost: x.example.com"))
        for port in (80, given["port"]):
            probe(f"past it {port}", lambda: socket.create_connection(("127.0.0.1", port), 5))
        change()
        """,
        agent="online",
        port=port_of(hostile),
    )
    results = refusals(finished, minimum=20)
    assert results["CONNECT 169.254.169.254:81"] == "refused, status 403"
    assert "169.254.169.254:80 is not in this agent's network list" in finished.log
    assert "AGENTJOBS_EGRESS_ALLOW" in finished.log


def test_nothing_of_the_service_can_be_read(hostile: HostileService) -> None:
    assert hostile.service.process is not None
    finished = hostile.python(
        """
        home, pid = Path(given["data_dir"]), given["pid"]
        probe("its directory", lambda: os.listdir(home))
        for name in ("agentjobs.db", "agentjobs.toml", "git", "mirrors", "workspaces"):
            probe(f"its {name}", lambda: os.stat(home / name))
        probe("its temporary directory", lambda: os.listdir(given["outside"]))
        probe("its process", lambda: os.listdir(f"/proc/{pid}"))
        probe("a signal to it", lambda: os.kill(pid, 0))
        for path in ("/etc/shadow", "/etc/ssh", "/root", "/var/lib", "/var/run", "/sys/class",
                "/dev/sda", "/dev/vda", "/dev/mem", "/dev/kmsg", "/proc/kcore"):
            probe(path, lambda: os.close(os.open(path, os.O_RDONLY)))
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        command_lines = b"".join(Path(f"/proc/{one}/cmdline").read_bytes() for one in pids)
        print("processes:", len(pids), "the service:", str(home).encode() in command_lines)
        print("variable:", "OF_THE_SERVICE" in os.environ)
        print("descriptors:", sorted(set(os.listdir("/proc/self/fd")) - {"0", "1", "2"})[1:])
        change()
        """,
        data_dir=str(hostile.service.data_dir),
        outside=str(hostile.outside),
        pid=hostile.service.process.pid,
    )
    refusals(finished, minimum=20, harmless=hostile.sandbox.harmless)
    assert "the service: False" in finished.log
    assert "variable: False" in finished.log
    assert "descriptors: []" in finished.log


def test_nothing_of_the_machine_can_be_written(hostile: HostileService) -> None:
    finished = hostile.python(
        """
        actor = sys.argv[0]
        for path in ("/x", "/usr/bin/x", "/usr/bin/env", "/bin/sh", "/lib/x", "/etc/passwd",
                "/etc/x", "/etc/ssl/x", "/run/x", "/run/agentjobs/x", "/run/agentjobs/job.json",
                "/dev/x", "/home/x", "/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern",
                "/proc/sysrq-trigger", actor):
            probe(f"write {path}", lambda: os.close(os.open(path, os.O_WRONLY | os.O_CREAT)))
        probe("remove the script", lambda: os.unlink(actor))
        probe("a second name", lambda: os.link("/usr/bin/env", "env"))
        probe("a second name of the facts", lambda: os.link("/run/agentjobs/job.json", "job"))
        probe("another owner", lambda: os.chown("app.py", 0, 0) if os.getuid() else None)
        probe("a device", lambda: os.mknod("memory", stat.S_IFCHR | 0o666, os.makedev(1, 1)))
        change()
        """
    )
    refusals(finished, minimum=22, harmless=hostile.sandbox.harmless)


def test_dangerous_kernel_features_are_refused(hostile: HostileService) -> None:
    numbers = ARCHITECTURES[platform.machine()].numbers
    finished = hostile.python(
        """
        for name, number in given["calls"].items():
            first = 0x10000000 if name == "unshare" else 0
            probe(name, lambda: call("syscall", number, first, 0, 0, 0, 0))
        probe("become root", lambda: os.setuid(0) if os.getuid() else call("setns", -1, 0))
        probe("groups", lambda: os.setgroups([0]))
        probe("priority", lambda: os.nice(-5))
        probe("limits", lambda: resource.setrlimit(7, (1 << 24, 1 << 24)))
        print(Path("/proc/self/status").read_text())
        for command in (["unshare", "-Ur", "true"], ["bwrap", "--ro-bind", "/", "/", "true"],
                ["mount", "-t", "tmpfs", "x", "/tmp"], ["su", "-c", "true"]):
            try:
                done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL)
            except FileNotFoundError:
                continue
            print(command[0], "came", "through" if done.returncode == 0 else "to nothing")
        change()
        """,
        calls={name: numbers[name] for name in CALLS},
    )
    results = refusals(finished, minimum=len(CALLS) + 4)
    assert {results[name] for name in CALLS} <= {"refused, EPERM", "refused, ENOSYS"}
    for line in ("CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"):
        assert line in finished.log
    assert "Seccomp:\t2" in finished.log
    assert "came through" not in finished.log


def test_another_jobs_workspace_and_processes_are_invisible(hostile: HostileService) -> None:
    quiet = hostile.start(
        python="""
Path("of-another-job.txt").write_text("secret")
for place in ("/tmp", "/dev/shm", os.environ["HOME"]):
    Path(place, "of-another-job.txt").write_text("secret")
listener = socket.socket(socket.AF_UNIX); listener.bind("\\0of-another-job"); listener.listen()
server = socket.create_server(("127.0.0.1", 4711))
shared = call("shmget", 4711, 4096, 0o1666)
print("up", flush=True)
os.execvp("sleep", ["sleep", "600"])
"""
    )
    hostile.wait_for_output(quiet, "up")
    observer = hostile.start(
        python="""
name = "of-another-job.txt"
found = [top for top, _, files in os.walk("/") if name in files]
print("found in", found)
print("sleepers", [path for path in Path("/proc").glob("[0-9]*/cmdline")
    if path.read_bytes().startswith(b"sleep")])
with socket.socket(socket.AF_UNIX) as caller:
    probe("its socket", lambda: caller.connect("\\0of-another-job"))
probe("its port", lambda: socket.create_connection(("127.0.0.1", 4711), 5))
probe("its shared memory", lambda: call("shmget", 4711, 0, 0))
for pid in range(3, 2000):
    try:
        if pid != os.getpid():
            os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
change()
"""
    )
    job = hostile.api.wait_status(observer, "completed", "failed")
    log = hostile.api.log(observer)
    assert hostile.api.job(quiet)["status"] == "running"
    hostile.api.http.post(f"/jobs/{quiet}/cancel")
    hostile.end(quiet)
    assert "found in []" in log
    assert "sleepers []" in log
    refusals(FinishedJob(job, log, None), minimum=3)
