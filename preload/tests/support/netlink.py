import ctypes, errno, os, select, socket, struct, sys

GENERIC, SOL_NETLINK = 16, 270
ACK, DUMP, CREATE = 4, 0x300, 0x400
IDS = {"ovpn-dco-v2": 0x31, "ovpn": 0x32}

def expect(got, wanted):
    assert got == wanted, f"{got!r:.300} instead of {wanted!r:.300}"

def fails(number, call, *args):
    try:
        got = call(*args)
    except OSError as error:
        expect(errno.errorcode[error.errno], errno.errorcode[number])
    else:
        raise AssertionError(f"{got!r} instead of {errno.errorcode[number]}")

def say(line="ready"):
    print(line, flush=True)

def hear():
    return sys.stdin.readline().strip()

def ours(s):
    """Whether a socket is a connection to the gateway: its link in /proc tells no family, SO_DOMAIN does."""
    return s.getsockopt(socket.SOL_SOCKET, 39) == socket.AF_UNIX

def generic(blocking=True):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, GENERIC)
    s.setblocking(blocking)
    s.bind((0, 0))
    return s

def route():
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    s.bind((0, 0))
    return s

def attribute(kind, payload):
    return struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(-len(payload) % 4)

def message(kind, flags, seq, payload=b"", pid=0):
    return struct.pack("=IHHII", 16 + len(payload), kind, 1 | flags, seq, pid) + payload

def header(data):
    return dict(zip(("len", "kind", "flags", "seq", "pid"), struct.unpack("=IHHII", data[:16])))

def send(s, data, flags=0):
    expect(s.sendmsg([data[:7], data[7:]], [], flags, (0, 0)), len(data))

def receive(s, size=65536, flags=0):
    data, control, flags, name = s.recvmsg(size, 64, flags)
    expect((control, name), ([], (0, 0)))
    return data, flags

def read(s):
    """As libnl does: the length first."""
    data, _ = receive(s, 4096, socket.MSG_PEEK | socket.MSG_TRUNC)
    again, _ = receive(s)
    expect(again[:4096], data)
    return data

def ask(s, data):
    """A request and all of its answer."""
    send(s, data)
    answers = []
    while True:
        rest = read(s)
        while rest:
            got = header(rest)
            expect(got["seq"], header(data)["seq"])
            answers.append(rest[:got["len"]])
            # The kernel puts several into one.
            rest = rest[got["len"] + -got["len"] % 4:]
        if got["kind"] in (2, 3):
            return answers

def family(s, name, seq=1):
    data = struct.pack("=BBH", 3, 1, 0) + attribute(2, name.encode() + b"\0")
    answers = ask(s, message(16, ACK, seq, data))
    expect([header(a)["kind"] for a in answers], [16, 2])

def new_peer(name, peer, fd, seq):
    ident = attribute(1, struct.pack("=I", peer))
    number = attribute(6 if name == "ovpn" else 3, struct.pack("=I", fd))
    body = attribute(1, struct.pack("=I", 7)) + attribute(0x8002, ident + number)
    return message(IDS[name], ACK, seq, struct.pack("=BBH", 1, 1, 0) + body)

def command(number, seq, flags=ACK):
    return message(0x31, flags, seq, struct.pack("=BBH", number, 1, 0) + attribute(1, struct.pack("=I", 7)))

def link(kind, flags, seq, name=None):
    body = struct.pack("=BBHiII", 0x11, 0, 0, 0 if name else 7, 0, 0)
    return message(kind, flags, seq, body + (attribute(3, name.encode() + b"\0") if name else b""))
