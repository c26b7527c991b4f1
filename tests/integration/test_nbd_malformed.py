#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cleave-agent, each option malformed in each way, and clients that go in the middle of anything."""
import os
import struct

from libagent import (EINVAL, ERR_INVALID, ERR_UNKNOWN, ERR_UNSUP, Agent, Client, control,
                      make_certificates, need)
from libcluster import Cluster, check, main

need("certtool")

EXPORT_NAME, ABORT, LIST, STARTTLS, INFO, GO, STRUCTURED, LIST_META, SET_META, EXTENDED = \
    1, 2, 3, 5, 6, 7, 8, 9, 10, 11
ACK, ERR_TLS_REQD, ERR_EXT_HEADER_REQD = 1, 2**31 + 5, 2**31 + 10


def text(data):
    return struct.pack(">I", len(data)) + data


def info(name, *wanted, count=None):
    return text(name) + struct.pack(">H", len(wanted) if count is None else count) + \
        b"".join(struct.pack(">H", w) for w in wanted)


def meta(name, *queries, count=None):
    return text(name) + struct.pack(">I", len(queries) if count is None else count) + \
        b"".join(text(q) for q in queries)


MALFORMED = {
    LIST: (b"x", bytes(4)),
    STARTTLS: (b"x",),
    STRUCTURED: (b"x", bytes(100)),
    EXTENDED: (b"x",),
    INFO: (b"", b"\0", bytes(3), b"\xff\xff\xff\xff", text(b"v"), text(b"v") + b"\0",
           info(b"v", 0, count=2), info(b"v", 0, 3, count=1), info(b"v", count=65535),
           info(b"v") + b"x", struct.pack(">I", 2) + b"v", struct.pack(">I", 1 << 31) + b"v\0\0",
           struct.pack(">I", 4097) + b"n" * 4097 + bytes(2)),
    LIST_META: (b"", bytes(3), text(b"v"), text(b"v") + bytes(3), meta(b"v", count=1),
                meta(b"v", b"base:", count=2), meta(b"v", b"base:", count=0),
                meta(b"v", count=2**32 - 1), meta(b"v") + b"x",
                meta(b"v") [:-4] + struct.pack(">II", 1, 99) + b"base:",
                meta(b"v", b"q" * 4097)),
}
MALFORMED[GO], MALFORMED[SET_META] = MALFORMED[INFO], MALFORMED[LIST_META]


def next_kind(s):
    """Of the reply that ends an option."""
    while True:
        _, kind, data = s.reply()
        if kind == ACK or kind >= 2**31:
            check(kind == ACK or len(data) > 0, "an error without a text")
            return kind


def every_option_in_every_way():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        make_certificates(c.folder)
        with Agent(c, "--volume", "v", "--tls-certificates", c.folder, "--tls-optional") as agent:
            for is_secure in (False, True):
                s = Client(agent)
                if is_secure:
                    s.start_tls()
                s.option(STRUCTURED)
                check(next_kind(s) == ACK, "structured replies")
                for option, bodies in MALFORMED.items():
                    for i, data in enumerate(bodies):
                        s.option(option, data)
                        check(next_kind(s) == ERR_INVALID, f"option {option}, way {i}")
                for option in (INFO, GO):
                    for name in (b"nobody", b"v\0", b"n" * 4096, b"\xff\xfe", b"v@nothing"):
                        s.option(option, info(name))
                        check(next_kind(s) == ERR_UNKNOWN, f"export {name[:10]}")
                for option in (0, 4, 12, 2**31, 2**32 - 1):
                    s.option(option, b"data")
                    check(next_kind(s) == ERR_UNSUP, f"option {option}")
                s.option(SET_META, meta(b"v", b"x-other:thing", b""))
                check(next_kind(s) == ACK, "contexts that are not known")
                if is_secure:
                    s.option(STARTTLS)
                    check(next_kind(s) == ERR_INVALID, "STARTTLS within TLS")
                s.option(EXTENDED)
                check(next_kind(s) == ACK, "extended headers")
                s.option(STRUCTURED)
                check(next_kind(s) == ERR_EXT_HEADER_REQD, "structured replies behind that")
                s.option(GO, info(b"v", 0, 1, 2, 3, 77))
                check(next_kind(s) == ACK, "GO after all that")
                s.s.sendall(struct.pack(">IHHQQQ", 0x21E41C71, 0, 7, 7, 0, 4096))
                head = struct.unpack(">IHHQQQ", s.get(32))
                check(head[2] == 0x8001 and struct.unpack(">I", s.get(head[5])[:4])[0] == EINVAL,
                      "a context that was lost on the way")
                # The old option that has no way to say no, and one that is too long.
                for name in (b"nobody", b"", b"v\0"):
                    s = Client(agent)
                    s.option(EXPORT_NAME, name)
                    if name != b"":
                        check(s.is_closed(), "EXPORT_NAME of what is not there")
                s = Client(agent)
                s.option(GO, info(b"v", *([0] * 32000)) + bytes(1500))
                check(next_kind(s) == ERR_INVALID, "the longest option")
                s.option(GO, b"", length=65537)
                check(s.is_closed(), "a longer one")
        with Agent(c, "--volume", "v", "--tls-certificates", c.folder) as agent:
            s = Client(agent)
            for option in (LIST, INFO, GO, STRUCTURED, LIST_META, SET_META, EXTENDED, 99):
                s.option(option, b"whatever")
                check(next_kind(s) == ERR_TLS_REQD, f"option {option} in plain")
            s.option(EXPORT_NAME, b"v")
            check(s.is_closed(), "EXPORT_NAME in plain")


def request(kind, offset, length, data=b"", flags=0):
    return struct.pack(">IHHQQI", 0x25609513, flags, kind, 7, offset, length) + data


def gone_in_the_middle_of_anything():
    """A session cut off behind each of its bytes: nobody stays, nothing stays open, all go on."""
    options = b"".join(struct.pack(">QII", 0x49484156454F5054, option, len(data)) + data
                       for option, data in (
                           (LIST, b""), (STRUCTURED, b""), (SET_META, meta(b"v", b"base:allocation")),
                           (INFO, info(b"v", 3)), (GO, info(b"v", 3))))
    requests = b"".join((request(0, 0, 100), request(1, 3, 20, b"w" * 20), request(7, 0, 8192),
                         request(6, 5, 5000), request(4, 0, 8192), request(5, 0, 9),
                         request(8, 8 << 20, 0), request(3, 0, 0), request(1, 0, 1 << 20, b"x" * 50)))
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        path = os.path.join(c.folder, "control")
        with Agent(c, "--volume", "v", "--control", path) as agent:
            stays = Client(agent)
            check(stays.go() == ACK, "GO")
            count = len(os.listdir(f"/proc/{agent.pid}/fd"))
            for end in range(len(options) + len(requests)):
                s = Client(agent)
                s.s.sendall((options + requests)[:end])
                s.s.close()
            for _ in range(100):
                left = len(os.listdir(f"/proc/{agent.pid}/fd")) - count
                users = control(path, op="list")["exports"][0]["users"]
                if left <= 0 and users == 1:
                    break
            else:
                agent.wait_idle()
                left = len(os.listdir(f"/proc/{agent.pid}/fd")) - count
                users = control(path, op="list")["exports"][0]["users"]
                check(left <= 0 and users == 1, f"{left} descriptors and {users} users are left")
            stays.command(0, 0, 4096)
            check(stays.error() == 0 and len(stays.get(4096)) == 4096, "one that stays")
            check(agent.rss_bytes() < 300 << 20, f"{agent.rss_bytes()} bytes")


if __name__ == "__main__":
    main(every_option_in_every_way, gone_in_the_middle_of_anything)
