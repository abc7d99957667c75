"""What an agent can do to the supervisor, which runs as the same user: nothing that ends it."""

from tests.support.supervisor import python, shell
from tests.support.supervisor_client import archive_of


def test_no_signal_of_the_agent_ends_the_supervisor(client):
    # Often: some would only arrive at the wrong moment. C libraries keep 32 to 34 for themselves.
    script = """if True:
        import os
        for number in [32, 33, 34] * 300 + list(range(1, 65)) * 20:
            os.kill(1, number)
        print("survived")
    """
    assert client.run(python(script))["exit_code"] == 0
    assert bytes(client.output) == b"survived\n"
    client.ping()


FORGED_SIGNALS = """if True:
    import ctypes, fcntl, os
    F_SETSIG = 10
    libc = ctypes.CDLL(None)
    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETOWN, 1)
    fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC)
    for number in [*range(1, 65)] * 3:
        libc.sigqueue(1, number, None)
        fcntl.fcntl(reader, F_SETSIG, number)
        os.write(writer, b"x")
        os.read(reader, 1)
    print("survived")
"""


def test_no_signal_with_a_forged_cause_ends_the_supervisor(client):
    """A Go program takes a SIGSEGV that no kill(2) sent for a fault of its own."""
    assert client.run(python(FORGED_SIGNALS))["exit_code"] == 0
    assert bytes(client.output) == b"survived\n"
    client.ping()


def test_the_agent_cannot_queue_signals_for_the_supervisor(client):
    """It would have to handle more than 100,000 of them before it answers its worker."""
    script = "grep ^SigIgn /proc/1/status | cut -f 2"
    assert client.run(shell(script))["exit_code"] == 0
    real_time = sum(1 << number - 1 for number in range(32, 65))
    assert int(client.output, 16) & real_time == real_time


def test_signals_have_their_default_meaning_for_the_agent(client):
    script = "grep -E '^Sig(Blk|Ign)' /proc/self/status | cut -f 2"
    assert client.run(shell(script))["exit_code"] == 0
    assert client.output.split() == [b"0" * 16] * 2


def test_memory_environment_and_descriptors_of_the_supervisor_are_hidden(client):
    script = """
        for file in environ mem maps smaps auxv task/1/environ fdinfo/0 fd/0; do
            cat /proc/1/$file > /dev/null 2>&1 && echo "read $file"
        done
        readlink /proc/1/fd/* /proc/1/cwd /proc/1/exe
        env | grep -c AGENTJOBS_SUPERVISOR
        exit 0
    """
    assert client.run(shell(script))["exit_code"] == 0
    assert bytes(client.output) == b"0\n"


def test_the_agent_cannot_take_resources_away_from_the_supervisor(client):
    script = """if True:
        import os, resource
        refused = 0
        threads = [int(name) for name in os.listdir("/proc/1/task")]
        for pid in threads:
            for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_CPU):
                try:
                    resource.prlimit(pid, kind, (0, 0))
                except PermissionError:
                    refused += 1
        print(refused == 3 * len(threads), resource.prlimit(0, resource.RLIMIT_NOFILE)[0] > 0)
    """
    assert client.run(python(script))["exit_code"] == 0
    assert bytes(client.output) == b"True True\n"


def test_the_agent_cannot_take_processor_time_away_from_the_supervisor(client):
    script = """if True:
        import os, threading
        lowest, none = os.sched_param(0), os.SCHED_IDLE
        threads = [int(name) for name in os.listdir("/proc/1/task")]
        attempts = [(os.setpriority, os.PRIO_USER, 0, 19), (os.setpriority, os.PRIO_PGRP, 1, 19)]
        for number in threads:
            attempts += [
                (os.setpriority, os.PRIO_PROCESS, number, 19),
                (os.sched_setscheduler, number, none, lowest),
                (os.sched_setparam, number, lowest),
                (os.sched_setaffinity, number, {0}),
            ]
        for action, *arguments in attempts:
            try:
                action(*arguments)
            except PermissionError:
                continue
            print("reached", action.__name__, arguments)
        for own in (0, os.getpid(), threading.get_native_id()):
            os.sched_setaffinity(own, os.sched_getaffinity(own))
            os.setpriority(os.PRIO_PROCESS, own, 19)
            os.sched_setscheduler(own, none, lowest)
        print(len(attempts) > 80)
    """
    assert client.run(python(script))["exit_code"] == 0, client.output
    assert bytes(client.output) == b"True\n"


def test_a_fork_bomb_is_killed_and_leaves_nothing(client, supervisor):
    script = """if True:
        import os
        print("up", flush=True)
        while True:
            try:
                os.fork()
            except OSError:
                pass
    """
    client.start(python(script, limits={"processes": 300}))
    client.wait_for_output(b"up")
    while len(supervisor.processes()) < 250:
        client.ping()
    client.send(type="kill")
    assert client.expect("ended")["exit_code"] is None
    assert supervisor.processes() == []


def test_processes_that_hide_from_their_group_are_killed(client, supervisor):
    """Stopped, traced by nobody, in other sessions, with every signal blocked or ignored."""
    script = """if True:
        import os, signal, time
        for kind in ("stopped", "ignores", "blocks", "orphan"):
            if os.fork():
                continue
            os.setsid()
            if kind == "ignores":
                for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
                    signal.signal(number, signal.SIG_IGN)
            if kind == "blocks":
                signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
            if kind == "orphan" and os.fork():
                os._exit(0)
            os.write(1, b".")
            if kind == "stopped":
                os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(1000)
        while True:
            time.sleep(1000)
    """
    client.start(python(script))
    client.wait_until(lambda: client.output.count(b".") == 4)
    client.send(type="kill")
    client.expect("ended")
    assert supervisor.processes() == []


def test_an_agent_that_connects_to_the_supervisor_gets_nothing(client):
    script = """if True:
        import socket
        sockets = [socket.create_connection(("127.0.0.1", 8463)) for _ in range(200)]
        for s in sockets:
            s.settimeout(0.01)
            try:
                s.sendall(b"\\0" * 100000)
            except OSError:
                pass
        print("done")
    """
    assert client.run(python(script))["exit_code"] == 0
    assert bytes(client.output) == b"done\n"


def test_floods_of_output_and_files_do_not_disturb_the_rest(client):
    client.upload(archive_of({"kept": b""}))
    script = """
        mkdir many; cd many
        seq -f 'file-%g' 20000 | xargs touch
        head -c 50000000 /dev/zero
    """
    assert client.run(shell(script))["exit_code"] == 0
    assert len(client.output) == 50_000_000
    assert len(client.download()) == 20_001
