"""Servers that send prepared bytes instead of being the service, with or without TLS."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from socket import create_server

import trustme

LINE = "\r\n"


def http(body: str, status: str = "200 OK", media_type: str = "application/json", *more: str):
    head = [f"HTTP/1.1 {status}", f"Content-Type: {media_type}", f"Content-Length: {len(body)}"]
    return LINE.join([*head, *more, "Connection: close", "", body]).encode()


Listen = Callable[..., int]


@contextmanager
def scripted_servers() -> Iterator[Listen]:
    """A function that starts a server, which gives one answer to each connection, and then the
    last one to all others; it returns the port."""
    servers, threads = [], []

    def start(*answers: bytes, tls: ssl.SSLContext | None = None) -> int:
        server = create_server(("127.0.0.1", 0))
        next_answers = chain(answers, repeat(answers[-1]))

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    try:
                        stream = tls.wrap_socket(connection, server_side=True) if tls else None
                        with stream or connection as each:
                            each.recv(65_536)
                            each.sendall(next(next_answers))
                    except OSError:
                        pass

        thread = threading.Thread(target=accept)
        thread.start()
        servers.append(server)
        threads.append(thread)
        return server.getsockname()[1]

    try:
        yield start
    finally:
        for server in servers:
            # Wakes the thread, which closing alone does not.
            server.shutdown(2)
            server.close()
        for thread in threads:
            thread.join()


def server_tls(authority: trustme.CA, name: str = "127.0.0.1", **options) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name, **options).configure_cert(context)
    return context
