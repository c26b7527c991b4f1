#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL on a volume: killed in the middle of pgbench, and its gateway too; no page is damaged
and no transaction is half done."""
import glob
import os
import select
import shutil
import signal
import tempfile

from libdisk import (WAIT_S, Agent, Cluster, Daemon, Disk, Failure, Mount, check, main, need_disks,
                     run_argv, skip)

need_disks("mkfs.ext4", "runuser")
FOLDERS = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda p: int(p.split("/")[4]))
if not FOLDERS or not os.path.exists(os.path.join(FOLDERS[-1], "pg_amcheck")):
    skip("there is no PostgreSQL server")
BIN = FOLDERS[-1]
SUMS = ("select (select sum(abalance) from pgbench_accounts), (select sum(bbalance) from "
        "pgbench_branches), (select sum(tbalance) from pgbench_tellers), (select "
        "coalesce(sum(delta), 0) from pgbench_history), (select count(*) from pgbench_history)")


def as_postgres(*words):
    return ["runuser", "-u", "postgres", "--", "env", "-C", "/", "LC_ALL=C",
            os.path.join(BIN, words[0]), *words[1:]]


class Postgres:
    def __init__(self, data, sockets):
        self.data, self.sockets = data, sockets
        self.daemon = Daemon("postgres", as_postgres(
            "postgres", "-D", data, "-c", "listen_addresses=", "-c",
            f"unix_socket_directories={sockets}", "-c", "full_page_writes=on", "-c",
            "checkpoint_timeout=30s", "-c", "max_wal_size=64MB"))

    def run(self, *words, **more):
        return run_argv(as_postgres(words[0], "-h", self.sockets, *words[1:]), **more)

    def start(self):
        self.daemon.start(wait=False)
        self.daemon.wait_line("database system is ready to accept connections")

    def pids(self):
        """The server and all that it has started."""
        with open(os.path.join(self.data, "postmaster.pid")) as f:
            server = int(f.readline())
        with open(f"/proc/{server}/task/{server}/children") as f:
            return [server, *map(int, f.read().split())]

    def kill(self):
        """kill -9 of every process of it; each has ended when this returns."""
        fds = []
        for pid in self.pids():
            try:
                fds.append(os.pidfd_open(pid))
            except ProcessLookupError:
                continue
            signal.pidfd_send_signal(fds[-1], signal.SIGKILL)
        self.daemon.wait_exit()
        for fd in fds:
            wait_readable(fd)
            os.close(fd)

    def stop(self):
        os.kill(self.pids()[0], signal.SIGINT)  # "fast"
        check(self.daemon.wait_exit() == 0, "the server's exit status")

    def sums(self):
        text = self.run("psql", "-At", "-d", "postgres", "-c", SUMS).stdout.strip()
        accounts, branches, tellers, history, count = map(int, text.split("|"))
        check(accounts == branches == tellers == history, f"transactions half done: {text}")
        return count


def wait_readable(fd):
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    check(poll.poll(WAIT_S * 1000), "a process does not end")


def pgbench(server):
    return Daemon("pgbench", as_postgres("pgbench", "-h", server.sockets, "-n", "-c", "8", "-j",
                                         "2", "-T", "600", "postgres"))


def wait_history(server, more):
    """Until so many transactions more are done."""
    before = server.sums()
    while server.sums() < before + more:
        pass


def killed_in_the_middle():
    sockets = tempfile.mkdtemp(prefix="cleave-test-postgres-")
    try:
        shutil.chown(sockets, "postgres")
        with Cluster(nodes=3, disk_size="6G", slot_size="16M") as c:
            c.volume_create("v", "1G")
            with Agent(c) as agent, Disk(agent, "v") as disk:
                run_argv(["mkfs.ext4", "-q", "-F", disk.device])
                with Mount(disk.device) as fs:
                    run_on(c, fs, sockets)
                run_argv(["fsck.ext4", "-f", "-n", disk.device])
    finally:
        shutil.rmtree(sockets)


def run_on(c, fs, sockets):
    data = os.path.join(fs.path, "data")
    os.mkdir(data, 0o700)
    shutil.chown(data, "postgres", "postgres")
    run_argv(as_postgres("initdb", "--data-checksums", "--no-sync", "-A", "trust", "-D", data))
    server = Postgres(data, sockets)
    try:
        server.start()
        server.run("pgbench", "-i", "-q", "-s", "4", "postgres")
        for round_ in range(3):
            load = pgbench(server).start(wait=False)
            wait_history(server, 1000)
            if round_ == 1:
                c.gateway.kill()
                c.gateway.start()
                wait_history(server, 500)
            acknowledged = server.sums()
            server.kill()
            load.wait_exit()
            server.start()
            check(server.sums() >= acknowledged, "acknowledged transactions are gone")
        server.run("pg_amcheck", "--heapallindexed", "--parent-check", "-d", "postgres",
                   "--install-missing")
        server.stop()
        found = run_argv(as_postgres("pg_checksums", "--check", "-D", data)).stdout
        check("Bad checksums:  0" in found, found)
    except Failure:
        print("\n".join(server.daemon.lines[-60:]))
        raise
    finally:
        if server.daemon.process is not None:
            server.kill()


if __name__ == "__main__":
    main(killed_in_the_middle)
