"""The server name in the first message of a TLS handshake."""

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentjobs_runtime.outbound.egress.client_hello import (
    MAX_BYTES,
    MAX_RECORDS,
    ClientHello,
    ClientHelloError,
    read_client_hello,
)
from tests.support.tls_hello import (
    client_hello,
    name_read_by_server,
    split_records,
    with_extension,
)

HELLO = client_hello("models.example")
ECH = 0xFE0D
SERVER_NAME = 0


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", ["models.example", "A.b-c.example", None])
def test_the_name_of_a_real_client_is_read(version: ssl.TLSVersion, name: str | None) -> None:
    hello = client_hello(name, max_version=version)

    assert read_client_hello(hello) == (ClientHello(name), len(hello))
    assert read_client_hello(hello + b"later") == (ClientHello(name), len(hello))


@given(st.lists(st.integers(1, 600), max_size=MAX_RECORDS - 1), st.data())
def test_a_message_may_be_split_into_records_and_arrive_in_parts(
    sizes: list[int], data: st.DataObject
) -> None:
    split = split_records(HELLO, sizes)
    end = data.draw(st.integers(0, len(split) - 1))

    assert read_client_hello(split) == (ClientHello("models.example"), len(split))
    assert read_client_hello(split[:end]) is None


@given(st.lists(st.tuples(st.integers(0, len(HELLO) - 1), st.integers(0, 255)), max_size=4))
def test_a_changed_message_is_refused_or_read_as_a_server_reads_it(
    changes: list[tuple[int, int]],
) -> None:
    changed = bytearray(HELLO)
    for position, value in changes:
        changed[position] = value
    _check_like_a_server(bytes(changed))


@given(
    st.lists(
        st.tuples(
            st.sampled_from([SERVER_NAME, 10, 16, 43, 51, ECH]),
            st.binary(max_size=30)
            | st.builds(
                lambda name: (
                    (len(name) + 3).to_bytes(2) + b"\0" + len(name).to_bytes(2) + name.encode()
                ),
                st.sampled_from(["evil.example", "models.example", ""]),
            ),
        ),
        max_size=3,
    )
)
def test_added_extensions_do_not_change_the_name_that_a_server_reads(
    extensions: list[tuple[int, bytes]],
) -> None:
    changed = client_hello(None)
    for kind, content in extensions:
        changed = with_extension(changed, kind, content)
    _check_like_a_server(changed)


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda data: b"\x16\x03\x01" + data))
def test_any_bytes_are_refused_incomplete_or_read_as_a_server_reads_them(data: bytes) -> None:
    _check_like_a_server(data)


def _check_like_a_server(data: bytes) -> None:
    try:
        parsed = read_client_hello(data)
    except ClientHelloError:
        return
    name = name_read_by_server(data)
    if parsed is None:
        assert name is None
    elif name is not None:
        assert parsed[0].server_name == name


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GET / HTTP/1.1\r\n", "not TLS"),
        (b"\x80\x2e\x01\x00\x02", "not TLS"),
        (b"\x16\x02\x00\x00\x05", "not TLS"),
        (b"\x15\x03\x01\x00\x02\x01\x00", "not TLS"),
        (b"\x16\x03\x01\x00\x00", "malformed"),
        (b"\x16\x03\x01\x40\x01", "malformed"),
        (b"\x16\x03\x01\x00\x04\x02\x00\x00\x00", "malformed"),
        (b"\x16\x03\x01\x00\x04\x01\xff\xff\xff", "too long"),
        (with_extension(HELLO, ECH, b"x"), "ECH"),
        (with_extension(HELLO, 0xFFCE, b"x"), "ECH"),
        (with_extension(HELLO, 42, b""), "early data"),
        (with_extension(HELLO, SERVER_NAME, b"\0\4\0\0\1a"), "malformed"),
        (with_extension(client_hello(None), SERVER_NAME, b"\0\x08\0\0\1a\0\0\1b"), "malformed"),
        (with_extension(client_hello(None), SERVER_NAME, b"\0\5\1\0\2ab"), "malformed"),
        (with_extension(client_hello(None), SERVER_NAME, b"\0\4\0\0\1\xe4"), "malformed"),
        (split_records(HELLO, [1] * MAX_RECORDS), "too many records"),
        (HELLO[:5] + HELLO[5:9] + bytes(len(HELLO) - 9), "malformed"),
    ],
)
def test_other_messages_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(ClientHelloError, match=message):
        read_client_hello(data)


def test_a_message_is_bounded_while_it_arrives() -> None:
    record = b"\x16\x03\x01\x40\x00"
    length = (MAX_BYTES - 4).to_bytes(3)
    data = record + b"\x01" + length + bytes(2**14 - 4) + record + bytes(2**14)

    assert read_client_hello(data[: MAX_BYTES // 2]) is None
    with pytest.raises(ClientHelloError):
        read_client_hello(data)
