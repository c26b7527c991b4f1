# SPDX-License-Identifier: Apache-2.0
"""Somebody in the middle of a connection with keys, who does one deed to one message of it.

    middle = Middle("tcp://127.0.0.1:7201")
    done = middle.arm(Deed("connector", 0, "flip", 64))     # to the next connection that comes
    middle.cut()                                            # those that there are come again
    done.wait(...); done.ended ...

A message of the handshake has its header in the clear; the two sealed hellos that follow have a length that is known. What
comes behind them is taken as it arrives. CRCs are stamped anew: they are no secret.
"""
import socket
import struct
import threading

from libwire import HEADER_BYTES, HELLO, HELLO_BYTES, REPLY, crc32c, message

SEAL_HEAD_BYTES = 96
TRUNCATED_BYTES = 16
RSTAMPED = range(4, 60)
CONNECTOR, ACCEPTOR = "connector", "acceptor"
# Messages of each side that are the handshake's, in the clear; then its sealed hello.
CLEAR = {CONNECTOR: 2, ACCEPTOR: 1}


class Deed:
    """`verb` done to the message `nth` (from 0) of `side`; `at`: a byte of it, from its end where negative; or a value."""

    def __init__(self, side, nth, verb, at=0):
        self.side, self.nth, self.verb, self.at = side, nth, verb, at
        self.is_done, self.has_ended = threading.Event(), threading.Event()

    def __str__(self):
        return f"{self.verb} {self.at} of message {self.nth} of the {self.side}"


def restamped(data):
    return data[:60] + struct.pack("<I", crc32c(bytes(data[:60]))) + data[64:]


class Connection:
    """Both directions of it, a thread each."""

    def __init__(self, client, server, deed):
        self.ends, self.deed, self.held = {CONNECTOR: client, ACCEPTOR: server}, deed, b""
        self.lock = threading.Lock()
        for side in self.ends:
            threading.Thread(target=self._pump, args=(side,), daemon=True).start()

    def close(self):
        for end in self.ends.values():
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # gone already
        if self.deed is not None and self.deed.is_done.is_set():
            self.deed.has_ended.set()

    def _exactly(self, source, count):
        data = b""
        while len(data) < count:
            part = source.recv(count - len(data))
            if not part:
                return b""
            data += part
        return data

    def _next(self, side, nth):
        source = self.ends[side]
        if nth < CLEAR[side]:
            head = self._exactly(source, HEADER_BYTES)
            if not head:
                return b""
            return head + self._exactly(source, struct.unpack_from("<I", head, 36)[0])
        if nth == CLEAR[side]:
            return self._exactly(source, SEAL_HEAD_BYTES + HELLO_BYTES)
        return source.recv(1 << 16)

    def _altered(self, data):
        """What is sent instead; None: both ends are closed behind it."""
        deed, data = self.deed, bytearray(data)
        if deed.verb == "flip":
            at = deed.at if deed.at >= 0 else len(data) + deed.at
            at = min(at, len(data) - 1)
            data[at] ^= 1
            return restamped(data) if deed.nth < CLEAR[deed.side] and at in RSTAMPED else data
        if deed.verb == "level":
            struct.pack_into("<H", data, 48, deed.at)
            return restamped(data)
        if deed.verb == "repeat":
            return data + data
        if deed.verb == "truncate":
            return data[:-TRUNCATED_BYTES]
        if deed.verb == "drop":
            return b""
        if deed.verb == "swap":
            self.held = bytes(data)
            return b""
        if deed.verb == "half":
            return data[:len(data) // 2]
        if deed.verb == "plain":  # a hello, or its answer, as those without keys say it
            opcode = HELLO if deed.side == CONNECTOR else HELLO | REPLY
            return message(opcode, struct.pack("<IBBHIIQQQQQ", 0x45564C43, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0))
        if deed.verb == "refuse":  # in the clear, in the acceptor's name, with that status
            head = bytearray(message(HELLO | REPLY, b"go away"))
            struct.pack_into("<H", head, 50, deed.at)
            return restamped(head)
        raise AssertionError(deed.verb)

    def _pump(self, side):
        sink = self.ends[ACCEPTOR if side == CONNECTOR else CONNECTOR]
        try:
            nth = 0
            while data := self._next(side, nth):
                if self.deed is not None and (side, nth) == (self.deed.side, self.deed.nth):
                    data = self._altered(data)
                    self.deed.is_done.set()
                    sink.sendall(data)
                    if self.deed.verb == "half":
                        break
                else:
                    sink.sendall(data)
                    if self.held and side == self.deed.side:
                        sink.sendall(self.held)
                        self.held = b""
                nth += 1
        except OSError:
            pass
        self.close()


class Middle:
    def __init__(self, address):
        host, port = address.removeprefix("tcp://").split(":")
        self.target, self.armed, self.connections = (host, int(port)), None, []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.target, timeout=5)
            except OSError:
                if self.listener.fileno() < 0:
                    return
                client.close()
                continue
            for end in (client, server):
                end.settimeout(None)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                deed, self.armed = self.armed, None
                self.connections.append(Connection(client, server, deed))

    def arm(self, deed):
        with self.lock:
            self.armed = deed
        return deed

    def cut(self):
        with self.lock:
            gone, self.connections = self.connections, []
        for connection in gone:
            connection.close()

    def close(self):
        self.listener.close()
        self.cut()
