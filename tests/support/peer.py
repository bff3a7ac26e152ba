#!/usr/bin/env python3
"""Opens every DATA_V2 record of a capture, with an implementation that shares nothing with the program.

usage: peer.py KEYS.json CAPTURE.pcap

CAPTURE is a classic pcap file with Ethernet frames (802.1Q tags are passed over), KEYS a keys file. Records to an address in
"listen" are opened with the "decrypt" keys, records from one with the "encrypt" keys; fragments are put together first.
Needs Debian's python3-cryptography and nothing else besides Python.

Prints a JSON object:

  records      how many DATA_V2 records there were
  failures     how many of them did not open: unknown peer or key, too short, wrong tag; "first_failures" says some
  duplicates   how many packet ids of a key and direction were seen before
  backwards    how many packet ids of a key and direction were below the one before
  incomplete   how many datagrams lacked a fragment at the end
  ids          per direction and "peer/key id": count, min, max
  keepalives   per direction and peer: how many
  inner        per direction and peer: packets, and SHA-256 over the inner packets in order of their datagrams' last frames,
               each preceded by its length as a 32-bit big-endian number; keepalives are left out
"""

import hashlib
import ipaddress
import json
import struct
import sys

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

PING = bytes.fromhex("2a187bf3641eb4cb07ed2d0a981fc748")
DATA_V2 = 9
UDP = 17
FRAGMENT = 44
# Names of ciphers, with the length of the key where one name stands for several.
CIPHERS = {
    "AES-128-GCM": (AESGCM, 16),
    "AES-192-GCM": (AESGCM, 24),
    "AES-256-GCM": (AESGCM, 32),
    "CHACHA20-POLY1305": (ChaCha20Poly1305, 32),
}


def frames_of(path):
    """The frames of a classic pcap file in either byte order, microseconds or nanoseconds."""
    with open(path, "rb") as file:
        data = file.read()
    order = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">", b"\xa1\xb2\x3c\x4d": ">"}
    if data[:4] not in order:
        sys.exit(f"peer.py: {path} is no classic pcap file")
    order = order[data[:4]]
    if struct.unpack_from(order + "I", data, 20)[0] & 0xFFFF != 1:
        sys.exit(f"peer.py: {path} holds no Ethernet frames")
    header = struct.Struct(order + "IIII")
    at = 24
    while at < len(data):
        _, _, captured, length = header.unpack_from(data, at)
        at += 16
        if captured != length or at + captured > len(data):
            sys.exit(f"peer.py: {path}: a frame is cut short")
        yield data[at:at + captured]
        at += captured


def packet_of(frame):
    """(source, destination, fragment identification or None, offset, more, payload) of a frame with UDP, else None."""
    at = 12
    while frame[at:at + 2] in (b"\x81\x00", b"\x88\xa8"):
        at += 4
    kind, ip = frame[at:at + 2], frame[at + 2:]
    if kind == b"\x08\x00" and len(ip) >= 20 and ip[9] == UDP:
        header, total = (ip[0] & 15) * 4, int.from_bytes(ip[2:4], "big")
        word = int.from_bytes(ip[6:8], "big")
        offset, more = (word & 0x1FFF) * 8, bool(word & 0x2000)
        identification = int.from_bytes(ip[4:6], "big") if offset or more else None
        return ip[12:16], ip[16:20], identification, offset, more, ip[header:total]
    if kind == b"\x86\xdd" and len(ip) >= 40:
        payload = ip[40:40 + int.from_bytes(ip[4:6], "big")]
        if ip[6] == UDP:
            return ip[8:24], ip[24:40], None, 0, False, payload
        if ip[6] == FRAGMENT and len(payload) >= 8 and payload[0] == UDP:
            word = int.from_bytes(payload[2:4], "big")
            return ip[8:24], ip[24:40], int.from_bytes(payload[4:8], "big"), word & 0xFFF8, bool(word & 1), payload[8:]
    return None


class Fragments:
    """Datagrams that are not whole yet."""

    def __init__(self):
        self.pieces = {}

    def add(self, key, offset, more, payload):
        """The datagram if this fragment was the last that it lacked, else None."""
        pieces = self.pieces.setdefault(key, {})
        pieces[offset] = (more, payload)
        datagram, more = b"", True
        while more:
            if len(datagram) not in pieces:
                return None
            more, payload = pieces[len(datagram)]
            if not payload:
                return None
            datagram += payload
        del self.pieces[key]
        return datagram


def datagrams_of(path, fragments):
    """(source, destination, UDP header and payload) of each datagram."""
    for frame in frames_of(path):
        packet = packet_of(frame)
        if packet is None:
            continue
        source, destination, identification, offset, more, payload = packet
        if identification is not None:
            payload = fragments.add((source, destination, identification), offset, more, payload)
            if payload is None:
                continue
        yield source, destination, payload


def endpoint(text):
    address, port = text.rsplit(":", 1)
    return ipaddress.ip_address(address.strip("[]")).packed, int(port)


class Records:
    """Opens records and keeps count."""

    def __init__(self, keys_file):
        listen = keys_file.get("listen", [])
        self.listen = {endpoint(text) for text in ([listen] if isinstance(listen, str) else listen)}
        self.keys = {}
        for entry in keys_file["keys"]:
            make, length = CIPHERS[entry["cipher"].upper()]
            for direction in ("encrypt", "decrypt"):
                key, tail = (bytes.fromhex(entry[direction][name]) for name in ("key", "nonce_tail"))
                if len(key) != length or len(tail) != 8:
                    sys.exit(f"peer.py: peer {entry['peer_id']}: key material of a wrong length")
                # Of two keys with one id the first installed is the primary one.
                self.keys.setdefault((direction, entry["peer_id"], entry["key_id"]), (make(key), tail))
        self.records = self.failures = self.duplicates = self.backwards = 0
        self.first_failures = []
        self.ids = {}
        self.keepalives = {}
        self.inner = {}

    def failed(self, why):
        self.failures += 1
        if len(self.first_failures) < 5:
            self.first_failures.append(why)

    def datagram(self, source, destination, datagram):
        if len(datagram) < 12:
            return
        ports = struct.unpack_from(">HH", datagram)
        if (destination, ports[1]) in self.listen:
            direction = "decrypt"
        elif (source, ports[0]) in self.listen:
            direction = "encrypt"
        else:
            return
        record = datagram[8:int.from_bytes(datagram[4:6], "big")]
        if record and record[0] >> 3 == DATA_V2:
            self.records += 1
            self.record(direction, record)

    def record(self, direction, record):
        if len(record) < 24:
            return self.failed(f"{direction}: a record of {len(record)} bytes")
        key_id, peer, number = record[0] & 7, int.from_bytes(record[1:4], "big"), int.from_bytes(record[4:8], "big")
        name = f"{direction} peer {peer} key {key_id} id {number}"
        key = self.keys.get((direction, peer, key_id))
        if key is None:
            return self.failed(f"{name}: no such key")
        cipher, tail = key
        try:
            # The tag stands before the ciphertext; the library expects it behind.
            plain = cipher.decrypt(record[4:8] + tail, record[24:] + record[8:24], record[:8])
        except InvalidTag:
            return self.failed(f"{name}: wrong tag")
        seen = self.ids.setdefault((direction, f"{peer}/{key_id}"), {"last": 0, "all": set()})
        if number in seen["all"]:
            self.duplicates += 1
        elif number < seen["last"]:
            self.backwards += 1
        seen["all"].add(number)
        seen["last"] = number
        if plain == PING:
            of_direction = self.keepalives.setdefault(direction, {})
            of_direction[peer] = of_direction.get(peer, 0) + 1
            return
        entry = self.inner.setdefault((direction, peer), [0, hashlib.sha256()])
        entry[0] += 1
        entry[1].update(struct.pack(">I", len(plain)))
        entry[1].update(plain)

    def report(self, incomplete):
        ids, inner = {}, {}
        for (direction, name), seen in self.ids.items():
            numbers = seen["all"]
            ids.setdefault(direction, {})[name] = {"count": len(numbers), "min": min(numbers), "max": max(numbers)}
        for (direction, peer), (packets, digest) in self.inner.items():
            inner.setdefault(direction, {})[peer] = {"packets": packets, "sha256": digest.hexdigest()}
        return {
            "records": self.records, "failures": self.failures, "first_failures": self.first_failures,
            "duplicates": self.duplicates, "backwards": self.backwards, "incomplete": incomplete,
            "ids": ids, "keepalives": self.keepalives, "inner": inner,
        }


def main(arguments):
    if len(arguments) != 2 or arguments[0].startswith("-"):
        print(__doc__.strip())
        return 0 if arguments in (["--help"], ["-h"]) else 2
    with open(arguments[0], encoding="utf-8") as file:
        records = Records(json.load(file))
    fragments = Fragments()
    for datagram in datagrams_of(arguments[1], fragments):
        records.datagram(*datagram)
    print(json.dumps(records.report(len(fragments.pieces))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
