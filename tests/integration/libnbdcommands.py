# SPDX-License-Identifier: Apache-2.0
"""Every option, command and flag that libnbd has, against an export of 64 MiB that nobody else uses.

    /usr/bin/python3 libnbdcommands.py SOCKET EXPORT

Run by the python that Debian's python3-libnbd belongs to.
"""
import errno
import sys

import nbd

SOCKET, EXPORT = sys.argv[1:3]
SIZE = 64 << 20
BLOCK = 4096


def fails(number, fn, *args, **more):
    try:
        fn(*args, **more)
    except nbd.Error as e:
        assert e.errnum == number, f"{e.errnum}, not {number}: {e}"
        return
    raise AssertionError(f"{fn.__name__}{args} did not fail")


def client(name=EXPORT, opt_mode=False, contexts=(nbd.CONTEXT_BASE_ALLOCATION,)):
    h = nbd.NBD()
    h.set_export_name(name)
    h.set_opt_mode(opt_mode)
    for context in contexts:
        h.add_meta_context(context)
    h.connect_unix(SOCKET)
    return h


def options():
    h = client(opt_mode=True)
    names = []
    assert h.opt_list(lambda name, text: names.append(name) or 0) == len(names)
    assert EXPORT in names, names
    contexts = []
    h.opt_list_meta_context(lambda name: contexts.append(name) or 0)
    assert contexts == ["base:allocation"], contexts
    contexts.clear()
    h.clear_meta_contexts()
    h.add_meta_context("x-other:thing")
    assert h.opt_list_meta_context(lambda name: contexts.append(name) or 0) == 0 == len(contexts)
    h.add_meta_context("base:")
    assert h.opt_list_meta_context(lambda name: contexts.append(name) or 0) == 1, contexts
    h.set_export_name("nobody")
    fails(errno.ENOENT, h.opt_info)
    fails(errno.ENOENT, h.opt_go)
    h.set_export_name(EXPORT)
    h.set_full_info(True)
    h.opt_info()
    assert h.get_size() == SIZE and h.get_canonical_export_name() in (EXPORT, None)
    h.opt_go()
    assert h.pread(512, 0) is not None
    h.shutdown()
    h = client(opt_mode=True)
    h.opt_abort()


def haggling():
    """Whatever of the protocol's younger parts a client leaves out."""
    for flags in (0, nbd.HANDSHAKE_FLAG_FIXED_NEWSTYLE, nbd.HANDSHAKE_FLAG_NO_ZEROES,
                  nbd.HANDSHAKE_FLAG_MASK):
        for structured in (False, True):
            h = nbd.NBD()
            h.set_handshake_flags(flags)
            h.set_request_structured_replies(structured)
            h.set_request_block_size(structured)
            h.set_export_name(EXPORT)
            h.connect_unix(SOCKET)
            fixed = flags & nbd.HANDSHAKE_FLAG_FIXED_NEWSTYLE != 0
            assert h.get_protocol() == ("newstyle-fixed" if fixed else "newstyle")
            assert h.get_structured_replies_negotiated() == (structured and fixed)
            h.pwrite(b"h" * 100, 7)
            assert h.pread(102, 6)[1:101] == b"h" * 100
            h.shutdown()


def properties(h):
    assert h.get_size() == SIZE
    for can in (h.can_flush, h.can_fua, h.can_trim, h.can_zero, h.can_fast_zero, h.can_df,
                h.can_multi_conn, h.can_cache):
        assert can(), can.__name__
    assert not h.is_read_only() and not h.is_rotational()
    assert h.can_meta_context("base:allocation") and not h.can_meta_context("x-other:thing")
    assert h.get_block_size(nbd.SIZE_MINIMUM) == 1
    assert h.get_block_size(nbd.SIZE_PREFERRED) == BLOCK
    assert h.get_block_size(nbd.SIZE_MAXIMUM) == 32 << 20
    assert h.get_structured_replies_negotiated()


def reads_and_writes(h):
    for offset, length in ((0, BLOCK), (1, 1), (BLOCK - 1, 2), (100, 3 * BLOCK), (SIZE - 5, 5),
                           (123, 1 << 20), (0, 32 << 20)):
        data = bytes((offset + i) % 251 for i in range(min(length, 7919)))
        data = (data * (length // len(data) + 1))[:length]
        for flags in (0, nbd.CMD_FLAG_FUA):
            h.pwrite(data, offset, flags)
        assert h.pread(length, offset) == data
        for flags in (0, nbd.CMD_FLAG_DF):
            chunks = []
            h.pread_structured(length, offset, lambda buf, at, status, error:
                               chunks.append((at, len(buf), status)) or 0, flags)
            assert min(chunks)[0] == offset and sum(c[1] for c in chunks) == length, chunks
            assert len(chunks) == 1 or not flags, chunks
    h.flush()
    h.cache(1 << 20, 4096)
    h.cache(5, 4095)


def holes(h):
    """TRIM and WRITE_ZEROES with each of their flags; block status covers all of it."""
    for change in (lambda o, n: h.zero(n, o), lambda o, n: h.zero(n, o, nbd.CMD_FLAG_FUA),
                   lambda o, n: h.zero(n, o, nbd.CMD_FLAG_NO_HOLE),
                   lambda o, n: h.zero(n, o, nbd.CMD_FLAG_FAST_ZERO),
                   lambda o, n: h.zero(n, o, nbd.CMD_FLAG_FAST_ZERO | nbd.CMD_FLAG_NO_HOLE |
                                       nbd.CMD_FLAG_FUA)):
        for offset, length in ((0, BLOCK), (3, 5), (BLOCK - 3, 2 * BLOCK), (777, 1 << 20)):
            h.pwrite(b"z" * (length + 2), offset)
            change(offset + 1, length)
            assert h.pread(length + 2, offset) == b"z" + bytes(length) + b"z"
    for flags in (0, nbd.CMD_FLAG_FUA):
        h.pwrite(b"t" * (4 * BLOCK), 0)
        h.trim(2 * BLOCK, BLOCK, flags)
        data = h.pread(4 * BLOCK, 0)
        assert data[:BLOCK] == data[3 * BLOCK:] == b"t" * BLOCK
        assert data[BLOCK:3 * BLOCK] == bytes(2 * BLOCK), "it said that it was done"
        h.trim(100, 50, flags)  # of no whole block: nothing needs to happen
    h.zero(SIZE, 0)
    assert status(h, SIZE, 0) == [(SIZE, nbd.STATE_HOLE | nbd.STATE_ZERO)]
    h.pwrite(b"d" * BLOCK, 8 * BLOCK)
    h.pwrite(b"d", 20 * BLOCK - 1)
    h.zero(4 * BLOCK, 30 * BLOCK, nbd.CMD_FLAG_NO_HOLE)
    hole = nbd.STATE_HOLE | nbd.STATE_ZERO
    entries = [(8 * BLOCK, hole), (BLOCK, 0), (10 * BLOCK, hole), (BLOCK, 0), (10 * BLOCK, hole),
               (4 * BLOCK, nbd.STATE_ZERO), (SIZE - 34 * BLOCK, hole)]
    assert status(h, SIZE, 0) == entries, status(h, SIZE, 0)
    assert status(h, SIZE, 0, nbd.CMD_FLAG_REQ_ONE) == entries[:1]
    # Bytes, not blocks, are what is asked for.
    assert status(h, 1000, 8 * BLOCK + 7) == [(1000, 0)]
    assert status(h, BLOCK, 8 * BLOCK - 1) == [(1, hole), (BLOCK - 1, 0)]
    assert status(h, 5, 8 * BLOCK - 2) == [(2, hole), (3, 0)]
    # More of them than an answer has room for.
    for i in range(0, 3000, 2):
        h.pwrite(b"d" * BLOCK, i * BLOCK)
    h.zero(2 * BLOCK, 3000 * BLOCK)
    entries = status(h, 3000 * BLOCK, 0)
    assert len(entries) >= 2900 and sum(length for length, _ in entries) == 3000 * BLOCK
    assert {flags for _, flags in entries} <= {0, hole, nbd.STATE_ZERO}
    h.trim(SIZE, 0)
    assert status(h, SIZE, 0) == [(SIZE, hole)]


def status(h, length, offset, flags=0):
    """Entries (length, flags) from offset on."""
    found = []

    def extent(context, at, entries, error):
        assert context == "base:allocation" and error.value == 0
        found.extend(zip(entries[::2], entries[1::2]))

    at = offset
    while at < offset + length:
        before = sum(n for n, _ in found)
        h.block_status(offset + length - at, at, extent, flags)
        at += sum(n for n, _ in found) - before
        if flags:
            break
    return found


def errors(h):
    """What libnbd would not send by itself."""
    h.set_strict_mode(0)
    fails(errno.EINVAL, h.pread, BLOCK, SIZE)
    fails(errno.EINVAL, h.pread, BLOCK, SIZE - 1)
    fails(errno.ENOSPC, h.pwrite, bytes(BLOCK), SIZE - 1)
    fails(errno.ENOSPC, h.zero, BLOCK, SIZE - 1)
    fails(errno.EINVAL, h.trim, BLOCK, SIZE - 1)
    fails(errno.EINVAL, h.block_status, BLOCK, SIZE, lambda *args: 0)
    fails(errno.EINVAL, h.pwrite, b"x" * BLOCK, 0, 1 << 12)
    fails(errno.EINVAL, h.zero, BLOCK, 0, nbd.CMD_FLAG_DF)
    fails(errno.EINVAL, h.pread, BLOCK, 0, nbd.CMD_FLAG_REQ_ONE)
    fails(errno.EINVAL, h.flush, nbd.CMD_FLAG_FUA)
    h.pwrite(b"after" * 100, 0)
    assert h.pread(500, 0) == b"after" * 100


def several_connections(h):
    """A write that one has been told of is what the others read, flushed or not."""
    others = [client() for _ in range(3)]
    for i, other in enumerate(others):
        other.pwrite(bytes([i + 1]) * BLOCK, i * BLOCK)
        for reader in (h, *others):
            assert reader.pread(BLOCK, i * BLOCK) == bytes([i + 1]) * BLOCK
    cookies = []
    for other in others:
        for i in range(64):
            buffer = nbd.Buffer.from_bytearray(bytearray(BLOCK * 16))
            cookies.append((other, other.aio_pwrite(buffer, i << 20)))
    for other, cookie in cookies:
        while not other.aio_command_completed(cookie):
            other.poll(-1)
    for other in others:
        other.shutdown()


options()
haggling()
with_contexts = client()
for step in (properties, reads_and_writes, holes, errors, several_connections):
    step(with_contexts)
with_contexts.shutdown()
without = client(contexts=())
fails(errno.ENOTSUP, without.block_status, BLOCK, 0, lambda *args: 0)
without.shutdown()
