#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HANDBOOK.md, "Disks of machines and guests", word for word: Linux's NBD client, QEMU, libvirt."""
import json
import os
import re
import shlex
import signal
import subprocess
import tempfile

from libdisk import (SOURCE, Agent, Cluster, Daemon, Failure, check, guest_kernel, main, need, run_argv,
                     skip)

need("qemu-system-x86_64")
if os.geteuid() != 0:
    skip("the kernel's package is unpacked with root's files: needs root")

GUEST_S = 180
SOCKET = "/run/cleave/nbd"
# Debian's libvirt wants the user whom libvirt-daemon-system makes.
LIBVIRT_USER = "libvirt-qemu:x:64055:64055::/var/lib/libvirt:/usr/sbin/nologin\n"


def words_of_book(title, language, socket):
    """The block behind @title, for an agent at @socket."""
    with open(os.path.join(SOURCE, "HANDBOOK.md"), encoding="utf-8") as f:
        text = f.read()
    found = re.search(rf"^\*\*{title}\*\*.*?^```{language}\n(.*?)^```$", text, re.M | re.S)
    check(found and SOCKET in found.group(1), f"HANDBOOK.md: no {language} block of '{title}'")
    return found.group(1).replace(SOCKET, socket)


class Guest(Daemon):
    """A QEMU with @disk, words of its command line; its console is `lines`."""

    def __init__(self, kernel, initramfs, disk):
        super().__init__("guest", [
            "bash", "-c", 'exec "$0" "$@" >&2', "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "192M",
            "-nodefaults", "-display", "none", "-no-reboot", "-serial", "stdio", "-monitor", "none",
            "-kernel", kernel, "-initrd", initramfs, "-append", "console=ttyS0 panic=-1 quiet", *disk])

    def __enter__(self):
        return self.start(wait=False)

    def __exit__(self, kind, value, trace):
        if self.process is not None and self.process.poll() is None:
            self.signal(signal.SIGKILL)
            self.process.wait()
        if kind is not None:
            print("---- the guest's console\n" + "\n".join(self.lines[-30:]))
        return False

    def wait_rounds(self, count):
        self.wait_line(f"guest: (round {count}|WRONG)\\b", timeout_s=GUEST_S)
        check(self.count_lines("guest: WRONG") == 0, "the guest read something else")


def with_a_guest(disk_of, restart):
    """It writes and verifies, also after the agent was restarted, if @restart."""
    with tempfile.TemporaryDirectory(prefix="cleave-test-guest-") as folder, Cluster(nodes=3) as c:
        kernel, initramfs = guest_kernel(folder, "migrant")
        c.volume_create("disk1", "64M")
        with Agent(c, "--all") as agent:
            with Guest(kernel, initramfs, disk_of(folder, agent.socket)) as guest:
                guest.wait_rounds(2)
                if restart:
                    check(agent.stop() == 0, "the agent's exit status")
                    agent.start()
                    guest.wait_rounds(5)
        check(c.metric("write_bytes") > 256 << 10, "it is another disk that it writes to")


def qemu():
    def disk_of(_, socket):
        words = shlex.split(words_of_book("A disk of QEMU.", "bash", socket).replace("\\\n", " "))
        check(words[0] == "qemu-system-x86_64" and "-blockdev" in words, f"{words}")
        return words[words.index("-blockdev"):]

    with_a_guest(disk_of, restart=True)


def libvirt_argv(folder, domain):
    """What libvirt makes of a domain. Its user is there in a mount namespace alone."""
    os.makedirs(f"{folder}/root/etc")
    with open(f"{folder}/root/etc/qemu.conf", "w", encoding="ascii") as f:
        f.write('user = "root"\ngroup = "root"\nremember_owner = 0\nsecurity_driver = "none"\n')
    binds = ""
    for name, line in (("passwd", LIBVIRT_USER), ("group", "libvirt-qemu:x:64055:\nkvm:x:64056:\n")):
        with open(f"/etc/{name}", encoding="utf-8") as f:
            text = f.read()
        with open(f"{folder}/{name}", "w", encoding="utf-8") as f:
            f.write(text + line)
        binds += f"mount --bind {folder}/{name} /etc/{name} && "
    done = subprocess.run(["unshare", "--mount", "bash", "-c", binds + 'exec virsh -q -c "$0" domxml-to-native '
                           'qemu-argv "$1"', f"qemu:///embed?root={folder}/root", domain],
                          capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"virsh: {done.stdout}{done.stderr}")
    return shlex.split(done.stdout.splitlines()[0])


def disk_words(argv):
    """Of a command line that libvirt made: the disk alone."""
    words = []
    for at, word in enumerate(argv[:-1]):
        value = argv[at + 1]
        if word == "-blockdev":
            words += [word, value]
        elif word == "-device" and "virtio-blk-pci" in value:
            device = {k: v for k, v in json.loads(value).items() if k in ("driver", "drive", "write-cache")}
            words += [word, json.dumps(device)]
    check(words.count("-blockdev") == 2 and words.count("-device") == 1, f"{argv}")
    return words


def libvirt():
    need("virsh", "virt-xml-validate")

    def disk_of(folder, socket):
        domain = os.path.join(folder, "domain.xml")
        with open(domain, "w", encoding="utf-8") as f:
            f.write("<domain type='qemu'><name>guest</name><memory unit='MiB'>192</memory><vcpu>1</vcpu>"
                    "<os><type arch='x86_64'>hvm</type></os><devices>"
                    "<emulator>/usr/bin/qemu-system-x86_64</emulator>\n"
                    + words_of_book("A disk of libvirt", "xml", socket) + "</devices></domain>\n")
        run_argv(["virt-xml-validate", domain])
        return disk_words(libvirt_argv(folder, domain))

    with_a_guest(disk_of, restart=False)


def linux():
    """In a guest, whose kernel has the module: a cluster, an agent, and the block as a script."""
    need("nbd-client", "mkfs.ext4")
    if os.environ.get("CLEAVE_KERNEL_NBD") != "1":
        env = {**os.environ, "CLEAVE_VM_MODULES": "nbd ext4", "CLEAVE_VM_DISK_SIZE": "4G", "CLEAVE_KERNEL_NBD": "1"}
        done = subprocess.run([os.path.join(SOURCE, "tests", "vm", "run"), "-t", "300", "python3",
                               os.path.abspath(__file__), "linux"], env=env, check=False, stdin=subprocess.DEVNULL)
        if done.returncode == 77:
            skip("no guest can boot here")
        check(done.returncode == 0, f"the guest: exit {done.returncode}")
        return
    tempfile.tempdir = tempfile.mkdtemp(prefix="cleave-test-disks-")  # else a tmpfs, without direct I/O
    run_argv(["mkfs.ext4", "-q", "/dev/vda"])
    run_argv(["mount", "/dev/vda", tempfile.tempdir])
    with Cluster(nodes=3) as c:
        c.volume_create("disk1", "64M")
        with Agent(c, "--all") as agent:
            lines = words_of_book("A disk of Linux", "bash", agent.socket).splitlines()
            at = lines.index("umount /mnt")
            lines[at:at] = ["dd if=/dev/urandom of=/mnt/file bs=1M count=8 conv=fsync", "md5sum </mnt/file >/tmp/sum",
                            "echo 3 >/proc/sys/vm/drop_caches", "md5sum </mnt/file | cmp - /tmp/sum"]
            lines[lines.index("modprobe nbd")] = "test -b /dev/nbd0 && mkdir -p /mnt"
            done = subprocess.run(["bash", "-exc", "\n".join(lines)], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise Failure(done.stdout + done.stderr)
        check(c.metric("write_bytes") > 8 << 20, "it is another disk that it wrote to")


if __name__ == "__main__":
    main(linux, qemu, libvirt)
