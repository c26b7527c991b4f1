#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`cleave meta dump`, `load` and `move`: a metadata store goes from a directory to an etcd and back, and every
acknowledged block is there after each; a store that is not the newest is never served from (fault 35)."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading

from libcluster import (CLUSTER_ID, Cluster, Daemon, binary, check, expect_error, main, run_argv,
                        small_disks, wait_for)
from libetcd import Etcd

ARGS = ("--gateway-id", "1", "--lease-ms", "3000", "--node-timeout", "2s")


def nodes(c):
    return [word for address in c.addresses for word in ("--node", address)]


def meta(c, verb, *words, check_rc=True, stdin_text=""):
    extra = [] if verb == "dump" else nodes(c) + ["--node-timeout", "2s"]
    return run_argv([binary("cleave"), "meta", verb, *words, "--cluster-id", CLUSTER_ID, *extra],
                    check_rc=check_rc, stdin_text=stdin_text)


def move(c, source, target, check_rc=True):
    return meta(c, "move", "--from", source, "--to", target, check_rc=check_rc)


def dump(c, store):
    return meta(c, "dump", "--meta", store).stdout


def load(c, store, text, check_rc=True):
    return meta(c, "load", "--meta", store, stdin_text=text, check_rc=check_rc)


def refused(result, *patterns):
    """With one line that says why."""
    expect_error(result, *patterns, codes=(1,))
    errors = [line for line in result.stderr.splitlines() if "ERROR" in line]
    check(len(errors) == 1, result.stderr)


def serve_from(c, store):
    """The gateway, with this store; its ports stay."""
    c.gateway.argv[c.gateway.argv.index("--meta") + 1] = store
    c.gateway.start()


def refuses_to_serve(c, store, *patterns):
    words = list(c.gateway.argv)
    words[words.index("--meta") + 1] = store
    words[words.index("--port") + 1] = "tcp://127.0.0.1:0"
    refused(run_argv(words, check_rc=False), *patterns)


def write(c, journal, operations=1000):
    c.load("--volume", "v", "--pattern", "random", "--operations", str(operations), "--in-flight",
           "16", "--journal", journal)


class Data:
    """Volumes with blocks that are verified again and again."""

    def __init__(self, c):
        self.c, self.count = c, 0
        c.volume_create("v", "64M")
        c.volume_create("empty", "1G")
        c.cleave("snapshot", "create", "v@first")
        self.grow()

    def grow(self):
        self.count += 1
        self.journal = os.path.join(self.c.folder, f"journal{self.count}")
        write(self.c, self.journal)

    def verify(self):
        self.c.load("--verify-journal", self.journal, "--volume", "v")
        names = self.c.cleave("volume", "list").stdout + self.c.cleave("snapshot", "list").stdout
        for name in ("v", "empty", "first"):
            check(name in names, names)


def directory_to_etcd_and_back():
    with Etcd(1) as etcd, Cluster(shards=4, gateway_args=ARGS) as c:
        data = Data(c)
        c.cleave("gateway", "drain", "9", "--force")
        places = [c.meta, etcd.place, os.path.join(c.folder, "third"), etcd.place + "/second",
                  c.meta]
        for source, target in zip(places, places[1:]):
            refused(move(c, source, target, check_rc=False), "a gateway is registered")
            c.gateway.stop()
            text = move(c, source, target).stderr
            check(f"was moved to {target}" in text and "done" in text, text)
            refuses_to_serve(c, source, f"was moved to {re.escape(target)}")
            serve_from(c, target)
            check('"shards/drained"' in dump(c, target), "the drained gateway is forgotten")
            data.verify()
            data.grow()
            # Run again by mistake: the gateway is not disturbed.
            text = move(c, source, target, check_rc=False).stderr
            check("done" in text or "a gateway is registered" in text, text)
            data.verify()
        refuses_to_serve(c, etcd.place, "was moved to ")


def backup_of_a_living_cluster():
    with Etcd(1) as etcd, Cluster(shards=2, gateway_args=ARGS) as c:
        data = Data(c)
        text = dump(c, c.meta)
        head = json.loads(text.splitlines()[0])
        check(head["gateways"] == ["1"] and head["cluster_id"] == CLUSTER_ID, head)
        check("gateways/" not in text, "a leased key is in the dump")
        refused(load(c, etcd.place, text, check_rc=False), "a gateway is connected to node")
        c.gateway.kill()
        shutil.rmtree(c.meta)
        # The lost store is back as it was, elsewhere: once the nodes have noticed who is gone.
        wait_for(lambda: "a gateway is connected" not in load(c, etcd.place, text, False).stderr,
                 "a node counts a gateway that is gone")
        serve_from(c, etcd.place)
        data.verify()
        epochs = [shard["epoch"] for shard in c.status()["shards"]]
        check(min(epochs) > 1024, f"epochs were not raised: {epochs}")


def old_and_second_stores_are_refused():
    with Etcd(1) as etcd, Cluster(shards=2, gateway_args=ARGS) as c:
        data = Data(c)
        c.gateway.stop()
        text = dump(c, c.meta)
        # Loaded, while the first store is still there: that one is none any more.
        load(c, etcd.place, text)
        refused(load(c, etcd.place, text, check_rc=False), "holds a copy of this one already")
        serve_from(c, etcd.place)
        data.verify()
        old = Daemon("old", [*c.gateway.argv])
        old.argv[old.argv.index("--meta") + 1] = c.meta
        old.argv[old.argv.index("--port") + 1] = "tcp://127.0.0.1:0"
        old.start(wait=False)
        old.wait_line("another metadata store")
        check(old.count_lines("serving") == 0, "the old store was served from")
        old.kill()
        data.verify()
        c.gateway.stop()
        # The dump is older than what the nodes obey now; loaded a second time, it is a second store.
        other = os.path.join(c.folder, "other")
        refused(load(c, other, text, check_rc=False), "obeys another metadata store")
        check(not os.path.exists(other), "a refused load has left something")
        # Newer than the dump is what the nodes hold: volumes, epochs.
        text = dump(c, etcd.place)
        serve_from(c, etcd.place)
        c.gateway.stop()
        refused(load(c, other, text, check_rc=False), "older than what the nodes hold", "recover")
        serve_from(c, etcd.place)
        data.verify()


def what_is_no_dump_or_no_target_is_refused():
    with Etcd(1) as etcd, Cluster(shards=2, gateway_args=ARGS) as c:
        data = Data(c)
        c.gateway.stop()
        text = dump(c, c.meta)
        lines = text.splitlines(keepends=True)
        for count in range(len(lines)):
            refused(load(c, etcd.place, "".join(lines[:count]), check_rc=False), "cut off")
        refused(load(c, etcd.place, text[:-1], check_rc=False), "cut off")
        refused(load(c, etcd.place, "".join(lines[:3] + lines[4:]), check_rc=False), "are missing")
        refused(load(c, etcd.place, text.replace("empty", "enpty"), check_rc=False), "checksum")
        refused(load(c, etcd.place, text + text, check_rc=False), "follows the last line")
        refused(load(c, c.meta, text, check_rc=False), f"holds cluster {CLUSTER_ID} already")
        refused(move(c, etcd.place, c.meta, check_rc=False), "holds no cluster")
        refused(move(c, c.meta, c.meta, check_rc=False), "are one store")
        prefix = f"/cleave/{CLUSTER_ID}/k/"
        etcd.ctl("put", prefix + "other", "0x")
        refused(load(c, etcd.place, text, check_rc=False), r"is not empty.*other")
        etcd.ctl("del", prefix + "other")
        expect_error(run_argv([binary("cleave"), "meta", "move", "--from", c.meta], check_rc=False),
                     "--to STORE is required", codes=(2,))
        expect_error(run_argv([binary("cleave"), "meta", "dump"], check_rc=False), "--meta",
                     codes=(2,))
        again = run_argv([binary("cleave"), "meta", "dump", "--meta", c.meta]).stdout
        check(again.splitlines()[1:-1] == text.splitlines()[1:-1], "two dumps differ")
        # Half of the nodes are away: something newer may be there.
        c.nodes[0].stop()
        c.nodes[1].stop()
        refused(move(c, c.meta, etcd.place, check_rc=False), "were not reached")
        c.nodes[0].start()
        c.nodes[1].start()
        # A command that makes or recovers clusters knows a store that was moved.
        move(c, c.meta, etcd.place)
        refused(run_argv(c.create_argv(), check_rc=False), "moved away")
        refused(run_argv([binary("cleave"), "recover", "--meta", c.meta, "--cluster-id", CLUSTER_ID,
                          *nodes(c)], check_rc=False), "was moved to", "recover that one")
        serve_from(c, etcd.place)
        data.verify()


class Killer:
    """Between a command and its etcd: kills the command when its n-th change is on the way, before etcd has it or
    after; later commands pass."""

    def __init__(self, etcd, at, is_after):
        self.port, self.at, self.is_after = etcd.ports[0], at, is_after
        self.count, self.process, self.lock = 0, None, threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.place = f"etcd://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port))
            is_last = threading.Event()
            threading.Thread(target=self._to_etcd, args=(client, server, is_last),
                             daemon=True).start()
            threading.Thread(target=self._from_etcd, args=(server, client, is_last),
                             daemon=True).start()

    def _from_etcd(self, server, client, is_last):
        try:
            while data := server.recv(1 << 16):
                if is_last.is_set():  # etcd has done it, and nobody hears of that
                    self.process.kill()
                    break
                client.sendall(data)
        except OSError:
            pass
        client.close()

    def _kills(self, data):
        with self.lock:
            self.count += data.count(b"POST /v3/kv/txn")
            return self.count > self.at

    def _to_etcd(self, client, server, is_last):
        try:
            while data := client.recv(1 << 20):
                if not self._kills(data):
                    server.sendall(data)
                elif self.is_after:
                    is_last.set()
                    server.sendall(data)
                else:
                    self.process.kill()
                    break
        except OSError:
            pass
        server.close()

    def run(self, argv):
        """True: it was killed; else it ended well."""
        with self.lock:
            process = self.process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
        text, code = process.communicate()[1], process.returncode
        with self.lock:
            self.at = sys.maxsize
        check(code in (0, -signal.SIGKILL), text)
        return code != 0


def killed_move(c, data, etcd, at, is_after, to_etcd):
    """To the etcd, or from there: killed, run again, served from. True: it was killed."""
    killer = Killer(etcd, at, is_after)
    source, target = (c.meta, killer.place) if to_etcd else (killer.place, c.meta)
    is_killed = killer.run([binary("cleave"), "meta", "move", "--from", source, "--to", target,
                            "--cluster-id", CLUSTER_ID, "--node-timeout", "2s", *nodes(c)])
    # Whatever it was killed at, all keys are in the source, and the target is a cluster or refused.
    check('"key":"volumes/v"' in dump(c, source), "a key is gone")
    if is_killed:
        move(c, source, target)
    killer.listener.close()
    refuses_to_serve(c, c.meta if to_etcd else etcd.place, "was moved to")
    serve_from(c, etcd.place if to_etcd else c.meta)
    data.verify()
    c.gateway.stop()
    return is_killed


def move_is_killed_at_each_change():
    """Run again it ends, wherever it was."""
    with Etcd(1) as etcd, Cluster(shards=2, gateway_args=ARGS) as c:
        data = Data(c)
        c.gateway.stop()
        for to_etcd in (True, False):
            at, count, is_killed = 0, 0, True
            while is_killed:
                for is_after in (False, True):
                    is_killed = killed_move(c, data, etcd, at, is_after, to_etcd)
                    count += is_killed
                    if to_etcd:
                        move(c, etcd.place, c.meta)
                    else:
                        move(c, c.meta, etcd.place)
                at += 1
            check(count >= 2, "it was never killed")
            print(f"  killed {count} times on the way {'to' if to_etcd else 'from'} the etcd")
            if to_etcd:
                move(c, c.meta, etcd.place)


def move_that_was_killed_is_given_up():
    """The old store is made one again from its own dump; what the move has left is written over by the next one."""
    with Etcd(1) as etcd, Cluster(shards=2, gateway_args=ARGS) as c:
        data = Data(c)
        c.gateway.stop()
        killer = Killer(etcd, 1, False)
        check(killer.run([binary("cleave"), "meta", "move", "--from", c.meta, "--to", killer.place,
                          "--cluster-id", CLUSTER_ID, *nodes(c)]), "it was not killed")
        killer.listener.close()
        refuses_to_serve(c, c.meta, "was moved to")
        refuses_to_serve(c, etcd.place, "holds no cluster")
        refused(move(c, c.meta, etcd.place, check_rc=False), "was moved to", killer.place)
        load(c, c.meta, dump(c, c.meta))
        c.gateway.start()
        data.verify()
        data.grow()
        c.gateway.stop()
        move(c, c.meta, etcd.place)
        serve_from(c, etcd.place)
        data.verify()


small_disks()
main(directory_to_etcd_and_back, backup_of_a_living_cluster, old_and_second_stores_are_refused,
     what_is_no_dump_or_no_target_is_refused, move_is_killed_at_each_change,
     move_that_was_killed_is_given_up)
