#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cleave backup, restore, snapshot rotate: what is restored is what the snapshot held, whoever is killed in the middle.

The file's own fields, each wrong by itself, are tests/unit/vm-client/backup/."""
import contextlib
import fcntl
import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import threading

from libagent import Agent, need
from libcluster import WAIT_S, Cluster, binary, check, expect_error, main, run_argv, wait_for
from libproxy import Proxy

need("qemu-img", "qemu-io")

MIB = 1 << 20
HEADER, FRAME = 512, 64


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def write(c, volume, *commands):
    """What a guest writes: qemu-io's commands."""
    with Agent(c, "--volume", volume) as agent:
        run_argv(["qemu-io", "-f", "raw", agent.uri(volume)] +
                 [word for command in commands for word in ("-c", command)])


def import_random(c, volume, size, data, seed=1):
    """A volume of `size` bytes with random ones at each (offset, bytes) of `data`."""
    image = os.path.join(c.folder, "image")
    dice = random.Random(seed)
    with open(image, "wb") as f:
        f.truncate(size)
        for offset, count in data:
            f.seek(offset)
            f.write(dice.randbytes(count))
    c.cleave("import", image, volume)
    os.unlink(image)


def content(c, name):
    """The digest of all bytes of a volume or a snapshot."""
    out = os.path.join(c.folder, "content")
    c.cleave("export", name, out, "--force")
    return digest(out)


def path(c, *names):
    found = [os.path.join(c.folder, name) for name in names]
    return found[0] if len(found) == 1 else found


def volumes(c):
    return [v["name"] for v in json.loads(c.cleave("--json", "volume", "list").stdout)["volumes"]]


def argv(c, *words):
    return [binary("cleave"), *c.gateway_words(), *words]


def size_of(name):
    return os.path.getsize(name) if os.path.exists(name) else 0


@contextlib.contextmanager
def slowly(c, volume, bytes_s):
    """Whoever reads the volume gets so much a second: a test that is late still comes in the middle."""
    c.cleave("volume", "set", volume, "--read-bandwidth", bytes_s)
    yield
    c.cleave("volume", "set", volume, "--read-bandwidth", "off")


def frozen(c, out, bytes_, *words):
    """A backup that has written so much, and cannot end: the gateway stands still."""
    backup = subprocess.Popen(argv(c, "backup", *words, out), stdout=subprocess.DEVNULL)
    wait_for(lambda: size_of(out + ".part") > bytes_ or backup.poll() is not None, "a part")
    c.gateway.signal(signal.SIGSTOP)
    check(backup.poll() is None, "it has ended before it could be stopped")
    return backup


def half_restored(c, file, name, *behind):
    """A restore whose standard input stands still in the middle of `file`, when what came is written."""
    before = c.metric("write_bytes")
    restore = subprocess.Popen(argv(c, "restore", "-", *behind, name), stdin=subprocess.PIPE,
                               stdout=subprocess.DEVNULL)
    rest = open(file, "rb")
    half = size_of(file) // 2
    restore.stdin.write(rest.read(half))
    restore.stdin.flush()
    wait_for(lambda: c.metric("write_bytes") - before > half - 8 * MIB, "half of it")
    return restore, rest


def a_chain(c):
    """v@a ... v@d, and their backups: the first full, the others on top of one another."""
    import_random(c, "v", 64 * MIB, ((0, 3 * MIB), (20 * MIB, MIB), (63 * MIB, MIB)))
    files = path(c, "a", "b", "c", "d")
    c.cleave("backup", "v@a", files[0], "--snapshot")
    write(c, "v", "write -P 7 1M 64k", "write -P 8 40M 4k", "discard 20M 512k", "write -z 63M 8k")
    c.cleave("backup", "v@b", files[1], "--snapshot", "--from", "a")
    c.cleave("backup", "v@c", files[2], "--snapshot", "--from", "v@b")
    c.cleave("volume", "resize", "v", "--size", "80M")
    write(c, "v", "write -P 9 79M 64k", "write -P 1 20M 4k", "discard 0 1M")
    c.cleave("backup", "v@d", files[3], "--snapshot", "--from", "c")
    return files


def full_and_incremental_ones_restore_each_snapshot():
    with Cluster(nodes=3, shards=4, gateways=2) as c:
        files = a_chain(c)
        check(size_of(files[1]) < size_of(files[0]) / 40, "an incremental one is small")
        check(size_of(files[2]) == HEADER + FRAME, "nothing changed")
        check([n for n in os.listdir(c.folder) if n.endswith(".part")] == [], "a part is left")
        for count, snapshot in enumerate("abcd", 1):
            c.cleave("restore", *files[:count], f"r{snapshot}", "--verify")
            check(content(c, f"r{snapshot}") == content(c, f"v@{snapshot}"), f"v@{snapshot}")
        shown = json.loads(c.cleave("--json", "volume", "show", "rd").stdout)["volume"]
        check(shown["size_bytes"] == 80 * MIB, f"{shown}")
        # A chain that became one file; which goes on as the chain does.
        merged, again = path(c, "merged", "again")
        with open(merged + ".part", "wb") as f:  # of something else
            f.write(open(files[0], "rb").read()[:-1])
        expect_error(c.cleave("backup", "merge", *files[:3], merged, check_rc=False), "in the way", "v@a")
        c.cleave("backup", "merge", *files[:3], merged, "--force")
        os.rename(merged, merged + ".part")  # of a merge that was killed
        c.cleave("backup", "merge", *files[:3], merged)
        c.cleave("backup", "merge", merged, files[3], again)
        # OUT forgotten: the last file, which goes on from the others, is no place for what they say.
        was = digest(files[3])
        expect_error(c.cleave("backup", "merge", *files, "--force", check_rc=False), "goes on from", "v@d")
        check(digest(files[3]) == was, "the last one was written over")
        c.cleave("backup", "merge", merged, files[3], again, "--force")
        c.cleave("restore", again, "m")
        check(content(c, "m") == content(c, "v@d"), "merged")
        said = c.cleave("backup", "verify", *files, merged, files[3]).stdout
        check(said.count(": whole: ") == 6 and "v@d since c" in said, said)
        told = json.loads(c.cleave("--json", "backup", "verify", *files).stdout)["files"]
        check([f["from"] for f in told] == ["", "a", "b", "c"], f"{told}")
        check(not [v for v in volumes(c) if "restore-" in v], f"{volumes(c)}")


def across_a_roll_back_what_was_trimmed_is_there_again():
    with Cluster(nodes=3, shards=4, gateways=2) as c:
        import_random(c, "v", 16 * MIB, ((0, 8 * MIB),))
        c.cleave("snapshot", "create", "v@a")
        write(c, "v", "discard 0 1M", "write -z 1M 1M", "discard 2M 1M", "write -z 3M 1M",
              "write -P 7 4M 1M", "write -P 7 9M 64k")
        b, after, now = path(c, "b", "after", "now")
        c.cleave("backup", "v@b", b, "--snapshot")
        c.cleave("snapshot", "rollback", "v@a")
        c.cleave("backup", "v@c", after, "--snapshot", "--from", "b")
        c.cleave("restore", b, after, "rc", "--verify")
        check(content(c, "v@c") == content(c, "v@a"), "the roll-back")
        check(content(c, "rc") == content(c, "v@c"), "what the roll-back brought back")
        # Written and trimmed behind it, over what was trimmed and written before it.
        write(c, "v", "write -P 8 2M 64k", "write -P 9 3M 512k", "discard 4M 512k", "write -z 5M 64k",
              "discard 7M 1M")
        c.cleave("backup", "v@d", now, "--snapshot", "--from", "b")
        c.cleave("restore", b, now, "rd", "--verify")
        check(content(c, "rd") == content(c, "v@d"), "what was written behind the roll-back")
        # From what was rolled back to, and on from what followed it.
        for old, files in (("a", ("full", "on")), ("c", (None, "next"))):
            out = path(c, files[1])
            chain = (b, after)
            if files[0] is not None:
                chain = (path(c, files[0]),)
                c.cleave("backup", f"v@{old}", *chain)
            c.cleave("backup", "v@d", out, "--from", old)
            c.cleave("restore", *chain, out, f"r{files[1]}", "--verify")
            check(content(c, f"r{files[1]}") == content(c, "v@d"), f"since {old}")


def what_became_zeros_costs_nothing():
    with Cluster(nodes=3, shards=4) as c:
        import_random(c, "v", 96 * MIB, ((0, 80 * MIB),))
        c.cleave("snapshot", "create", "v@a")
        write(c, "v", "discard 0 40M", "write -z 40M 16M", "write -z 63M 4k", "write -P 7 64M 4k")
        out = path(c, "out")
        told = json.loads(c.cleave("--json", "backup", "v@b", out, "--snapshot", "--from", "a").stdout)
        check(told["data_bytes"] == 4096, f"{told}")
        changed = json.loads(c.cleave("--json", "snapshot", "diff", "v@a", "v@b").stdout)["extents"]
        check(changed == [{"offset_bytes": at * MIB, "length_bytes": length, "kind": "changed"}
                          for at, length in ((0, 56 * MIB), (63, 4096), (64, 4096))], f"{changed}")


def options_of_the_volume_are_kept_or_given():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "16M", "--engine", "zstd", "--service-class", "capacity", "--level", "5")
        c.cleave("backup", "v@a", path(c, "a"), "--snapshot")
        c.cleave("restore", path(c, "a"), "w")
        c.cleave("restore", path(c, "a"), "x", "--engine", "lz4", "--size", "32M")
        shown = [json.loads(c.cleave("--json", "volume", "show", name).stdout)["volume"]
                 for name in ("v", "w", "x")]
        for key in ("size_bytes", "engine", "service_class", "level", "replicas"):
            check(shown[0][key] == shown[1][key], f"{key}: {shown[0]} {shown[1]}")
        check((shown[2]["engine"], shown[2]["size_bytes"]) == ("lz4", 32 * MIB), f"{shown[2]}")


def options_that_a_volume_which_is_there_does_not_have_are_refused():
    """It was made with others: none is dropped in silence, neither over a volume nor where a restore goes on."""
    with Cluster(nodes=3) as c:
        import_random(c, "v", 16 * MIB, ((0, 8 * MIB),))
        file = path(c, "a")
        c.cleave("backup", "v@a", file, "--snapshot")
        c.volume_create("w", "16M")
        before = content(c, "w")
        with open(file, "rb") as f:
            half = f.read(size_of(file) // 2)
        cut = subprocess.run(argv(c, "restore", "-", "r", "--engine", "lz4", "--size", "32M"), input=half,
                             capture_output=True, timeout=WAIT_S)
        part = next(v for v in volumes(c) if v.startswith("r.restore-"))
        check(cut.returncode == 1 and part in cut.stderr.decode(), f"{cut}")
        for words, pattern in (
            (("--encrypt",), "is not encrypted"),
            (("--kek", "k"), "is not encrypted"),
            (("--size", "64M"), "--size"),
            (("--service-class", "capacity"), "--service-class"),
            (("--engine", "zstd"), "--engine"),
            (("--level", "7"), "--level"),
            (("--replicas", "2"), "--replicas"),
        ):
            expect_error(c.cleave("restore", file, "w", "--force", *words, check_rc=False), "volume 'w'", words[0],
                         pattern, "leave that out")
            expect_error(c.cleave("restore", file, "r", *words, check_rc=False), f"volume '{part}'", words[0], pattern,
                         "cleave volume delete")
        check(content(c, "w") == before and part in volumes(c), "they were written to")
        # What it has may be said, as when it was begun.
        c.cleave("restore", file, "w", "--force", "--size", "16M", "--replicas", "3")
        c.cleave("restore", file, "r", "--engine", "lz4", "--size", "32M", "--verify")
        check(part not in volumes(c), f"{volumes(c)}")


def through_pipes():
    with Cluster(nodes=3) as c:
        import_random(c, "v", 32 * MIB, ((MIB, 3 * MIB),))
        c.cleave("snapshot", "create", "v@a")
        out = subprocess.Popen(argv(c, "backup", "v@a", "-"), stdout=subprocess.PIPE)
        done = subprocess.run(argv(c, "restore", "-", "w"), stdin=out.stdout, capture_output=True,
                              text=True, timeout=WAIT_S)
        check(out.wait() == 0 and done.returncode == 0, done.stderr)
        check(content(c, "w") == content(c, "v@a"), "through a pipe")
        # A reader that goes away is an error, and said so.
        out = subprocess.Popen(argv(c, "backup", "v@a", "-"), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=False)
        out.stdout.close()
        text = out.stderr.read().decode()
        check(out.wait() == 1 and "Broken pipe" in text, text)
        # One that is cut off makes no volume.
        c.cleave("backup", "v@a", path(c, "a"))
        with open(path(c, "a"), "rb") as f:
            part = f.read(size_of(path(c, "a")) - 1)
        done = subprocess.run(argv(c, "restore", "-", "x"), input=part, capture_output=True,
                              timeout=WAIT_S)
        check(done.returncode == 1 and b"ends in the middle" in done.stderr, f"{done}")
        check("x" not in volumes(c), f"{volumes(c)}")


def what_is_no_chain_is_refused():
    with Cluster(nodes=3) as c:
        a, b, third, d = a_chain(c)
        c.volume_create("u", "64M")
        other = path(c, "other")
        c.cleave("backup", "u@x", other, "--snapshot")
        write(c, "u", "write -P 7 1M 64k")
        on_other = path(c, "on_other")
        c.cleave("backup", "u@y", on_other, "--snapshot", "--from", "x")
        before = volumes(c)
        for files, text in [
            ((a, third), "the backup of b of [-0-9T:]*Z is missing"), ((b,), "only what changed since snapshot a"),
            ((b, a), "only what changed"), ((a, b, d), "the backup of c of [-0-9T:]*Z is missing"),
            ((a, on_other), "another volume, u"), ((a, other), "full backup"),
            ((a, path(c, "nothing")), "nothing: No such file"), (("/dev/null",), "shorter than the head"),
            ((binary("cleave"),), "no backup of cleave's"),
        ]:
            expect_error(c.cleave("restore", *files, "r", check_rc=False), text)
            expect_error(c.cleave("backup", "merge", *files, path(c, "out"), check_rc=False), text)
            check(volumes(c) == before, f"{files}: {volumes(c)}")
        expect_error(c.cleave("backup", "verify", a, third, check_rc=False), "the backup of b of [-0-9T:]*Z is missing")
        check(not os.path.exists(path(c, "out")), "a merge that failed")
        for words, text in [
            (("v", "x"), "VOLUME@SNAPSHOT is wanted"), (("v@z", "x"), "no snapshot 'z'"),
            (("v@b", "x", "--from", "z"), "no snapshot 'z' any more"),
            (("v@a", "x", "--from", "b"), "not older"), (("v@a", "x", "--from", "a"), "not older"),
            (("v@a", "x", "--from", "u@x"), "no snapshot of volume 'v'"),
            (("w@a", "x"), "w"), (("v@a", a), "exists; --force"), (("v@a", c.folder), "no regular"),
            (("v@a", "x", "--snapshot"), "already"), (("v@a", "/nowhere/x"), "/nowhere/x"),
        ]:
            name = path(c, "x") if words[1] == "x" else words[1]
            expect_error(c.cleave("backup", words[0], name, *words[2:], check_rc=False), text)
        check(not os.path.exists(path(c, "x")) and not os.path.exists(path(c, "x.part")), "x")
        c.cleave("backup", "v@a", a, "--force")
        c.cleave("restore", a, "r")
        check(content(c, "r") == content(c, "v@a"), "written once more")


def a_backup_is_no_image():
    """qemu-img takes any file for a raw disk: a volume of zstd is no disk of anybody's."""
    with Cluster(nodes=3) as c:
        import_random(c, "v", MIB, ((0, MIB),))
        file = path(c, "file")
        c.cleave("backup", "v@a", file, "--snapshot")
        expect_error(c.cleave("import", file, "w", check_rc=False), "is a backup, of v@a", "cleave restore")
        check(volumes(c) == ["v"], f"{volumes(c)}")
        c.cleave("import", file, "w", "--format", "raw")


def bytes_that_went_bad_are_found():
    with Cluster(nodes=3) as c:
        files = a_chain(c)
        whole = open(files[0], "rb").read()
        before = volumes(c)
        dice = random.Random(3)
        c.volume_create("over", "64M")
        write(c, "over", "write -P 5 0 64M")
        was = content(c, "over")
        # Each field of the head, of a frame's head, of what is in it, of the end.
        for at in [0, 8, 20, 40, 104, 150, 300, 511, *range(512, 576, 7), 600, len(whole) - 64,
                   len(whole) - 1, *(dice.randrange(len(whole)) for _ in range(6))]:
            with open(files[0], "wb") as f:
                f.write(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1:])
            expect_error(c.cleave("backup", "verify", files[0], check_rc=False), files[0])
        # The last frame's: --force has read them all before it writes one.
        expect_error(c.cleave("restore", files[0], "over", "--force", check_rc=False), "damaged|end",
                     "'over' is as it was")
        check(content(c, "over") == was, "it was written to")
        with open(files[0], "wb") as f:
            f.write(whole[:-200])
        expect_error(c.cleave("backup", "verify", files[0], check_rc=False), "ends in the middle")
        expect_error(c.cleave("restore", files[0], "r", check_rc=False), "ends in the middle",
                     "run it again to go on")
        check("r" not in volumes(c), f"{volumes(c)}")
        # The file is brought again: what was restored of it stays.
        with open(files[0], "wb") as f:
            f.write(whole)
        c.cleave("restore", *files[:1], "r", "--verify")
        check(sorted(volumes(c)) == sorted([*before, "over", "r"]), f"{volumes(c)}")
        check(content(c, "r") == content(c, "v@a"), "after it was brought again")


def one_that_is_there_is_written_over_when_said():
    with Cluster(nodes=3, gateways=2) as c:
        files = a_chain(c)
        c.volume_create("w", "64M")
        write(c, "w", "write -P 5 0 64M")
        expect_error(c.cleave("restore", files[0], "w", check_rc=False), "exists; --force")
        expect_error(c.cleave("restore", *files, "w", "--force", check_rc=False), "resize it first")
        c.cleave("restore", files[0], files[1], "w", "--force", "--verify")
        check(content(c, "w") == content(c, "v@b"), "written over")
        load = subprocess.Popen(c.load_argv("--volume", "w", "--seconds", "600", "--quiet"),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            wait_for(lambda: "holder" in c.cleave("--json", "volume", "show", "w").stdout, "the load")
            expect_error(c.cleave("restore", files[0], "w", "--force", check_rc=False), "in use by",
                         "--take")
            c.cleave("restore", files[0], "w", "--force", "--take")
            load.communicate(timeout=WAIT_S)
        finally:
            load.kill()
        check(load.returncode == 1 and content(c, "w") == content(c, "v@a"), "taken")
        over_in_part(c, files[0])


def over_in_part(c, file):
    """Somebody takes the volume when it is written over in part: the text says so, and again is enough."""
    c.cleave("volume", "set", "w", "--iops", "1")
    before = c.cleave("--json", "volume", "show", "w").stdout
    restore = subprocess.Popen([binary("cleave"), *c.gateway_words(), "restore", file, "w", "--force", "--purge"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: "holder" in c.cleave("--json", "volume", "show", "w").stdout, "the restore")
        check("holder" not in before, before)
        c.load("--volume", "w", "--take", "--operations", "1")
        _, said = restore.communicate(timeout=WAIT_S)
    finally:
        restore.kill()
    check(restore.returncode == 1 and "in part as it was" in said and "--force" in said, said)
    c.cleave("volume", "set", "w", "--iops", "0")
    c.cleave("restore", file, "w", "--force", "--verify")


def a_backup_that_is_killed_goes_on():
    with Cluster(nodes=3, shards=4) as c:
        import_random(c, "v", 128 * MIB, ((0, 96 * MIB),))
        c.cleave("snapshot", "create", "v@a")
        out = path(c, "out")
        with slowly(c, "v", "16M"):
            backup = frozen(c, out, 20 * MIB, "v@a")
            backup.kill()
            backup.wait()
            c.gateway.signal(signal.SIGCONT)
        part = size_of(out + ".part")
        check(20 * MIB < part and not os.path.exists(out), f"{part} bytes of it")
        # One that is of something else is not taken for this one's.
        c.cleave("snapshot", "create", "v@b")
        expect_error(c.cleave("backup", "v@b", out, check_rc=False), "in the way", "v@a", "--force")
        with open(out + ".part", "ab") as f:
            f.write(b"half a frame" * 100)
        told = json.loads(c.cleave("--json", "backup", "v@a", out).stdout)
        check(told["resumed_bytes"] > part - 2 * MIB, f"{part}: {told}")
        c.cleave("backup", "verify", out)
        again = path(c, "again")
        c.cleave("backup", "v@a", again)
        # The id and the time of their heads alone differ, and what follows from these.
        check(size_of(again) == size_of(out), "it is not what one without a kill is")
        c.cleave("restore", out, "r", "--verify")
        check(content(c, "r") == content(c, "v@a"), "the volume")
        # Killed between the last byte and the name.
        os.rename(again, out + "2.part")
        c.cleave("backup", "v@a", out + "2")
        c.cleave("backup", "verify", out + "2")


def what_is_in_its_way_is_left_alone():
    """Somebody's file that is called FILE.part, however short; and a link, to wherever it leads."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        write(c, "v", "write -P 1 0 1M")
        c.cleave("snapshot", "create", "v@a")
        out, notes = path(c, "out"), path(c, "notes")
        with open(out + ".part", "w") as f:
            f.write("notes")
        expect_error(c.cleave("backup", "v@a", out, check_rc=False), "in the way: it is no backup", "--force")
        check(size_of(out + ".part") == 5, "what was there")
        c.cleave("backup", "v@a", out, "--force")
        with open(out, "rb") as f, open(notes, "wb") as part:
            part.write(f.read(5))
        os.symlink(notes, path(c, "linked.part"))
        expect_error(c.cleave("backup", "v@a", path(c, "linked"), check_rc=False), "in the way: it is a symbolic link")
        # The beginning of a head is of a backup that was killed at once.
        os.rename(notes, path(c, "again.part"))
        c.cleave("backup", "v@a", path(c, "again"))
        c.cleave("backup", "verify", path(c, "again"))


def begun(c, out, *words):
    """A backup that has made its part, and waits for the gateway, which stands still."""
    c.gateway.signal(signal.SIGSTOP)
    backup = subprocess.Popen(argv(c, "backup", *words, out), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True)
    wait_for(lambda: has_locked(backup) or backup.poll() is not None, "a part")
    return backup


def has_locked(process):
    """It has a lock, and has nothing to do any more."""
    with open("/proc/locks") as locks, open(f"/proc/{process.pid}/stat") as stat:
        return (any(line.split()[1] == "FLOCK" and line.split()[4] == str(process.pid) for line in locks) and
                stat.read().rpartition(")")[2].split()[0] == "S")


def two_of_one_file_leave_each_other_alone():
    with Cluster(nodes=3) as c:
        import_random(c, "v", 16 * MIB, ((0, 3 * MIB),))
        c.cleave("snapshot", "create", "v@a")
        out = path(c, "out")
        first = begun(c, out, "v@a")
        expect_error(c.cleave("backup", "v@a", out, check_rc=False), "another cleave writes it")
        check(os.path.exists(out + ".part"), "the second one has removed the first one's part")
        c.gateway.signal(signal.SIGCONT)
        _, said = first.communicate(timeout=WAIT_S)
        check(first.returncode == 0, said)
        c.cleave("backup", "verify", out)
        check(not os.path.exists(out + ".part"), "a part is left")
        # Another file has the name of its part by then, or none has.
        for text in ("another one's", None):
            os.unlink(out)
            backup = begun(c, out, "v@a")
            os.unlink(out + ".part")
            if text is not None:
                with open(out + ".part", "w") as f:
                    f.write(text)
            c.gateway.signal(signal.SIGCONT)
            _, said = backup.communicate(timeout=WAIT_S)
            check(backup.returncode == 1 and "out.part: " in said and "run it again" in said, said)
            check(not os.path.exists(out), f"{out} is another one's, or empty")
            if text is not None:
                check(open(out + ".part").read() == text, "what another one wrote")
                os.unlink(out + ".part")
            c.cleave("backup", "v@a", out)
        # An empty one that was there stays: it is not this one's.
        os.unlink(out)
        with open(out + ".part", "wb"):
            pass
        expect_error(c.cleave("backup", "v@z", out, check_rc=False), "no snapshot 'z'")
        check(os.path.exists(out + ".part"), "it was another one's")
        c.cleave("backup", "v@a", out)
        c.cleave("backup", "verify", out)


def a_file_that_came_meanwhile_is_not_replaced():
    with Cluster(nodes=3) as c:
        import_random(c, "v", 8 * MIB, ((0, 4 * MIB),))
        c.cleave("snapshot", "create", "v@a")
        out = path(c, "out")
        backup = begun(c, out, "v@a")
        with open(out, "w") as f:
            f.write("somebody's")
        c.gateway.signal(signal.SIGCONT)
        _, said = backup.communicate(timeout=WAIT_S)
        check(backup.returncode == 1 and "exists, and did not when this began" in said, said)
        with open(out) as f:
            check(f.read() == "somebody's", "it was replaced")
        # All of it is there, and is it when that is said.
        c.cleave("backup", "v@a", out, "--force")
        c.cleave("backup", "verify", out)
        check(not os.path.exists(out + ".part"), "two of it")


def snapshots(c):
    return [s["name"] for s in json.loads(c.cleave("--json", "snapshot", "list").stdout)["snapshots"]]


def a_backup_that_is_refused_takes_no_snapshot():
    with Cluster(nodes=3) as c:
        import_random(c, "v", MIB, ((0, MIB),))
        c.cleave("snapshot", "create", "v@a")
        out, there, locked = path(c, "out", "there", "locked")
        with open(there, "w") as f:
            f.write("somebody's")
        c.cleave("backup", "v@a", out)
        os.rename(out, locked + ".part")
        for name, words, text in (("/nowhere/out", (), "No such file"), (there, (), "exists; --force"),
                                  (c.folder, (), "no regular file"), (out, ("--from", "z"), "no snapshot 'z'"),
                                  (out, ("--from", "b"), "not older than"),
                                  (locked, (), r"is in the way: it is of v@a")):
            expect_error(c.cleave("backup", "v@b", name, "--snapshot", *words, check_rc=False), text)
            check(snapshots(c) == ["a"], f"{name} {words}: {snapshots(c)}")
        check(not os.path.exists(out) and not os.path.exists(out + ".part"), "a part of nothing")
        c.cleave("backup", "v@b", locked, "--snapshot", "--force")
        c.cleave("backup", "v@c", out, "--snapshot", "--from", "b")
        check(sorted(snapshots(c)) == ["a", "b", "c"], f"{snapshots(c)}")


class Tap(Proxy):
    """Between a command and the gateway: @seen is set when that has told the volume's snapshots."""

    def __init__(self, address):
        self.seen = threading.Event()
        host, port = address.removeprefix("tcp://").rsplit(":", 1)
        super().__init__(host, int(port))

    def _read(self, flow):
        super()._read(flow)
        if flow.source.getpeername() == self.target and any(b'{"snapshots":' in data for _, data in flow.queue):
            self.seen.set()


def with_its_head_stuck(c, name, *words):
    """A backup into a pipe that is full: it has looked for its snapshots, and opens them when the pipe is read."""
    reader, writer = os.pipe()
    room = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.write(writer, bytes(room))
    tap = Tap(c.gateway_addresses[0])
    backup = subprocess.Popen([binary("cleave"), "--gateway", tap.address, "backup", name, *words, "-"],
                              stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    check(tap.seen.wait(WAIT_S) and backup.poll() is None, "it has not asked for its snapshots")
    return backup, reader


def unstick(backup, reader):
    with open(reader, "rb") as f:
        f.read()
    return backup.communicate(timeout=WAIT_S)[1].decode()


def a_name_that_another_snapshot_has_by_now_is_not_backed_up():
    with Cluster(nodes=3) as c:
        import_random(c, "v", 8 * MIB, ((0, MIB),))
        c.cleave("snapshot", "create", "v@a")
        backup, reader = with_its_head_stuck(c, "v@a")
        c.cleave("snapshot", "delete", "v@a")
        write(c, "v", "write -P 7 0 64k")
        c.cleave("snapshot", "create", "v@a")
        said = unstick(backup, reader)
        check(backup.returncode == 1 and "'v@a' is another one by now" in said, said)
        # The older one alone: what is said to have changed has changed since another moment.
        for name in ("v@b", "v@d"):
            c.cleave("snapshot", "create", name)
        backup, reader = with_its_head_stuck(c, "v@d", "--from", "a")
        c.cleave("snapshot", "rename", "v@a", "x")
        c.cleave("snapshot", "rename", "v@b", "a")
        said = unstick(backup, reader)
        check(backup.returncode == 1 and "'v@a' is another one by now" in said, said)
        # Another volume's of the same names.
        c.volume_create("u", "8M")
        for name in ("u@a", "u@d"):
            c.cleave("snapshot", "create", name)
        backup, reader = with_its_head_stuck(c, "v@d", "--from", "a")
        c.cleave("volume", "rename", "v", "w")
        c.cleave("volume", "rename", "u", "v")
        said = unstick(backup, reader)
        check(backup.returncode == 1 and "'v@d' is another one by now" in said, said)


def a_restore_that_is_killed_goes_on():
    with Cluster(nodes=3, shards=4, gateway_args=("--session-timeout", "2s")) as c:
        import_random(c, "v", 96 * MIB, ((0, 64 * MIB),))
        a, b = path(c, "a", "b")
        c.cleave("backup", "v@a", a, "--snapshot")
        write(c, "v", "write -P 7 1M 64k", "discard 2M 1M", "write -P 8 90M 64k")
        c.cleave("backup", "v@b", b, "--snapshot", "--from", "a")
        restore, rest = half_restored(c, a, "r", b)
        rest.close()
        restore.kill()
        restore.wait()
        restore.stdin.close()
        check("r" not in volumes(c) and [v for v in volumes(c) if v.startswith("r.restore-")],
              f"{volumes(c)}")
        c.gateway.kill()
        c.gateway.start()
        before = c.metric("write_bytes")
        # Its session has ended by then, or is waited for.
        c.cleave("restore", a, b, "r", "--verify")
        written = c.metric("write_bytes") - before
        check(written < 42 * MIB, f"{written} bytes were written once more")
        check(content(c, "r") == content(c, "v@b"), "the volume")
        check(not [v for v in volumes(c) if "restore-" in v], f"{volumes(c)}")


def a_gateway_dies_meanwhile():
    with Cluster(nodes=3, shards=4) as c:
        import_random(c, "v", 96 * MIB, ((0, 64 * MIB),))
        c.cleave("snapshot", "create", "v@a")
        out = path(c, "out")
        with slowly(c, "v", "8M"):
            backup = frozen(c, out, 8 * MIB, "v@a")
            c.gateway.kill()
            c.gateway.start()
        check(backup.wait(WAIT_S) == 0, "the backup")
        c.cleave("backup", "verify", out)
        restore, rest = half_restored(c, out, "r")
        c.gateway.kill()
        c.gateway.start()
        with rest:
            restore.stdin.write(rest.read())
        restore.stdin.close()
        check(restore.wait(WAIT_S) == 0, "the restore")
        check(content(c, "r") == content(c, "v@a"), "the volume")


def a_full_disk_is_told_and_gone_on_from():
    with Cluster(nodes=3) as c:
        import_random(c, "v", 32 * MIB, ((0, 16 * MIB),))
        c.cleave("snapshot", "create", "v@a")
        out = path(c, "out")

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (5 * MIB, resource.RLIM_INFINITY))

        done = subprocess.run(argv(c, "backup", "v@a", out), preexec_fn=limit, capture_output=True,
                              text=True, timeout=WAIT_S)
        expect_error(done, "File too large", "make room, and run it again")
        check(not os.path.exists(out) and size_of(out + ".part") == 5 * MIB, "the part")
        told = json.loads(c.cleave("--json", "backup", "v@a", out).stdout)
        check(told["resumed_bytes"] > 3 * MIB, f"{told}")
        c.cleave("restore", out, "r", "--verify")
        check(content(c, "r") == content(c, "v@a"), "the volume")


def snapshots_are_rotated_by_the_clock():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "16M")
        names = [f"auto-2020-11-{day:02}T{hour:02}00Z" for day in (1, 2, 9, 10) for hour in (1, 2)]
        mine = ["monday", "auto-", "auto-2020-11-10T0900", "auto-2020-11-31T0900Z"]
        for name in [*names, *mine]:
            c.cleave("snapshot", "create", f"v@{name}")

        def left():
            found = json.loads(c.cleave("--json", "snapshot", "list", "v").stdout)["snapshots"]
            return {s["name"] for s in found}

        result = c.cleave("snapshot", "rotate", "v", check_rc=False)
        expect_error(result, "no rule was given", codes=(2,))
        rules = ("--hourly", "2", "--daily", "3", "--weekly", "3")
        c.cleave("snapshot", "protect", f"v@{names[0]}")
        told = json.loads(c.cleave("--json", "snapshot", "rotate", "v", *rules, "--dry-run").stdout)
        check(left() == {*names, *mine}, "--dry-run")
        said = c.cleave("snapshot", "rotate", "v", *rules, "--dry-run").stdout
        check(said.count("would be deleted") == len(told["deleted"]) == 4, f"{told}\n{said}")
        # A clone keeps what it was made of.
        c.cleave("clone", f"v@{names[2]}", "clone")
        told = json.loads(c.cleave("--json", "snapshot", "rotate", "v", *rules).stdout)
        taken = told["taken"]
        # Of each: today's new one; 10th, 9th; the weeks of today, of the 9th, of the 2nd. The protected one, and what the clone keeps.
        check(left() == {*mine, taken, names[7], names[5], names[3], names[0], names[2]},
              f"{sorted(left())}")
        c.cleave("volume", "delete", "clone", "--purge")
        c.cleave("snapshot", "unprotect", f"v@{names[0]}")
        c.cleave("snapshot", "rotate", "v", "--hourly", "1")
        check({name for name in left() if name not in mine} <=
              {taken, max(left() - set(mine))} and len(left() - set(mine)) == 1, f"{left()}")
        check(set(mine) <= left(), "those of others")
        # The clock was ahead: what it left takes nobody's place, and is not silent.
        ahead = [f"auto-2999-11-{day:02}T0100Z" for day in range(1, 4)]
        before = left()
        for name in ahead:
            c.cleave("snapshot", "create", f"v@{name}")
        result = c.cleave("snapshot", "rotate", "v", "--hourly", "2", check_rc=False)
        expect_error(result, "v@auto-2999-11-01T0100Z stays", "3 snapshots are of a time that has not come", codes=(1,))
        check({*ahead, *before} <= left(), f"{left()}")
        expect_error(c.cleave("snapshot", "rotate", "w", "--hourly", "1", check_rc=False), "w")


if __name__ == "__main__":
    main(full_and_incremental_ones_restore_each_snapshot,
         across_a_roll_back_what_was_trimmed_is_there_again, what_became_zeros_costs_nothing,
         options_of_the_volume_are_kept_or_given,
         options_that_a_volume_which_is_there_does_not_have_are_refused,
         through_pipes, what_is_no_chain_is_refused, a_backup_is_no_image, bytes_that_went_bad_are_found,
         one_that_is_there_is_written_over_when_said, a_backup_that_is_killed_goes_on, what_is_in_its_way_is_left_alone,
         two_of_one_file_leave_each_other_alone, a_file_that_came_meanwhile_is_not_replaced,
         a_backup_that_is_refused_takes_no_snapshot, a_name_that_another_snapshot_has_by_now_is_not_backed_up,
         a_restore_that_is_killed_goes_on, a_gateway_dies_meanwhile,
         a_full_disk_is_told_and_gone_on_from, snapshots_are_rotated_by_the_clock)
