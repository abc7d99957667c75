"""An interpreter for classic BPF programs, as the kernel runs them on a system call."""

import struct
from collections.abc import Sequence

_INSTRUCTION = struct.Struct("=HBBI")


def verdict(program: bytes, architecture: int, number: int, arguments: Sequence[int] = ()) -> int:
    """The action that the program returns. It must end and stay within its bounds."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=iIQ6Q", number, architecture, 0, *padded)
    instructions = list(_INSTRUCTION.iter_unpack(program))
    position, accumulator = 0, 0
    while True:
        code, if_true, if_false, value = instructions[position]
        position += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, value)
            case 0x54:
                accumulator &= value
            case 0x05:
                position += value
            case 0x15:
                position += if_true if accumulator == value else if_false
            case 0x25:
                position += if_true if accumulator > value else if_false
            case 0x35:
                position += if_true if accumulator >= value else if_false
            case 0x06:
                return value
            case _:
                raise AssertionError(f"unknown instruction {code:#x}")
