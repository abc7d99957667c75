"""The worker's connection: who may connect, what survives its loss, and what it carries."""

import socket
import time
from collections.abc import Callable

import pytest

from tests.support.supervisor import WAIT_SECONDS, python, running_supervisor, shell
from tests.support.supervisor_client import DATA, HEADER, MESSAGE, OUTPUT, archive_of

RING_BYTES = 1024 * 1024
# That the supervisor keeps open at the same time.
MAX_UNAUTHENTICATED = 32


@pytest.fixture(scope="module")
def shared_supervisor(tmp_path_factory):
    """With a running command."""
    with running_supervisor(tmp_path_factory.mktemp("shared")) as running:
        client = running.connect()
        client.start(shell("sleep 1000"))
        client.close()
        yield running


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_a_wrong_token_is_refused_and_the_right_one_still_works(supervisor):
    with pytest.raises(ConnectionResetError):
        supervisor.connect(token="wrong")
    client = supervisor.connect()
    assert (client.hello["version"], client.hello["state"]) == (2, "new")
    assert client.hello["architecture"] in ("x86_64", "aarch64")
    client.close()


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n" * 10,
        HEADER.pack(MESSAGE, 8 * 1024 * 1024),
        HEADER.pack(DATA, 4) + b"data",
        HEADER.pack(MESSAGE, 2) + b"[]",
        HEADER.pack(MESSAGE, 4) + b"null",
        HEADER.pack(200, 0),
    ],
)
def test_what_is_no_hello_closes_the_connection(shared_supervisor, data):
    connection = shared_supervisor.open_tls()
    connection.sendall(data)
    assert is_closed(connection)
    connection.close()


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (DATA, b"x"),
        (MESSAGE, b"not json"),
        (MESSAGE, b'{"type":"ack","offset":1000000000000}'),
        (OUTPUT, b"\0" * 9),
        (9, b""),
    ],
)
def test_a_protocol_error_ends_the_connection_and_not_the_run(shared_supervisor, kind, payload):
    client = shared_supervisor.connect()
    assert client.hello["state"] == "running"
    with pytest.raises(OSError):
        send_and_wait(client, kind, payload)
    client.close()
    again = shared_supervisor.connect()
    assert again.hello["state"] == "running"
    again.close()


def test_a_new_connection_replaces_the_old_one(supervisor, client):
    second = supervisor.connect()
    with pytest.raises(ConnectionResetError):
        client.expect("never")
    second.ping()
    second.close()


def test_a_stream_waits_for_its_reader_and_delays_no_other(client):
    script = """if True:
        import socket, time
        s = socket.create_server(("127.0.0.1", 9000))
        accepted = s.accept()
        time.sleep(1000)
    """
    client.start(python(script))
    wait_for_port(client, 9000)
    stream = client.open("connect", port=9000)
    stream.connection.settimeout(1)
    with pytest.raises(TimeoutError):
        stream.write(b"x" * (1 << 27))
    client.ping()
    stream.close()


def test_a_stream_of_an_earlier_connection_is_refused(supervisor):
    first = supervisor.connect()
    session = first.hello["session"]
    second = supervisor.connect()
    stream = second.open("upload", session=session, path="/workspace")
    assert is_closed(stream.connection)
    first.close()
    second.close()


def test_the_streams_of_a_connection_end_with_it(client, supervisor):
    script = """if True:
        import socket, time
        s = socket.create_server(("127.0.0.1", 9000))
        accepted = s.accept()
        time.sleep(1000)
    """
    client.start(python(script))
    wait_for_port(client, 9000)
    stream = client.open("connect", port=9000)
    second = supervisor.connect()
    assert is_closed(stream.connection)
    second.close()


def test_clients_without_a_token_do_not_keep_the_worker_out(supervisor):
    strangers = supervisor.open_sockets(MAX_UNAUTHENTICATED)
    supervisor.connect().close()
    for stranger in strangers:
        stranger.close()


def test_a_client_without_a_token_cannot_push_out_a_worker_that_connects(supervisor):
    worker = supervisor.open_socket()
    strangers = supervisor.open_sockets(MAX_UNAUTHENTICATED + 8, source="127.0.0.2")
    assert is_closed(strangers[0])
    supervisor.connect(opened=worker).close()
    for stranger in strangers:
        stranger.close()


def test_output_continues_after_a_reconnect_and_nothing_is_lost(supervisor):
    first = supervisor.connect()
    first.start(shell("echo one; until [ -e go ]; do sleep 0.01; done; echo two"))
    first.wait_for_output(b"one\n")
    first.close()
    (supervisor.workspace / "go").touch()
    second = supervisor.connect(output_from=4)
    ended = second.expect("ended")
    assert (ended["exit_code"], bytes(second.output)) == (0, b"two\n")
    second.close()
    third = supervisor.connect(output_from=4)
    assert third.hello["state"] == "ended"
    # The second connection has acknowledged it.
    assert third.expect("ended") == ended
    assert bytes(third.output) == b""
    third.close()


def test_an_agent_waits_while_its_output_is_not_acknowledged(supervisor):
    client = supervisor.connect(acknowledges=False)
    script = """if True:
        import os
        os.set_blocking(1, False)
        written = 0
        while not os.path.exists("go"):
            try:
                written += os.write(1, b"x" * 4096)
            except BlockingIOError:
                continue
        os.set_blocking(1, True)
        open("written", "w").write(str(written))
        print("end")
    """
    client.start(python(script))
    client.wait_until(lambda: len(client.output) >= RING_BYTES - 65_536)
    (supervisor.workspace / "go").touch()
    file = supervisor.workspace / "written"
    wait_for(lambda: file.exists() and file.read_text() != "")
    # What is kept and what a pipe holds, and no more.
    assert RING_BYTES - 65_536 <= int(file.read_text()) <= RING_BYTES + 2 * 65_536
    client.acknowledges = True
    client.acknowledge(len(client.output))
    assert client.expect("ended")["exit_code"] == 0
    assert client.output.endswith(b"xend\n")
    client.close()


def test_the_end_is_reported_though_nobody_reads_the_output(supervisor):
    client = supervisor.connect(acknowledges=False)
    client.start(shell("yes | head -c 3000000; echo more; sleep 1000"))
    client.wait_until(lambda: len(client.output) >= RING_BYTES - 65_536)
    client.send(type="kill")
    assert client.expect("ended")["exit_code"] is None
    client.close()


def test_an_agent_without_a_worker_is_killed(tmp_path):
    with running_supervisor(tmp_path, orphan_seconds=3) as supervisor:
        client = supervisor.connect()
        client.start(shell("trap '' TERM; echo up; while :; do sleep 1000; done"))
        while b"up" not in client.output:
            client.ping()
        assert supervisor.wait() != 0
        client.close()


def test_connections_of_the_agent_reach_the_worker_and_back(client):
    script = """if True:
        import socket
        s = socket.create_connection(("127.88.0.1", 3128))
        s.sendall(b"x" * 3_000_000)
        s.shutdown(socket.SHUT_WR)
        received = b""
        while part := s.recv(65536):
            received += part
        print(len(received), received[:5])
    """
    client.start(python(script, ports=[3128]))
    client.wait_until(lambda: client.ports)
    port = client.ports[0]
    assert (port["number"], port["address"]) == (3128, "127.88.0.1")
    stream = client.serve(port)
    assert len(stream.read_all()) == 3_000_000
    stream.write(b"hello" * 500_000)
    stream.end()
    assert client.expect("ended")["exit_code"] == 0
    assert bytes(client.output) == b"2500000 b'hello'\n"


def test_a_stream_that_the_worker_closes_ends_the_agents_connection(client):
    script = """if True:
        import socket
        s = socket.create_connection(("127.0.0.1", 3128))
        s.sendall(b"x")
        print("ended" if s.recv(1) == b"" else "data")
    """
    client.start(python(script, ports=[3128]))
    client.wait_until(lambda: client.ports)
    client.serve(client.ports[0]).close()
    assert client.expect("ended")["exit_code"] == 0
    assert bytes(client.output) == b"ended\n"


def test_a_connection_of_the_agent_waits_for_a_worker_that_reconnects(supervisor):
    first = supervisor.connect()
    script = """if True:
        import os, socket
        print("up", flush=True)
        while not os.path.exists("go"):
            pass
        s = socket.create_connection(("127.0.0.1", 3128))
        print("connected", flush=True)
        print(s.recv(10))
    """
    first.start(python(script, ports=[3128]))
    first.wait_for_output(b"up")
    first.close()
    (supervisor.workspace / "go").touch()
    second = supervisor.connect(output_from=3)
    second.wait_until(lambda: second.ports)
    second.serve(second.ports[0]).write(b"answer")
    assert second.expect("ended")["exit_code"] == 0
    assert b"answer" in second.output
    second.close()


def test_only_so_many_connections_of_the_agent_are_open_at_a_time(client):
    script = """if True:
        import select, socket
        sockets = [socket.create_connection(("127.0.0.1", 3128)) for _ in range(600)]
        print("up", flush=True)
        select.select(sockets, [], [])
    """
    client.start(python(script, ports=[3128]))
    client.wait_until(lambda: b"up" in client.output and len(client.ports) >= 512)
    client.ping()
    assert len(client.ports) == 512
    client.serve(client.ports[0]).close()
    assert client.expect("ended")["exit_code"] == 0


def test_the_worker_connects_to_a_port_inside(client):
    script = """if True:
        import socket
        server = socket.create_server(("127.0.0.1", 9000))
        server6 = socket.create_server(("::1", 9001), family=socket.AF_INET6)
        for s in (server, server6):
            connection, _ = s.accept()
            connection.sendall(connection.recv(100).upper())
            connection.close()
    """
    client.start(python(script, ports=[3128]))
    wait_for_port(client, 9001)
    assert client.request("list_ports")["ports"] == [9000, 9001]
    for port in (9000, 9001):
        stream = client.open("connect", port=port)
        stream.write(b"hello")
        stream.end()
        assert stream.read_all() == b"HELLO"
    assert client.expect("ended")["exit_code"] == 0


@pytest.mark.parametrize("port", [1, 0, 70_000, -1])
def test_a_port_that_nothing_listens_on_fails_the_stream(client, port):
    with pytest.raises(ConnectionResetError, match=r"refused|not a port"):
        client.open("connect", port=port).read_all()


def test_a_port_that_is_taken_is_said_before_the_start(client):
    with pytest.raises(RuntimeError, match="8463"):
        client.request("prepare", **shell("true", ports=[8463]))
    assert client.run(shell("true", ports=[3128]))["exit_code"] == 0


def test_programs_and_paths_inside_are_found(client):
    reply = client.request(
        "find_programs", names=["sh", "no-such", "../bin/sh"], path="/nowhere:/usr/bin"
    )
    assert reply["paths"]["sh"] == "/usr/bin/sh"
    assert "no-such" not in reply["paths"]
    assert client.request("exists", path="/run/agentjobs/report")["exists"] is True
    assert client.request("exists", path="/run/agentjobs/none")["exists"] is False


def test_dialed_addresses_tell_what_happened(client):
    addresses = ["127.0.0.1:8463", "127.0.0.1:1", "10.1.2.3:443", "nonsense"]
    dialed = client.request("dial", addresses=addresses, seconds=2)
    assert dialed["results"] == {
        "127.0.0.1:8463": "open",
        "127.0.0.1:1": "refused",
        "10.1.2.3:443": "unreachable",
        "nonsense": "unreachable",
    }


def test_requests_in_the_wrong_order_are_refused_in_words(client):
    with pytest.raises(RuntimeError, match="no command is prepared"):
        client.request("start")
    with pytest.raises(RuntimeError, match="empty"):
        client.request("prepare", **shell("true") | {"argv": []})
    with pytest.raises(RuntimeError, match="unknown message"):
        client.request("nonsense")
    client.start(shell("sleep 1000"))
    with pytest.raises(RuntimeError, match="already"):
        client.request("prepare", **shell("true"))
    with pytest.raises(ConnectionResetError, match="still running"):
        client.download()
    with pytest.raises(ConnectionResetError, match="unknown kind"):
        client.open("nonsense").read_all()


def test_kill_before_the_start_ends_the_run(client):
    client.upload(archive_of({"a": b"x"}))
    client.send(type="kill")
    ended = client.expect("ended")
    assert (ended["exit_code"], ended["exceeded"]) == (None, None)
    with pytest.raises(RuntimeError, match="no command is prepared"):
        client.request("start")


def send_and_wait(client, kind: int, payload: bytes) -> None:
    client.send_frame(kind, payload)
    client.expect("never")


def wait_for(is_reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_reached():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def wait_for_port(client, port: int) -> None:
    while port not in client.request("list_ports")["ports"]:
        pass
