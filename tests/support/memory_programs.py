"""Programs that allocate memory which belongs to no process."""

# Their exit code if they may not allocate it.
IS_REFUSED = 7
PREFIX = """
import ctypes, errno, os, resource, socket, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def refused(number):
    if number in (errno.ENOSYS, errno.EPERM):
        sys.exit(7)
def hold():
    print("holding", flush=True)
    time.sleep(1000)
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
"""

# Each allocates far more than the limit of 100 MiB.
SEMAPHORES = """
for _ in range(200):
    if libc.semget(0, 32000, 0o1600) < 0:
        refused(ctypes.get_errno())
hold()
"""
MESSAGES = """
message = ctypes.create_string_buffer((1).to_bytes(8, "little") + bytes(8192))
for _ in range(16000):
    queue = libc.msgget(0, 0o1600)
    if queue < 0:
        refused(ctypes.get_errno())
    for _ in range(2):
        libc.msgsnd(queue, message, 8192, 0o4000)
hold()
"""
SHARED_SEGMENTS = """
libc.shmat.restype = ctypes.c_void_p
for _ in range(4000):
    segment = libc.shmget(0, 65536, 0o1600)
    if segment < 0:
        refused(ctypes.get_errno())
    address = libc.shmat(segment, None, 0)
    ctypes.memset(address, 1, 65536)
    libc.shmdt(ctypes.c_void_p(address))
hold()
"""
STREAM_SOCKETS = """
pairs = []
for _ in range(1000):
    left, right = socket.socketpair()
    left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 22)
    left.setblocking(False)
    pairs.append(right)
    try:
        while True:
            left.send(bytes(65536))
    except BlockingIOError:
        pass
hold()
"""
DATAGRAM_SOCKETS = """
receivers = []
for number in range(300):
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind(f"\\0{number}")
    receivers.append(receiver)
    for _ in range(11):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            try:
                sender.sendto(bytes(200000), f"\\0{number}")
            except BlockingIOError:
                pass
hold()
"""
UDP_SOCKETS = """
receivers = []
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(4000):
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    receiver.bind(("127.0.0.1", 0))
    receivers.append(receiver)
    for _ in range(4):
        sender.sendto(bytes(50000), receiver.getsockname())
hold()
"""
TCP_SOCKETS = """
server = socket.create_server(("127.0.0.1", 0), backlog=1000)
pairs = []
for _ in range(500):
    client = socket.create_connection(server.getsockname())
    client.setblocking(False)
    pairs.append((client, server.accept()[0]))
    try:
        while True:
            client.send(bytes(65536))
    except BlockingIOError:
        pass
hold()
"""
PIPES = """
pipes = []
for _ in range(12):
    if os.fork() == 0:
        for _ in range((hard - 20) // 2):
            reader, writer = os.pipe()
            os.set_blocking(writer, False)
            try:
                os.write(writer, bytes(8192))
            except BlockingIOError:
                pass
        hold()
hold()
"""
PAGE_TABLES = """
import mmap
size = 200 << 30
libc.mmap.restype = ctypes.c_void_p
address = libc.mmap(None, ctypes.c_size_t(size), 1, 0x4022, -1, 0)
libc.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), 15)
for offset in range(0, size, 2 << 20):
    ctypes.c_char.from_address(address + offset).value
hold()
"""
EXITED_LEADER = """
def allocate():
    while " Z " not in open("/proc/self/stat").read():
        pass
    held = bytearray(300 << 20)
    hold()
threading.Thread(target=allocate).start()
libc.syscall({"x86_64": 60}.get(os.uname().machine, 93), 0)
"""
