"""Client hellos as a real client sends them, and what a real server reads from them."""

import contextlib
import ssl


def client_hello(server_name: str | None, *, max_version: ssl.TLSVersion | None = None) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    if max_version is not None:
        context.maximum_version = max_version
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=server_name)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def name_read_by_server(data: bytes) -> str | None:
    """None if the server rejects the data, needs more, or is given no name."""
    names: list[str | None] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = lambda _object, name, _context: names.append(name)
    incoming = ssl.MemoryBIO()
    incoming.write(data)
    server = context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True)
    with contextlib.suppress(ssl.SSLError):
        server.do_handshake()
    return names[0] if names else None


def split_records(data: bytes, sizes: list[int]) -> bytes:
    """The same message in records of these sizes; the last one has the rest."""
    header, body = data[:3], data[5:]
    pieces = []
    for size in sizes:
        piece, body = body[:size], body[size:]
        pieces += [piece] if piece else []
    pieces += [body] if body else []
    return b"".join(header + len(piece).to_bytes(2) + piece for piece in pieces)


def with_extension(data: bytes, kind: int, content: bytes) -> bytes:
    """The message with one more extension at its end."""
    extension = kind.to_bytes(2) + len(content).to_bytes(2) + content
    body = data[9:]
    position = 34
    position += 1 + body[position]
    position += 2 + int.from_bytes(body[position : position + 2])
    position += 1 + body[position]
    length = int.from_bytes(body[position : position + 2]) + len(extension)
    body = body[:position] + length.to_bytes(2) + body[position + 2 :] + extension
    message = data[5:6] + len(body).to_bytes(3) + body
    return data[:3] + len(message).to_bytes(2) + message
