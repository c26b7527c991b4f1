#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Encrypted volumes: what disks show of them, what a gateway without the KEK does, deletion, recovery."""
import json
import os
import re
import shutil
import struct

from libcluster import (CLUSTER_ID, WAIT_S, Cluster, binary, check, expect_error, main, run,
                        run_argv, small_disks, wait_for)
from libload import Load

BLOCK = 4096
NAME = "hidden-by-name"


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


check(crc32c(b"123456789") == 0xE3069283, "CRC-32C")


class Encrypted(Cluster):
    """A cluster whose gateways have a KEK."""

    def __init__(self, **options):
        super().__init__(**options)
        self.kek = os.path.join(self.folder, "kek")
        run("cleave", "key", "kek", self.kek)
        self.kek_args = ["--kek", f"file:{self.kek}"]
        self.plain_args = list(self.gateway_args)
        self.gateway_args = self.plain_args + self.kek_args

    def restart_gateway(self, index, args):
        """With other options of a KEK."""
        gateway = self.gateways[index]
        if gateway.process is not None:
            gateway.stop()
        self.gateway_args = self.plain_args + args
        gateway.argv = self.gateway_argv([self.gateway_addresses[index]], index)
        gateway.start()

    def write(self, volume, mark):
        """Each block begins with the mark and its number; what is behind that does not compress."""
        path = os.path.join(self.folder, f"{volume}-{mark}.raw")
        with open(path, "wb") as file:
            for i in range(512):
                head = f"{mark}-{i:08d}-".encode()
                file.write(head + os.urandom(BLOCK - len(head)))
        self.cleave("import", "--force", "--purge", path, volume)
        return path

    def expect(self, volume, path):
        out = f"{path}.out"
        self.cleave("export", "--force", volume, out)
        size = os.path.getsize(path)
        with open(path, "rb") as wanted, open(out, "rb") as got:
            check(wanted.read() == got.read(size), f"{volume} has other data")
        os.unlink(out)

    def keys(self):
        """Of the metadata store, which no gateway has to serve."""
        argv = [binary("cleave"), "meta", "dump", "--meta", self.meta]
        return sorted(set(re.findall(r"keys/\d{10}", run_argv(argv).stdout)))


PIECE = 1 << 16


def held(path):
    """What a file holds, without its zeros."""
    parts, nothing = [], bytes(PIECE)
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            if piece != nothing[:len(piece)]:
                parts.append(piece)
            elif parts and parts[-1] is not nothing:
                parts.append(nothing)
    return b"".join(parts)


class Disks:
    """Of nodes that have stopped, read once."""

    def __init__(self, c):
        self.all = [held(c.disk(i)) for i in range(len(c.nodes))]

    def have(self, what):
        return any(what in disk for disk in self.all)


def crcs_of(path, first, count=6):
    """Those of neighbours, as a record has them: no chance has as many right bytes in a row."""
    with open(path, "rb") as file:
        file.seek(first * BLOCK)
        return b"".join(struct.pack("<I", crc32c(file.read(BLOCK))) for _ in range(count))


def volume(c, name):
    return json.loads(c.cleave("--json", "volume", "show", name).stdout)["volume"]


def nothing_is_on_a_disk():
    with Encrypted(gateways=2) as c:
        c.volume_create(NAME, "64M", "--encrypt", "--engine", "none")
        c.volume_create("open", "64M", "--engine", "none")
        first, plain = c.write(NAME, "SECRET-MARK"), c.write("open", "PLAIN-MARK")
        told = volume(c, NAME)
        check(told["encrypted"] and told["kek"] == "default" and told["key"] == 1, f"{told}")
        check(not volume(c, "open")["encrypted"], "open is encrypted")
        c.cleave("snapshot", "create", f"{NAME}@quite-secret")
        c.cleave("clone", f"{NAME}@quite-secret", f"{NAME}-clone")
        check(volume(c, f"{NAME}-clone")["key"] == 2, "the clone has no key of its own")
        rotated = json.loads(c.cleave("--json", "volume", "rotate-key", NAME).stdout)
        check(rotated == {"key": 3, "old": 1}, f"{rotated}")
        check(volume(c, NAME)["key_count"] == 2, "the old key does not stay")
        second = c.write(NAME, "SECRET-LATER")
        c.expect(NAME, second)
        c.load("--volume", NAME, "--operations", "2000", "--pattern", "random", "--in-flight", "16")
        second = c.write(NAME, "SECRET-LAST")
        # All of it again: whoever takes over replays it, opens it, and merges it.
        for daemon in (*c.gateways, *c.nodes):
            daemon.stop()
        for daemon in (*c.nodes, *c.gateways):
            daemon.start()
        c.expect(NAME, second)
        c.expect("open", plain)
        c.gateways[0].kill()
        c.expect(NAME, second)
        check_clone(c, first)
        c.gateways[0].start()
        for daemon in (*c.gateways, *c.nodes):
            daemon.stop()
        disks = Disks(c)
        check(disks.have(b"PLAIN-MARK-00000007-"), "what is plain is not found either: the search is wrong")
        check(any(disks.have(crcs_of(plain, at)) for at in range(8, 24)), "nor are its CRCs")
        for what in (b"SECRET-MARK", b"SECRET-LATER", b"SECRET-LAST", NAME.encode(), b"quite-secret"):
            check(not disks.have(what), f"disks show {what}")
        for path in (first, second):
            check(not any(disks.have(crcs_of(path, at)) for at in range(0, 500, 50)), "disks show CRCs")
        for folder, _, names in os.walk(c.meta):
            for name in names:
                for what in (b"SECRET-MARK", b"SECRET-LATER", b"SECRET-LAST"):
                    check(what not in held(os.path.join(folder, name)), f"the store shows {what}")
        with open(c.kek, encoding="ascii") as file:
            kek = file.read().strip()
        for what in (kek.encode(), bytes.fromhex(kek)):
            check(not disks.have(what), "disks have the KEK")
        check(not any(kek in line for g in c.gateways for line in g.lines), "a log has the KEK")


def check_clone(c, first):
    c.expect(f"{NAME}-clone", first)


def a_gateway_without_the_kek_serves_all_others():
    with Encrypted() as c:
        c.volume_create(NAME, "64M", "--encrypt")
        c.volume_create("open", "64M")
        hidden, plain = c.write(NAME, "SECRET-MARK"), c.write("open", "PLAIN-MARK")
        c.restart_gateway(0, [])
        c.expect("open", plain)
        expect_error(c.cleave("export", "--force", NAME, os.path.join(c.folder, "out"), check_rc=False), "KEK 'default'", "--kek")
        _, reasons = c.health()
        check(any(code == "key-missing" and "default" in text for code, _, text in reasons), f"{reasons}")
        expect_error(c.cleave("volume", "create", "another", "--size", "64M", "--encrypt", check_rc=False), "no KEK",
                     "--kek")
        # One that is not the KEK that it was wrapped with.
        wrong = os.path.join(c.folder, "wrong")
        run("cleave", "key", "kek", wrong)
        c.restart_gateway(0, ["--kek", f"file:{wrong}"])
        c.expect("open", plain)
        expect_error(c.cleave("export", "--force", NAME, os.path.join(c.folder, "out"), check_rc=False),
                     "does not open", "another one")
        # The key that is named first need not be the one that failed last.
        told, = (text for code, _, text in c.health()[1] if code == "key-missing")
        check("; the last that failed: the KEK 'default' does not open key" in told, told)
        # Nor is anything wrapped with it: no gateway would open both.
        keys = c.keys()
        expect_error(c.cleave("volume", "rotate-key", NAME, check_rc=False), "does not open", "another one")
        expect_error(c.cleave("volume", "create", "another", "--size", "64M", "--encrypt", check_rc=False),
                     "'default'", "is another", "rotate-key --kek NAME")
        c.restart_gateway(0, ["--kek", f"new=file:{wrong}"])
        expect_error(c.cleave("volume", "rotate-key", NAME, "--kek", "new", check_rc=False), "has no KEK 'default'")
        check(c.keys() == keys, f"{c.keys()}")
        # Both, and it may be rotated; then it needs both until all was written again.
        c.restart_gateway(0, [*c.kek_args, "--kek", f"new=file:{wrong}"])
        c.cleave("volume", "rotate-key", NAME, "--kek", "new")
        c.expect(NAME, hidden)
        c.kek_args = [*c.kek_args, "--kek", f"new=file:{wrong}"]
        c.restart_gateway(0, c.kek_args)
        c.expect(NAME, hidden)
        check(all(code != "key-missing" for code, _, _ in c.health()[1]), "a key is still missing")


def what_is_written_over_keeps_its_key():
    with Encrypted() as c:
        c.volume_create(NAME, "64M", "--encrypt")
        path = c.write(NAME, "SECRET-MARK")
        expect_error(c.cleave("import", path, NAME, "--force", "--kek", "other", check_rc=False), "KEK 'default'",
                     "rotate-key", "--kek")
        c.cleave("import", path, NAME, "--force", "--encrypt", "--kek", "default")
        c.expect(NAME, path)


def a_session_waits_for_the_kek():
    with Encrypted() as c:
        c.volume_create(NAME, "64M", "--encrypt")
        with Load(c, "--io-timeout", "0", volume=NAME, size=None, in_flight=4) as load:
            load.wait_writes(100)
            c.gateways[0].kill()
            c.restart_gateway(0, [])
            wait_for(lambda: any(code == "key-wanted" for code, _, _ in c.health()[1]), "nobody waits for the key")
            c.restart_gateway(0, c.kek_args)
            load.wait_writes(100)


def what_is_purged_has_no_key_any_more():
    with Encrypted() as c:
        c.volume_create(NAME, "64M", "--encrypt")
        c.volume_create("kept", "64M", "--encrypt")
        c.write(NAME, "SECRET-MARK")
        c.cleave("volume", "rotate-key", NAME)
        check(len(c.keys()) == 3, f"{c.keys()}")
        c.cleave("volume", "delete", NAME)
        check(len(c.keys()) == 3, "a volume in the trash has lost its keys")
        c.cleave("trash", "purge", NAME)
        # Every shard has to be rid of it first: two minutes where its log has records of others, too.
        wait_for(lambda: c.keys() == ["keys/0000000002"], "the keys are still there", 2 * WAIT_S)
        c.gateway.wait_line("audit: data keys erased")
        c.gateway.wait_line("audit: data key wiped id=1 ")
        c.gateway.wait_line("audit: data key wiped id=3 ")
        check("key-erased" in c.cleave("events").stdout, "no event")
        kept = c.write("kept", "SECRET-KEPT")
        c.expect("kept", kept)
        # The mirror forgets them, too.
        c.gateway.stop()
        shutil.rmtree(c.meta)
        recover(c, *c.kek_args)
        check(c.keys() == ["keys/0000000002"], f"{c.keys()}")
        c.gateway.start()
        c.expect("kept", kept)


def recover(c, *words):
    argv = [binary("cleave"), "recover", "--meta", c.meta, "--cluster-id", CLUSTER_ID, *words]
    for address in c.addresses:
        argv += ["--node", address]
    result = run_argv(argv)
    return result.stdout + result.stderr


def a_lost_store_comes_back_with_the_kek():
    with Encrypted() as c:
        c.volume_create(NAME, "64M", "--encrypt")
        hidden = c.write(NAME, "SECRET-MARK")
        c.cleave("snapshot", "create", f"{NAME}@quite-secret")
        number = volume(c, NAME)["id"]
        c.gateway.stop()
        shutil.rmtree(c.meta)
        said = recover(c)
        check(f"encrypted-{number}" in said and "--kek" in said, said)
        check(NAME not in said, "a recovery without the KEK knows the name")
        shutil.rmtree(c.meta)
        said = recover(c, *c.kek_args)
        check(NAME in said, said)
        c.gateway.start()
        c.expect(NAME, hidden)
        check("quite-secret" in c.cleave("snapshot", "list", NAME).stdout, "the snapshot's name is lost")
        # Without it, it is served under its number, and can be renamed.
        c.gateway.stop()
        shutil.rmtree(c.meta)
        recover(c)
        c.gateway.start()
        c.expect(f"encrypted-{number}", hidden)
        c.cleave("volume", "rename", f"encrypted-{number}", "found")
        c.expect("found", hidden)
        c.volume_create("later", "64M", "--encrypt")
        check(volume(c, "later")["key"] > 65536, "an id of a data key may be given twice")


def a_moved_store_keeps_the_keys():
    with Encrypted() as c:
        c.volume_create(NAME, "64M", "--encrypt")
        hidden = c.write(NAME, "SECRET-MARK")
        c.gateway.stop()
        dump = run_argv([binary("cleave"), "meta", "dump", "--meta", c.meta]).stdout
        shutil.rmtree(c.meta)
        argv = [binary("cleave"), "meta", "load", "--meta", c.meta, "--cluster-id", CLUSTER_ID]
        for address in c.addresses:
            argv += ["--node", address]
        run_argv(argv, stdin_text=dump)
        check(c.keys() == ["keys/0000000001"], f"{c.keys()}")
        c.gateway.start()
        c.expect(NAME, hidden)


def a_program_has_the_kek():
    with Cluster() as c:
        program = os.path.join(c.folder, "program")
        with open(program, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nread line\n[ -e \"$0.away\" ] && { echo 'the vault is away' >&2; exit 1; }\n"
                       "[ -e \"$0.shut\" ] && case $line in *unwrap*) exit 1;; esac\n"
                       "echo \"$line\" | sed 's/.*\\(\"data\":\"[^\"]*\"\\).*/{\\1}/'\n")
        os.chmod(program, 0o700)
        c.gateway.stop()
        c.gateway_args += ["--kek", f"tenant=command:{program}"]
        c.gateway.argv = c.gateway_argv([c.gateway_addresses[0]])
        c.gateway.start()
        c.volume_create(NAME, "64M", "--kek", "tenant")
        check(volume(c, NAME)["kek"] == "tenant", "another KEK")
        c.load("--volume", NAME, "--operations", "200")
        with open(f"{program}.away", "w", encoding="utf-8"):
            pass
        expect_error(c.cleave("volume", "create", "other", "--size", "64M", "--kek", "tenant", check_rc=False),
                     "the vault is away")
        c.gateway.stop()
        c.gateway.start()
        c.gateway.wait_line("a data key stays shut")
        expect_error(c.load("--volume", NAME, "--operations", "1", check_rc=False), "KEK 'tenant'")
        # What wraps, and opens nothing of what there is, may have another key behind it.
        os.rename(f"{program}.away", f"{program}.shut")
        expect_error(c.cleave("volume", "create", "other", "--size", "64M", "--kek", "tenant", check_rc=False),
                     "KEK 'tenant'", "wraps nothing")
        os.unlink(f"{program}.shut")
        # It is asked again, by itself.
        c.gateway.wait_line("a data key is open id=1 ")
        c.load("--volume", NAME, "--operations", "200")


small_disks()
main(nothing_is_on_a_disk, a_gateway_without_the_kek_serves_all_others, what_is_written_over_keeps_its_key,
     a_session_waits_for_the_kek, what_is_purged_has_no_key_any_more, a_lost_store_comes_back_with_the_kek, a_moved_store_keeps_the_keys,
     a_program_has_the_kek)
