# SPDX-License-Identifier: Apache-2.0
"""Messages as they travel, for peers that are no clients: what wire.h says, as far as tests need it.

    s = connect(c.address)         # a stranger
    s = hello(c.address)           # it has said hello, and was let in
    s.sendall(control("{...}"))
"""
import functools
import resource
import socket
import struct

from libcluster import CLUSTER_ID, WAIT_S, check

MAGIC, VERSION = 0x45564C43, 1
HELLO, READ, CONTROL, REPLY = 0x01, 0x11, 0x20, 0x80
CLIENT, GATEWAY = 1, 2
HEADER_BYTES, HELLO_BYTES = 64, 56

_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (0x82F63B78 if _byte & 1 else 0)
    _TABLE.append(_byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def message(opcode, payload=b"", request_id=1, object_id=0, length_bytes=0, epoch=0):
    head = struct.pack("<IBBBBQQQIIIIHHHHI", MAGIC, VERSION, opcode, 0, 0, request_id, object_id, 0,
                       length_bytes, len(payload), epoch, 0, 0, 0, 0, 0, 0)
    return head + struct.pack("<I", crc32c(head)) + payload


def control(text, request_id=1):
    return message(CONTROL, text.encode(), request_id)


@functools.cache
def hello_message(role=CLIENT, cluster_id=0, volume_id=0, session_id=0, attach=0, incarnation=0):
    return message(HELLO, struct.pack("<IBBHIIQQQQQ", MAGIC, VERSION, role, 0, 0, 0, cluster_id,
                                      volume_id, session_id, attach, incarnation))


def connect(address):
    host, port = address.split("//")[1].split(":")
    return socket.create_connection((host, int(port)), WAIT_S)


def get(s, count):
    data = b""
    while len(data) < count:
        part = s.recv(count - len(data))
        check(part, f"the peer closed the connection after {len(data)} of {count} bytes")
        data += part
    return data


def answer(s):
    """Status, payload and epoch of the next message that is more than credits."""
    while True:
        head = get(s, HEADER_BYTES)
        payload_bytes, epoch = struct.unpack_from("<II", head, 36)
        payload = get(s, payload_bytes)
        if head[5] & REPLY:
            return struct.unpack_from("<H", head, 50)[0], payload, epoch


def read_block(s, segment):
    """Its first one; the second attempt knows the shard's epoch."""
    epoch = 0
    for _ in range(2):
        s.sendall(message(READ, object_id=segment, length_bytes=4096, epoch=epoch))
        status, payload, epoch = answer(s)
        if status == 0:
            break
    check(status == 0 and len(payload) == 4096, f"a read: status {status}")


def hello(address, **fields):
    """A connection that has said hello, and was answered: let in."""
    s = connect(address)
    s.sendall(hello_message(**fields))
    status, _, _ = answer(s)
    check(status == 0, f"hello refused with status {status}")
    return s


def is_open(s):
    s.setblocking(False)
    try:
        while True:
            if s.recv(4096) == b"":
                return False
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def raise_descriptors(count):
    """For so many connections of a test. False where the hard limit does not allow them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    return True


GATEWAY_HELLO = {"role": GATEWAY, "cluster_id": int(CLUSTER_ID, 16)}
