# SPDX-License-Identifier: Apache-2.0
"""A volume as a block device of this machine, without a kernel module for NBD, and what is on it:

    nbdfuse shows the export as a file, a loop device the file as a disk, mount what is on the disk
"""
import os
import select
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))

from libagent import Agent, need  # noqa: E402
from libcluster import (WAIT_S, Cluster, Daemon, Failure, check, main, run_argv,  # noqa: E402
                        skip)


HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.environ.get("CLEAVE_SOURCE_DIR") or os.path.join(HERE, "..", "..")


def guest_kernel(folder, init):
    """(kernel, initramfs) of a guest whose process 1 is the script @init of this folder; the second lies in @folder."""
    initramfs = os.path.join(folder, "initramfs")
    made = subprocess.run([os.path.join(SOURCE, "tests", "vm", "run"), "-i", initramfs, os.path.join(HERE, init)],
                          stdout=subprocess.PIPE, text=True, check=False)
    if made.returncode == 77:
        skip(made.stdout.strip())
    check(made.returncode == 0, f"tests/vm/run -i: {made.returncode}")
    return made.stdout.split()[-1], initramfs


def need_disks(*tools):
    """Skip where a volume cannot be a disk."""
    need("nbdfuse", "losetup", "mount", "umount", *tools)
    if os.geteuid() != 0:
        skip("mounting needs root")
    for device in ("/dev/fuse", "/dev/loop-control"):
        if not os.access(device, os.R_OK | os.W_OK):
            skip(f"there is no {device}")


class Disk:
    """`device` is the volume's loop device; `device` is gone again when the block ends."""

    def __init__(self, agent, name):
        self.uri = agent.uri(name)
        self.folder = tempfile.mkdtemp(prefix="cleave-test-disk-")
        self.fuse = Daemon("nbdfuse", ["nbdfuse", self.file_folder, self.uri])
        self.device = None

    @property
    def file_folder(self):
        return os.path.join(self.folder, "file")

    def wait_mounted(self):
        """Until nbdfuse serves: /proc/mounts tells of every change."""
        with open("/proc/mounts") as mounts:
            poll = select.poll()
            poll.register(mounts, select.POLLPRI | select.POLLERR)
            for _ in range(1000):
                mounts.seek(0)
                if f" {self.file_folder} fuse" in mounts.read():
                    return
                check(self.fuse.process.poll() is None,
                      "nbdfuse failed\n" + "\n".join(self.fuse.lines))
                check(poll.poll(WAIT_S * 1000), "nbdfuse does not mount")
        raise Failure("nbdfuse does not mount")

    def __enter__(self):
        os.mkdir(self.file_folder)
        try:
            self.fuse.start(wait=False)
            self.wait_mounted()
            self.device = run_argv(["losetup", "--direct-io=on", "--find", "--show",
                                    os.path.join(self.file_folder, "nbd")]).stdout.strip()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, value, trace):
        if self.device is not None:
            run_argv(["losetup", "--detach", self.device], check_rc=False)
        run_argv(["umount", self.file_folder], check_rc=False)
        if self.fuse.process is not None:
            if kind is None:
                check(self.fuse.wait_exit() == 0, "nbdfuse's exit status")
            else:
                self.fuse.kill()
                print("\n".join(self.fuse.lines[-20:]))
        shutil.rmtree(self.folder, ignore_errors=True)
        return False


class Mount:
    """The file system on a device, at `path`, which everybody may enter."""

    def __init__(self, device):
        self.device = device
        self.path = tempfile.mkdtemp(prefix="cleave-test-mount-")

    def __enter__(self):
        os.chmod(self.path, 0o755)
        try:
            run_argv(["mount", self.device, self.path])
        except BaseException:
            os.rmdir(self.path)
            raise
        os.chmod(self.path, 0o755)
        return self

    def __exit__(self, kind, value, trace):
        run_argv(["umount", self.path], check_rc=kind is None)
        os.rmdir(self.path)
        return False
