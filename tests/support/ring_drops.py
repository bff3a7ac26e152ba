#!/usr/bin/env python3
"""Prints how many frames the packet sockets of a process had no room for since this was last asked.

usage: ring_drops.py PID

The kernel counts them per socket and starts again when asked (PACKET_STATISTICS, packet(7)). Needs pidfd_getfd(2) and root.
"""

import ctypes
import os
import socket
import struct
import sys

SYS_PIDFD_GETFD = 438
SOL_PACKET = 263
PACKET_STATISTICS = 6
SO_DOMAIN = 39


def dropped(fd):
    """What a descriptor's socket dropped; 0 if it is no packet socket."""
    with socket.socket(fileno=fd) as sock:
        if sock.getsockopt(socket.SOL_SOCKET, SO_DOMAIN) != socket.AF_PACKET:
            return 0
        # struct tpacket_stats, or the longer one of TPACKET_V3: packets, drops.
        return struct.unpack_from("II", sock.getsockopt(SOL_PACKET, PACKET_STATISTICS, 12))[1]


def main():
    pid = int(sys.argv[1])
    process = os.pidfd_open(pid)
    libc = ctypes.CDLL(None, use_errno=True)
    total = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            is_socket = os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:")
        except FileNotFoundError:
            continue
        if not is_socket:
            continue
        fd = libc.syscall(SYS_PIDFD_GETFD, process, int(name), 0)
        if fd < 0:
            sys.exit(f"pidfd_getfd: {os.strerror(ctypes.get_errno())}")
        total += dropped(fd)
    print(total)


main()
