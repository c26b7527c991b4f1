#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cleave import and export: what comes out is what went in, holes take no space, failures leave
nothing behind."""
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

from libagent import EPERM, Agent, Client, need
from libcluster import WAIT_S, Cluster, binary, check, expect_error, main, run_argv, wait_for
from libkeys import Authority, Keyed

need("qemu-img", "qemu-io", "nbdinfo")

MIB = 1 << 20


def digest(path, bytes_=None):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read(bytes_)).hexdigest()


def make_image(path, size, data):
    """A sparse file with `data`: (offset, bytes)..."""
    with open(path, "wb") as f:
        f.truncate(size)
        for offset, count in data:
            f.seek(offset)
            f.write(os.urandom(count))


def disk_bytes(path):
    return os.stat(path).st_blocks * 512


def volumes(c):
    return [v["name"] for v in json.loads(c.cleave("--json", "volume", "list").stdout)["volumes"]]


def leftovers():
    return {name for name in os.listdir("/tmp") if name.startswith("cleave-image-")}


def expect_none_left(before):
    """Folders of other tests' images, which run beside this one, go by themselves."""
    wait_for(lambda: leftovers() <= before, "something was left behind")


def raw_and_qcow2_there_and_back():
    with Cluster(nodes=3) as c:
        raw, qcow2 = (os.path.join(c.folder, name) for name in ("a:b.raw", "image"))
        before = leftovers()
        make_image(raw, 96 * MIB, ((0, MIB), (40 * MIB + 512, 3 * MIB), (96 * MIB - 512, 512)))
        run_argv(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, qcow2])
        said = c.cleave("import", raw, "v", "--engine", "zstd").stdout
        # Its data begins and ends within blocks.
        check(re.fullmatch(rf"v: imported from {re.escape(raw)}, raw: 96 MiB in 24576 blocks, 10(26|27) of them data; "
                           r"\d+\.\d s\n", said), said)
        check(c.metric("writes") < 200, f"{c.metric('writes')} writes for 4 MiB of data")
        c.cleave("import", "--progress", qcow2, "w")
        for name, file, words in (("v", "v.raw", ()), ("v", "v.qcow2", ("--progress",)),
                                  ("w", "w", ()), ("w", "w2", ("--format", "qcow2"))):
            out = os.path.join(c.folder, file)
            shown = c.cleave("export", name, out, *words).stdout
            check(("100.00/100%" in shown) == ("--progress" in words), f"progress: {shown}")
            check(re.search(rf"{re.escape(out)}: exported from {name}, (raw|qcow2): 96 MiB in 24576 blocks, \d+ of them "
                            r"data; the file takes \S+ [KM]iB; \d+\.\d s\n\Z", shown), shown)
            kind = json.loads(run_argv(["qemu-img", "info", "--output=json", out]).stdout)
            is_qcow2 = "2" in file
            check(kind["format"] == ("qcow2" if is_qcow2 else "raw"), str(kind))
            # 4 MiB of data of 96; a file system in memory may give 2 MiB at a time.
            check(disk_bytes(out) < 12 * MIB, f"{file} is not sparse: {disk_bytes(out)} bytes")
            if is_qcow2:
                run_argv(["qemu-img", "check", out])
                run_argv(["qemu-img", "convert", "-O", "raw", out, out + ".raw"])
                out += ".raw"
            check(digest(out) == digest(raw), f"{file} is not what was imported")
        check(oct(os.stat(os.path.join(c.folder, "v.raw")).st_mode & 0o777) == "0o644", "rights")
        expect_none_left(before)


def data_bytes(words, is_data):
    return sum(e["length"] for e in json.loads(run_argv(words).stdout) if is_data(e))


def sparse_regions_stay_sparse():
    """Clusters of all kinds that qcow2 has; in the volume and in what comes out holes are holes."""
    with Cluster(nodes=3) as c:
        raw, qcow2, out = (os.path.join(c.folder, n) for n in ("raw", "in.qcow2", "out"))
        # Data that compresses, data that does not, a part of a cluster, and the very end.
        make_image(raw, 256 * MIB, ((0, 65536), (64 * MIB, 2 * MIB), (128 * MIB + 4096, 8192),
                                    (256 * MIB - 4096, 4096)))
        with open(raw, "r+b") as f:
            f.seek(32 * MIB)
            f.write(b"compresses" * 100000)
        run_argv(["qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", raw, qcow2])
        # Zero clusters where data was, clusters that are not there any more, a snapshot inside.
        for command in ("write -P 9 200M 1M", "write -z 200M 1M", "write -P 9 210M 1M",
                        "discard 210M 1M", "write -z 64M 1M"):
            run_argv(["qemu-io", "-f", "qcow2", "-c", command, qcow2])
        run_argv(["qemu-img", "snapshot", "-c", "inside", qcow2])
        want = data_bytes(["qemu-img", "map", "--output=json", qcow2], lambda e: e["data"])
        check(0 < want < 8 * MIB, f"the image itself has {want} bytes")
        c.cleave("import", qcow2, "v")
        with Agent(c) as agent:
            held = data_bytes(["nbdinfo", "--map", "--json", agent.uri()],
                              lambda e: e["type"] == 0)
            check(0 < held <= want, f"the volume holds {held} bytes of {want}")
            seen = data_bytes(["qemu-img", "map", "-f", "raw", "--output=json", agent.uri()],
                              lambda e: e["data"])
            check(seen == held, f"qemu-img sees {seen} bytes of data, nbdinfo {held}")
            run_argv(["qemu-img", "compare", "-f", "qcow2", "-F", "raw", qcow2, agent.uri()])
        for kind in ("raw", "qcow2"):
            c.cleave("export", "v", out, "--force", "--format", kind)
            run_argv(["qemu-img", "compare", "-f", "qcow2", "-F", kind, qcow2, out])
            got = data_bytes(["qemu-img", "map", "-f", kind, "--output=json", out],
                             lambda e: e["data"])
            check(got <= want + MIB, f"{kind}: {got} bytes of data, {want} wanted")
            check(disk_bytes(out) < 8 * MIB, f"{kind}: {disk_bytes(out)} bytes on the disk")
            # And in again: the same volume.
            c.cleave("import", out, f"again-{kind}")
        with Agent(c, "--volume", "v", "--volume", "again-raw", "--volume", "again-qcow2") as agent:
            for name in ("again-raw", "again-qcow2"):
                run_argv(["qemu-img", "compare", "-f", "raw", "-F", "raw", agent.uri("v"),
                          agent.uri(name)])


def a_guest_reads_no_file_of_the_host():
    """Its raw disk begins as an image of another file does: qemu-img would take it for that, and copy the file."""
    with Cluster(nodes=3) as c:
        secret, disk, outside, vmdk, flat = (
            os.path.join(c.folder, n) for n in ("secret", "disk.raw", "outside", "whole", "flat"))
        make_image(secret, MIB, ((0, MIB),))
        run_argv(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", secret, disk])
        run_argv(["qemu-img", "create", "-q", "-f", "qcow2", "-o", f"data_file={outside}.data", outside, "1M"])
        run_argv(["qemu-img", "create", "-q", "-f", "vmdk", vmdk, "1M"])
        run_argv(["qemu-img", "create", "-q", "-f", "vmdk", "-o", "subformat=monolithicFlat", flat, "1M"])
        for path, kind, other in ((disk, "qcow2", "secret"), (outside, "qcow2", r"outside\.data"),
                                  (flat, "vmdk", "flat-flat")):
            expect_error(c.cleave("import", path, "v", check_rc=False), other, f"--format {kind}", "--format raw")
            check(volumes(c) == [], "something was made of it")
            c.cleave("import", "--format", kind, path, f"said-{kind}")
            c.cleave("volume", "delete", f"said-{kind}", "--purge")
        c.cleave("import", "--format", "raw", disk, "v")
        c.cleave("export", "v", disk + ".out")
        check(digest(disk + ".out", os.path.getsize(disk)) == digest(disk), "not the disk itself")
        c.cleave("import", vmdk, "w")


def sizes():
    with Cluster(nodes=3) as c:
        odd, out = os.path.join(c.folder, "odd"), os.path.join(c.folder, "out")
        make_image(odd, 5000, ((0, 5000),))
        c.cleave("import", odd, "v")
        c.cleave("export", "v", out)
        check(os.path.getsize(out) == 8192, "rounded up to whole blocks")
        check(digest(out, 5000) == digest(odd), "what was imported")
        with open(out, "rb") as f:
            f.seek(5000)
            check(f.read() == bytes(3192), "zeroes behind it")
        c.cleave("import", odd, "w", "--size", "1M")
        c.cleave("export", "--force", "w", out)
        check(os.path.getsize(out) == MIB and digest(out, 5000) == digest(odd), "--size")
        expect_error(c.cleave("import", odd, "x", "--size", "4k", check_rc=False), "more than --size")
        check(sorted(volumes(c)) == ["v", "w"], str(volumes(c)))


def nothing_is_overwritten_unasked():
    with Cluster(nodes=3) as c:
        image, out = os.path.join(c.folder, "image"), os.path.join(c.folder, "out")
        make_image(image, 3 * MIB, ((0, 3 * MIB),))
        c.volume_create("v", "4M")
        expect_error(c.cleave("import", image, "v", check_rc=False), "exists", "--force")
        c.cleave("import", image, "v", "--force")
        # Zeroes, too, are written over what was there.
        make_image(image, 3 * MIB, ((MIB, 4096),))
        c.cleave("import", image, "v", "--force")
        c.cleave("export", "v", out)
        check(digest(out, 3 * MIB) == digest(image), "what was imported last")
        was = digest(out)
        expect_error(c.cleave("export", "v", out, check_rc=False), "exists", "--force")
        expect_error(c.cleave("export", "v", c.folder, check_rc=False), "no regular file")
        missing = c.cleave("export", "v@s", out + ".s", check_rc=False)
        expect_error(missing, "volume 'v' has no snapshot 's': cleave snapshot list v")
        check(missing.stderr.count("\n") == 1 and not os.path.exists(out + ".s"), missing.stderr)
        expect_error(c.cleave("export", "v", "-", check_rc=False), "no file of an image", "cleave backup")
        check(not os.path.exists("-"), "a file of that name")
        check(digest(out) == was, "it was changed")
        c.volume_create("small", "1M")
        expect_error(c.cleave("import", image, "small", "--force", check_rc=False), "1048576")


def kept(c, name, verb):
    found = [f"{name}@{s['name']}" for s in json.loads(c.cleave("--json", "snapshot", "list", name).stdout)["snapshots"]]
    check(all(f"{name}@before-{verb}-" in s for s in found), str(found))
    return found


def what_was_there_is_kept_unless_said():
    """--force with a wrong name: a snapshot has what was there, and a roll-back brings it back."""
    with Cluster(nodes=3) as c:
        old, new, file, out = (os.path.join(c.folder, n) for n in ("old", "new", "file", "out"))
        make_image(old, 3 * MIB, ((0, 3 * MIB),))
        make_image(new, 2 * MIB, ((0, 2 * MIB),))
        c.volume_create("v", "4M")
        c.cleave("import", old, "v", "--force")
        check(kept(c, "v", "import") == [], "of an empty volume there is nothing to keep")
        c.cleave("snapshot", "create", "v@s")
        c.cleave("backup", "v@s", file)
        c.cleave("snapshot", "delete", "v@s")
        said = c.cleave("import", new, "v", "--force").stdout
        snapshots = kept(c, "v", "import")
        check(len(snapshots) == 1 and snapshots[0] in said and "rollback" in said, f"{snapshots}: {said}")
        c.cleave("snapshot", "rollback", snapshots[0], "--force")
        c.cleave("export", "v", out)
        check(digest(out, 3 * MIB) == digest(old), "it is not what was there")
        c.cleave("snapshot", "delete", snapshots[0])
        c.cleave("import", new, "v", "--force", "--purge")
        check(kept(c, "v", "import") == [], "kept, though --purge was said")
        said = json.loads(c.cleave("--json", "restore", file, "v", "--force").stdout)
        snapshots = kept(c, "v", "restore")
        check(snapshots == [said["kept"]], f"{snapshots}: {said}")
        c.cleave("export", "v", out, "--force")
        check(digest(out, 3 * MIB) == digest(old), "what was restored")
        c.cleave("export", snapshots[0], out, "--force")
        check(digest(out, 2 * MIB) == digest(new), "what was kept")
        c.cleave("restore", file, "v", "--force", "--purge")
        check(kept(c, "v", "restore") == snapshots, "kept, though --purge was said")


def behind_an_image_nothing_of_the_old_is_left():
    """Over a larger volume it is as in a new one of that size: zeros up to the end, in the image's last block, too."""
    with Cluster(nodes=3) as c:
        image, out = os.path.join(c.folder, "image"), os.path.join(c.folder, "out")
        for size, words in ((5000, ()), (MIB, ("--take",)), (4 * MIB, ())):
            make_image(image, 4 * MIB, ((0, 4 * MIB),))
            c.cleave("import", image, "v", "--force")
            make_image(image, size, ((0, size),))
            c.cleave("import", image, "v", "--force", *words)
            c.cleave("export", "v", out, "--force")
            check(digest(out, size) == digest(image), f"{size}: the image")
            with open(out, "rb") as f:
                f.seek(size)
                check(f.read() == bytes(4 * MIB - size), f"{size}: what was there is behind it")


def options_that_a_volume_which_is_there_does_not_have_are_refused():
    with Cluster(nodes=3) as c:
        image, out = os.path.join(c.folder, "image"), os.path.join(c.folder, "out")
        make_image(image, 4 * MIB, ((0, 3 * MIB),))
        c.volume_create("v", "4M")
        for words in (("--encrypt",), ("--kek", "k"), ("--size", "8M"), ("--service-class", "capacity"),
                      ("--engine", "zstd"), ("--level", "7"), ("--replicas", "2")):
            expect_error(c.cleave("import", image, "v", "--force", *words, check_rc=False), "volume 'v'", words[0],
                         "leave that out")
        check(c.metric("writes") == 0, "it was written to")
        c.cleave("import", image, "v", "--force", "--size", "4M", "--replicas", "3")
        c.cleave("export", "v", out)
        check(digest(out) == digest(image), "what was imported")


def writer(c):
    v = next(v for v in json.loads(c.cleave("--json", "volume", "list").stdout)["volumes"]
             if v["name"] == "v")
    return v.get("holder")


def one_that_somebody_writes_is_taken_when_said():
    """The refusal names the writer and the option; nothing is written before it, all of it with it."""
    with Cluster(nodes=3, gateways=2) as c:
        image, out = os.path.join(c.folder, "image"), os.path.join(c.folder, "out")
        make_image(image, 3 * MIB, ((0, 3 * MIB),))
        c.volume_create("v", "64M")
        load = subprocess.Popen(c.load_argv("--volume", "v", "--seconds", "600", "--quiet",
                                            "--read-percent", "10"),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            end = time.monotonic() + WAIT_S
            while writer(c) is None:
                check(load.poll() is None and time.monotonic() < end, "it never opens the volume")
            expect_error(c.cleave("import", image, "v", "--take", check_rc=False), "exists", "--force")
            expect_error(c.cleave("import", image, "v", "--force", check_rc=False),
                         rf"volume 'v': in use by cleave-load\[{load.pid}\]@", "--take")
            check(load.poll() is None and c.metric("sessions_taken") == 0, "it was taken")
            c.cleave("import", image, "v", "--force", "--take")
            text, _ = load.communicate(timeout=WAIT_S)
        finally:
            load.kill()
        check(load.returncode == 1 and "session" in text, f"exit {load.returncode}\n{text}")
        check(c.metric("sessions_taken") == 1, "sessions_taken")
        c.cleave("export", "v", out)
        check(digest(out, 3 * MIB) == digest(image), "what was imported")
        c.cleave("import", image, "v", "--force")


def snapshots():
    """A snapshot is exported while a guest goes on writing to the volume."""
    with Cluster(nodes=3) as c:
        image, out = os.path.join(c.folder, "image"), os.path.join(c.folder, "out")
        make_image(image, 8 * MIB, ((MIB, 2 * MIB), (7 * MIB, 4096)))
        c.cleave("import", image, "v")
        c.cleave("snapshot", "create", "v@monday")
        with Agent(c, "--volume", "v", "--volume", "v@monday") as agent:
            guest = Client(agent)
            check(guest.go() == 1, "GO")
            guest.command(1, MIB, MIB, data=b"x" * MIB)
            check(guest.error() == 0, "a write")
            expect_error(c.cleave("export", "v", out, check_rc=False), "in use", "--force")
            c.cleave("export", "v@monday", out)
            check(digest(out) == digest(image), "what the snapshot holds")
            guest.command(0, MIB, 1)
            check(guest.error() == 0 and guest.get(1) == b"x", "the guest lost its volume")
            run_argv(["qemu-img", "compare", "-f", "raw", "-F", "raw", image,
                      agent.uri("v@monday")])
            snapshot = Client(agent)
            check(snapshot.go(b"v@monday") == 1, "GO")
            snapshot.command(1, 0, 4096, data=bytes(4096))
            check(snapshot.error() == EPERM, "a write to a snapshot")
            check(Client(agent).go(b"v@tuesday") != 1, "a snapshot that nobody exports")
        expect_error(c.cleave("export", "v@tuesday", out, "--force", check_rc=False), "has no snapshot 'tuesday'")
        c.cleave("export", "v", out, "--force")
        with open(out, "rb") as f:
            f.seek(MIB)
            check(f.read(MIB) == b"x" * MIB, "what the guest wrote")


def failures_leave_nothing_behind():
    with Cluster(nodes=3) as c:
        image, out = os.path.join(c.folder, "image"), os.path.join(c.folder, "out")
        before = leftovers()
        expect_error(c.cleave("import", image, "v", check_rc=False), "qemu-img info failed")
        with open(image, "wb"):
            pass
        expect_error(c.cleave("import", image, "v", check_rc=False), "an image of nothing")
        with open(image, "wb") as f:
            f.write(b"QFI\xfb\0\0\0\3" + bytes(5000))
        expect_error(c.cleave("import", image, "v", check_rc=False), "failed")
        expect_error(c.cleave("import", image, "v", "--format", "jpeg", check_rc=False), "failed")
        expect_error(c.cleave("export", "v", out, check_rc=False), "'v'")
        expect_error(c.cleave("export", "v@yesterday", out, check_rc=False), "'v'")
        c.volume_create("v", "1M")
        expect_error(c.cleave("export", "v", "/nowhere/out", check_rc=False), "/nowhere/out")
        expect_error(c.cleave("export", "v", out, "--format", "jpeg", check_rc=False), "failed")
        # A damaged image is found when it is read: the volume was made by then.
        make_image(image, 8 * MIB, ((0, 8 * MIB),))
        run_argv(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", "-o", "cluster_size=64k",
                  image, out + ".qcow2"])
        with open(out + ".qcow2", "r+b") as f:
            # Its first cluster is no cluster: the first entry of the first L2 table is odd.
            f.seek(first_l2_table(f))
            f.write((1 << 63 | 0x10200).to_bytes(8, "big"))
        expect_error(c.cleave("import", out + ".qcow2", "w", check_rc=False), "convert failed")
        check(volumes(c) == ["v"], str(volumes(c)))
        check(not os.path.exists(out), "an export that failed")
        check([n for n in os.listdir(c.folder) if n.startswith("out.") and n != "out.qcow2"] == [],
              "a part of an export")
        expect_none_left(before)


def first_l2_table(f):
    f.seek(40)
    f.seek(int.from_bytes(f.read(8), "big"))
    return int.from_bytes(f.read(8), "big") & ~(1 << 63)


def without_the_tool():
    with Cluster(nodes=3) as c:
        image = os.path.join(c.folder, "image")
        make_image(image, MIB, ())
        result = subprocess.run(
            [binary("cleave"), *c.gateway_words(), "import", image, "v"], env={"PATH": "/nowhere"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True)
        expect_error(result, "qemu-img cannot be run", "qemu-utils")
        check(volumes(c) == [], str(volumes(c)))
        # An export has started its agent by then, and ends it.
        before = leftovers()
        c.volume_create("v", "1M")
        result = subprocess.run(
            [binary("cleave"), *c.gateway_words(), "export", "v", os.path.join(c.folder, "out")],
            env={"PATH": "/nowhere"}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S)
        expect_error(result, "qemu-img cannot be run", "qemu-utils")
        expect_none_left(before)


def catches(pid, number):
    """The process has a handler for the signal."""
    with open(f"/proc/{pid}/status") as f:
        mask = next(line.split()[1] for line in f if line.startswith("SigCgt:"))
    return int(mask, 16) >> (number - 1) & 1 == 1


def a_signal_before_qemu_img_runs_is_not_forgotten():
    """The gateway does not answer yet: nothing is copied when it does."""
    with Cluster(nodes=3) as c:
        image, ran, tools = (os.path.join(c.folder, name) for name in ("image", "ran", "tools"))
        make_image(image, MIB, ((0, MIB),))
        os.mkdir(tools)
        with open(os.path.join(tools, "qemu-img"), "w") as f:
            f.write(f'#!/bin/sh\n[ "$1" != convert ] || echo "$@" >>{ran}\nexec {shutil.which("qemu-img")} "$@"\n')
        os.chmod(os.path.join(tools, "qemu-img"), 0o755)
        c.volume_create("v", "1M")
        for words in (("import", image, "w"), ("import", image, "v", "--force"), ("export", "v", os.path.join(c.folder, "out"))):
            c.gateway.signal(signal.SIGSTOP)
            p = subprocess.Popen([binary("cleave"), *c.gateway_words(), *words], stderr=subprocess.PIPE, text=True,
                                 env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"})
            wait_for(lambda: catches(p.pid, signal.SIGTERM), "it has no handler")
            p.send_signal(signal.SIGTERM)
            c.gateway.signal(signal.SIGCONT)
            _, said = p.communicate(timeout=WAIT_S)
            check(p.returncode == 1 and "interrupted" in said, f"{words}: exit {p.returncode}: {said}")
            check(not os.path.exists(ran), f"{words}: it was copied")
            check(volumes(c) == ["v"], str(volumes(c)))


def targets_of(c, name):
    """Volumes that imports into `name` write, or have left."""
    return [v for v in volumes(c) if v.startswith(f"{name}.importing-")]


def target_of(c, name):
    targets = targets_of(c, name)
    check(len(targets) == 1 and name not in volumes(c), f"{volumes(c)}")
    return targets[0]


WAITS = "exec tail -f /dev/null"
WRITES = """for uri; do :; done
exec qemu-io -f raw -c 'write 0 4k' -c 'sleep 600000' "$uri" >/dev/null"""


def endless_import(c, name, convert=WAITS, *words):
    """An import that has made its volume, or found it, with a qemu-img that says when it copies, and does not end."""
    image = os.path.join(c.folder, "image")
    make_image(image, MIB, ())
    p = with_tool(c, name, f"echo converting\n{convert}\n", "import", image, name, *words)
    p.target = target_of(c, name) if "--force" not in words else name
    return p


def with_tool(c, name, convert, *words, env=None):
    """cleave with a qemu-img whose convert is that, which says that it is run."""
    folder = os.path.join(c.folder, f"tools-{name}")
    os.makedirs(folder, exist_ok=True)
    tool = os.path.join(folder, "qemu-img")
    with open(tool, "w") as f:
        f.write("#!/bin/sh\n[ $1 = convert ] || { exec /usr/bin/qemu-img \"$@\"; }\n"
                f"{convert}\n")
    os.chmod(tool, 0o755)
    p = subprocess.Popen([binary("cleave"), *c.gateway_words(), *words],
                         env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", **(env or {})},
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, start_new_session=True)
    check(p.stdout.readline() == "converting\n", "qemu-img is not run")
    return p


def ended(p):
    _, text = p.communicate(timeout=WAIT_S)
    check(p.returncode == 1 and "interrupted" in text, f"exit {p.returncode}: {text}")
    return text


def interrupted():
    """A signal ends all three processes; the volume that was made is gone again."""
    with Cluster(nodes=3) as c:
        before = leftovers()
        p = endless_import(c, "v")
        p.send_signal(signal.SIGTERM)
        ended(p)
        check(volumes(c) == [], str(volumes(c)))
        # A terminal's Ctrl-C, which all get, while the volume is open.
        p = endless_import(c, "w", WRITES)
        wait_for(lambda: "holder" in c.cleave("--json", "volume", "show", p.target).stdout, "it writes")
        os.killpg(p.pid, signal.SIGINT)
        ended(p)
        check(volumes(c) == [], str(volumes(c)))
        expect_none_left(before)


def killed():
    """What is left is never taken for a whole image: by its name, and by what the list says of it."""
    with Cluster(nodes=3) as c:
        image, out = os.path.join(c.folder, "image"), os.path.join(c.folder, "out")
        p = endless_import(c, "v", WRITES)
        wait_for(lambda: "holder" in c.cleave("--json", "volume", "show", p.target).stdout, "it writes")
        check("has not ended" not in c.cleave("volume", "list").stdout, "one that is under way is called cut off")
        p.kill()
        p.wait()
        check(volumes(c) == [p.target], str(volumes(c)))
        # The agent has ended with it.
        wait_for(lambda: "holder" not in c.cleave("--json", "volume", "show", p.target).stdout, "it writes yet")
        said = c.cleave("volume", "list").stdout
        check(f"{p.target}: an import of 'v' that has not ended" in said and
              f"cleave volume delete {p.target} --purge" in said, said)
        # The next one has a volume of its own, and the name.
        make_image(image, MIB, ((0, MIB),))
        c.cleave("import", image, "v")
        check(volumes(c) == ["v", p.target], str(volumes(c)))
        c.cleave("export", "v", out)
        check(digest(out) == digest(image), "what was imported")
        c.cleave("volume", "delete", p.target, "--purge")
        check("has not ended" not in c.cleave("volume", "list").stdout, "what is gone is told")


def its_socket_is_where_temporary_files_are():
    """In $TMPDIR, where a socket's path has room for that; and nothing is left there by one that is killed."""
    with Cluster(nodes=3) as c, tempfile.TemporaryDirectory(prefix="c-", dir="/tmp") as place:
        c.volume_create("v", "1M")
        for folder, found in ((place, place), (f"{place}/a&b", "/tmp"), (f"{place}/{'x' * 80}", "/tmp"),
                              ("relative", "/tmp")):
            p = with_tool(c, "where", "echo converting\necho $7\n" + WAITS, "export", "v",
                          os.path.join(c.folder, "out"), env={"TMPDIR": folder})
            said = p.stdout.readline()
            check(said.startswith(f"nbd+unix:///?socket={found}/cleave-image-"), f"{folder}: {said}")
            p.kill()
            p.wait()
        wait_for(lambda: os.listdir(place) == [], "a socket was left behind")
        done = run_argv(["env", f"TMPDIR={place}/none", binary("cleave"), *c.gateway_words(), "export", "v",
                         os.path.join(c.folder, "out")], check_rc=False)
        expect_error(done, f"cannot make a folder in {place}/none: No such file", codes=(1,))


def a_killed_import_over_a_volume_is_run_again():
    """What was there is not what it was. The one that is cut off in order says so."""
    with Cluster(nodes=3) as c:
        image, out = os.path.join(c.folder, "image"), os.path.join(c.folder, "out")
        c.volume_create("v", "1M")
        p = endless_import(c, "v", WRITES, "--force")
        wait_for(lambda: "holder" in c.cleave("--json", "volume", "show", "v").stdout, "it writes")
        p.send_signal(signal.SIGTERM)
        text = ended(p)
        check("'v' may be in part as it was" in text and "--force" in text, text)
        make_image(image, MIB, ((0, MIB),))
        c.cleave("import", image, "v", "--force")
        c.cleave("export", "v", out)
        check(digest(out) == digest(image), "what was imported")
        # Where something was there it says how to come back to that.
        before = kept(c, "v", "import")
        p = endless_import(c, "v", WRITES, "--force")
        wait_for(lambda: kept(c, "v", "import") != before and
                 "holder" in c.cleave("--json", "volume", "show", "v").stdout, "it writes")
        p.send_signal(signal.SIGTERM)
        text = ended(p)
        check("--force --purge" in text and any(f"snapshot rollback {s}" in text for s in kept(c, "v", "import") if s not in before), text)


def endless_export(c, out, convert=WAITS, *words, name="v"):
    """An export with a qemu-img that says when it copies, and then does as `convert` says: by itself it does not end."""
    return with_tool(c, "export", f"echo converting\n{convert}\n", "export", name, out, *words)


COPIES = "until [ -e %s ]; do sleep 0.1; done\nexec /usr/bin/qemu-img \"$@\""


def a_killed_export_leaves_nothing():
    """Not beside the file, nor in place of it."""
    with Cluster(nodes=3) as c:
        folder = os.path.join(c.folder, "out")
        out = os.path.join(folder, "image.raw")
        os.mkdir(folder)
        c.volume_create("v", "1M")
        for words in (), ("--force",):
            was = sorted(os.listdir(folder))
            p = endless_export(c, out, "for file; do :; done\nprintf half >\"$file\"\n" + WAITS, *words)
            p.kill()
            p.wait()
            check(sorted(os.listdir(folder)) == was, f"{os.listdir(folder)}")
            with open(out, "w") as f:
                f.write("somebody's")
        with open(out) as f:
            check(f.read() == "somebody's", "what was there")


def where_no_file_is_without_a_name_an_export_has_one_of_its_own():
    """As on NFS; here there is no /proc, without which such a file cannot be found."""
    if run_argv(["unshare", "--mount", "true"], check_rc=False).returncode != 0:
        print("skipped: unshare needs root")
        return
    with Cluster(nodes=3) as c:
        image, folder = os.path.join(c.folder, "image"), os.path.join(c.folder, "out")
        out = os.path.join(folder, "image.raw")
        os.mkdir(folder)
        make_image(image, 4 * MIB, ((0, MIB),))
        c.cleave("import", image, "v")
        path = f"{os.path.dirname(binary('cleave'))}:{os.environ['PATH']}"
        for words, wanted in ((), 0), ((), 1), (("--force",), 0), (("--force", "--format", "jpeg"), 1):
            result = subprocess.run(["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh",
                                     binary("cleave"), *c.gateway_words(), "export", "v", out, *words],
                                    env={**os.environ, "PATH": path}, capture_output=True, text=True)
            check(result.returncode == wanted, f"{words}: exit {result.returncode}: {result.stderr}")
            check(os.listdir(folder) == ["image.raw"], f"{os.listdir(folder)}")
            check(digest(out) == digest(image), f"{words}: what was exported")
            check(oct(os.stat(out).st_mode & 0o777) == "0o644", "rights")


def a_volume_that_was_written_while_it_was_copied_is_refused():
    """Nobody had it at the beginning, and nobody has it at the end: the copy is of no one moment all the same."""
    with Cluster(nodes=3) as c:
        go, out = os.path.join(c.folder, "go"), os.path.join(c.folder, "image.raw")
        c.volume_create("v", "1M")
        c.cleave("snapshot", "create", "v@a")
        for name, words in ("v", ()), ("v", ("--force",)), ("v@a", ()):
            p = endless_export(c, out, COPIES % go, *words, name=name)
            with Agent(c) as agent:
                guest = Client(agent)
                check(guest.go() == 1, "GO")
                guest.command(1, 0, 4096, data=b"x" * 4096)
                check(guest.error() == 0, "a write")
                guest.s.close()
            with open(go, "w"):
                pass
            _, text = p.communicate(timeout=WAIT_S)
            os.unlink(go)
            if name == "v" and not words:
                check(p.returncode == 1 and "'v' was written while it was copied" in text and "--force" in text, text)
                check(not os.path.exists(out), "it is called an image")
            else:
                check(p.returncode == 0, f"{name} {words}: {text}")
                os.unlink(out)


def a_file_that_came_meanwhile_is_not_replaced():
    with Cluster(nodes=3) as c:
        folder, go = os.path.join(c.folder, "out"), os.path.join(c.folder, "go")
        out = os.path.join(folder, "image.raw")
        os.mkdir(folder)
        c.volume_create("v", "1M")
        for words in (), ("--force",):
            p = endless_export(c, out, COPIES % go, *words)
            with open(out, "w") as f:
                f.write("somebody's")
            with open(go, "w"):
                pass
            _, text = p.communicate(timeout=WAIT_S)
            os.unlink(go)
            if not words:
                check(p.returncode == 1 and f"{out} exists" in text, f"exit {p.returncode}: {text}")
            else:
                check(p.returncode == 0, f"exit {p.returncode}: {text}")
            check(os.listdir(folder) == ["image.raw"], f"{os.listdir(folder)}")
            check(os.path.getsize(out) == (MIB if words else 10), "whose it is")
            check(oct(os.stat(out).st_mode & 0o777) == "0o644", "rights")


def names_that_are_taken_meanwhile():
    """It gets its name last. A volume that has it by then stays, and so does the image that is whole."""
    with Cluster(nodes=3) as c:
        go, long, out = os.path.join(c.folder, "go"), "n" * 63, os.path.join(c.folder, "out")
        p = endless_import(c, "v", f"until [ -e {go} ]; do sleep 0.1; done\nfor uri; do :; done\n"
                                   "exec qemu-io -f raw -c 'write -P 7 0 1M' \"$uri\" >/dev/null")
        c.volume_create("v", "1M")
        with open(go, "w"):
            pass
        _, text = p.communicate(timeout=WAIT_S)
        check(p.returncode == 1 and f"the whole image is in volume '{p.target}'" in text and "a volume 'v' already" in text,
              f"exit {p.returncode}: {text}")
        c.cleave("volume", "rename", p.target, "w")
        for name, byte in (("w", b"\7"), ("v", b"\0")):
            c.cleave("export", name, out, "--force")
            with open(out, "rb") as f:
                check(f.read() == byte * MIB, f"what is on {name}")
        c.cleave("import", os.path.join(c.folder, "image"), long)
        check(sorted(volumes(c)) == [long, "v", "w"], str(volumes(c)))


def pauses(p):
    """How often a process has waited for something so far."""
    with open(f"/proc/{p.pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("voluntary_ctxt_switches"))


def while_it_copies_it_answers_the_gateway():
    """A client that stands still is closed where others wait for what it was lent: then the volume would not get its name."""
    with Cluster(nodes=3) as c:
        go = os.path.join(c.folder, "go")
        p = endless_import(c, "v", COPIES % go)
        was = pauses(p)
        wait_for(lambda: pauses(p) > was + 1, "it stands still while qemu-img copies")
        with open(go, "w"):
            pass
        _, text = p.communicate(timeout=WAIT_S)
        check(p.returncode == 0 and volumes(c) == ["v"], f"{volumes(c)}: {text}")


def a_right_to_a_volume_is_enough_to_import_it():
    """It fills NAME.importing-NUMBER, which becomes NAME, and restore NAME.restore-ID."""
    with Authority() as a, Keyed(a) as c:
        key, image, kept = a.issue("client/db1"), *(os.path.join(c.folder, n) for n in ("image", "kept"))
        make_image(image, MIB, ((0, 8192),))
        c.cleave("user", "add", "db1", "v:rwa")
        wait_for(lambda: c.cleave_as(key, "import", image, "v").returncode == 0, "it cannot import")
        c.cleave("backup", "v@s", kept, "--snapshot")
        c.cleave("snapshot", "delete", "v@s")
        c.cleave("volume", "delete", "v", "--purge")
        p = c.cleave_as(key, "restore", kept, "v")
        check(p.returncode == 0 and volumes(c) == ["v"], f"{volumes(c)}: {p.stderr}")
        # No other name that looks like it.
        expect_error(c.cleave_as(key, "volume", "create", "v.importing-1", "--size", "1M"))
        expect_error(c.cleave_as(key, "import", image, "w"))
        check(volumes(c) == ["v"], str(volumes(c)))


def another_volume_of_the_name_is_not_written():
    """It gets the name after the import has made its own, and before the agent opens that."""
    with Cluster(nodes=3) as c:
        go = os.path.join(c.folder, "go")
        p = endless_import(c, "v", f"until [ -e {go} ]; do sleep 0.1; done\nfor uri; do :; done\n"
                                   "exec qemu-io -f raw -c 'write -P 7 0 4k' \"$uri\" >/dev/null")
        c.cleave("volume", "rename", p.target, "w")
        c.volume_create(p.target, "1M")
        with open(go, "w"):
            pass
        _, text = p.communicate(timeout=WAIT_S)
        check(p.returncode == 1 and f"'{p.target}' is another one by now" in text and
              f"id 1, is not called '{p.target}' any more" in text, f"exit {p.returncode}: {text}")
        check(c.metric("writes") == 0, "another volume was written")
        check(volumes(c) == [p.target, "w"], str(volumes(c)))


def what_somebody_else_has_found_stays():
    """An import that fails deletes the volume that it made: by its id, and not from under whoever uses it."""
    with Cluster(nodes=3) as c:
        p = endless_import(c, "v")
        c.cleave("volume", "rename", p.target, "w")
        c.volume_create("v", "1M")
        p.send_signal(signal.SIGTERM)
        text = ended(p)
        check(volumes(c) == ["v", "w"], str(volumes(c)))
        check(f"id 1, is not called '{p.target}' any more" in text, text)
        p = endless_import(c, "x")
        with Agent(c, "--volume", p.target) as agent:
            guest = Client(agent)
            check(guest.go(p.target.encode()) == 1, "GO")
            for is_over in (False, True):
                guest.command(1, 0, 4096, data=bytes(4096))
                check(guest.error() == 0, "the guest has lost its volume")
                if not is_over:
                    p.send_signal(signal.SIGTERM)
                    text = ended(p)
        check(volumes(c) == ["v", "w", p.target], str(volumes(c)))
        check(f"'{p.target}', id 3, is still there" in text and "in use by cleave-agent" in text and
              f"cleave volume delete {p.target} --purge" in text, text)
        c.cleave("volume", "delete", p.target, "--purge")


if __name__ == "__main__":
    os.umask(0o022)  # rights of files are looked at
    main(raw_and_qcow2_there_and_back, sparse_regions_stay_sparse, a_guest_reads_no_file_of_the_host, sizes,
         nothing_is_overwritten_unasked, what_was_there_is_kept_unless_said, one_that_somebody_writes_is_taken_when_said, snapshots, failures_leave_nothing_behind,
         behind_an_image_nothing_of_the_old_is_left,
         options_that_a_volume_which_is_there_does_not_have_are_refused,
         without_the_tool, a_signal_before_qemu_img_runs_is_not_forgotten, interrupted, killed,
         its_socket_is_where_temporary_files_are, a_killed_import_over_a_volume_is_run_again,
         a_killed_export_leaves_nothing, a_file_that_came_meanwhile_is_not_replaced,
         where_no_file_is_without_a_name_an_export_has_one_of_its_own,
         a_volume_that_was_written_while_it_was_copied_is_refused,
         while_it_copies_it_answers_the_gateway, names_that_are_taken_meanwhile,
         a_right_to_a_volume_is_enough_to_import_it, another_volume_of_the_name_is_not_written, what_somebody_else_has_found_stays)
