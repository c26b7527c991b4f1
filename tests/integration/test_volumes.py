#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an operator sees of volumes: origins, snapshots, clones, stored bytes, sessions; over two gateways."""
import json
import signal
import subprocess

from libagent import Agent, Client
from libcluster import WAIT_S, Cluster, Failure, binary, check, expect_error, main, run_argv, wait_for
from libload import Load
from libproxy import Proxy


def asked(c, *words):
    return json.loads(c.cleave("--json", *words).stdout)


def listed(c):
    """A port that has much to do leaves its part out of an answer now and then."""
    answer = {}
    wait_for(lambda: answer.update(asked(c, "volume", "list")) or answer["whole"],
             "all shards serve, and the list says that some do not answer")
    return {v["name"]: v for v in answer["volumes"]}


def fill(c, volume, seed, megabytes=8):
    """Other content than that of other seeds, on the same blocks."""
    c.load("--volume", volume, "--pattern", "sequential", "--block-size", "64K", "--bytes",
           f"{megabytes}M", "--in-flight", "8", "--seed", str(seed))


def counted_as_walked(c, volume):
    """The list's counters and the walk of show come to the same, when no merge comes between the two."""
    for _ in range(50):
        usage = asked(c, "volume", "show", volume)["usage"]
        walked, counted = usage["layer_bytes"] + usage["run_bytes"], listed(c)[volume]["stored_bytes"]
        if walked == counted:
            return walked
    raise Failure(f"volume list tells {counted} bytes, volume show {walked}")


def the_list_tells_what_is_stored_and_who_is_there():
    with Cluster(nodes=3, shards=4, gateways=2) as c:
        c.volume_create("empty", "64M")
        c.volume_create("v", "64M", "--engine", "none")
        fill(c, "v", 1)
        c.cleave("snapshot", "create", "v@monday")
        fill(c, "v", 2, 4)
        c.cleave("clone", "v@monday", "c")
        volumes = listed(c)
        check(volumes["empty"]["stored_bytes"] == 0, f"{volumes['empty']}")
        check(volumes["v"]["stored_bytes"] >= 4 << 20, f"{volumes['v']}")
        check(volumes["v"]["snapshot_count"] == 1 and volumes["c"]["snapshot_count"] == 0,
              f"snapshots: {volumes}")
        check(volumes["c"]["stored_bytes"] == 0, f"a clone shares: {volumes['c']}")
        check(volumes["c"]["origin_name"] == "v@monday" and "origin_name" not in volumes["v"],
              f"origins: {volumes}")
        check(all(v["session_count"] == 0 for v in volumes.values()), f"sessions: {volumes}")
        stored = counted_as_walked(c, "v")
        with Load(c, size=None, volume="v") as v, Load(c, size=None, volume="c") as clone:
            v.wait_writes(100)
            clone.wait_writes(100)
            volumes = listed(c)
            check([volumes[name]["session_count"] for name in ("v", "c", "empty")] == [1, 1, 0],
                  f"a load runs on each of v and c: {volumes}")
            check(volumes["c"]["stored_bytes"] > 0, f"the clone was written: {volumes['c']}")
            sessions = asked(c, "volume", "show", "v")["usage"]["sessions"]
            check(len(sessions) == 1 and sessions[0]["access"] == "write" and
                  sessions[0]["connections"] == 2 and "127.0.0.1" in sessions[0]["peer"],
                  f"sessions: {sessions}")
            check(sessions[0]["client"] in c.cleave("volume", "show", "v").stdout,
                  "the writer's name is not shown")
        # A gateway that is gone: its shards are taken over, or the list says that it is not all.
        c.gateways[1].kill()
        answer = asked(c, "volume", "list")
        told = {v["name"]: v for v in answer["volumes"]}["v"]["stored_bytes"]
        check(told > stored // 2 or not answer["whole"], f"a part is told as the whole: {answer}")
        c.gateways[1].start()


def snapshots_say_what_each_holds_and_deleting_frees():
    with Cluster(nodes=3, shards=4, gateways=2) as c:
        c.volume_create("v", "64M", "--engine", "none")
        fill(c, "v", 1)
        c.cleave("snapshot", "create", "v@first")
        fill(c, "v", 2, 4)
        c.cleave("snapshot", "create", "v@second")
        c.cleave("snapshot", "create", "v@third")
        c.cleave("clone", "v@second", "c")
        c.cleave("clone", "v@second", "d")
        shown = asked(c, "volume", "show", "v")
        first, second, third = shown["snapshots"]
        # Merges compress what the volume's engine did not.
        check(first["stored_bytes"] >= first["freed_bytes_max"] > 1 << 20, f"v@first: {first}")
        check(1 << 20 <= second["stored_bytes"], f"v@second: {second}")
        check(second["freed_bytes_max"] == 0, f"nothing was written since v@second: {second}")
        check(third["stored_bytes"] == 0 and third["freed_bytes_max"] == 0, f"v@third: {third}")
        check(shown["clone_count"] == 2 and
              {e["name"]: e["snapshot"] for e in shown["clones"]} == {"c": "second", "d": "second"},
              f"clones: {shown['clones']}")
        text = c.cleave("volume", "show", "v").stdout
        for part in ("DELETING FREES", "first ", "at most ", "not while it has clones",
                     "c of @second"):
            check(part in text, f"{part!r} is not in\n{text}")
        one = asked(c, "volume", "show", "v@second")
        check(one["snapshot"]["stored_bytes"] > 0, f"{one}")
        check([e["name"] for e in one["clones"]] == ["c", "d"], f"{one}")
        text = c.cleave("volume", "show", "v@second").stdout
        for part in ("v@second", "stored since the one before", "clones: c, d"):
            check(part in text, f"{part!r} is not in\n{text}")
        check("clone of v@second" in c.cleave("volume", "show", "c").stdout, "the origin")
        expect_error(c.cleave("volume", "show", "v@nope", check_rc=False),
                     "snapshot 'v@nope': no such snapshot")
        expect_error(c.cleave("volume", "show", "nope", check_rc=False), "'nope': no such volume")
        expect_error(c.cleave("volume", "show", "nope@s", check_rc=False), "'nope': no such volume")


class Shrinking:
    """A volume resize of v, whose end holds data, that has opened it, and waits for nodes that stand still."""

    def __init__(self, c, *words):
        self.c, self.words, self.said = c, words, None

    def __enter__(self):
        for node in self.c.nodes:
            node.signal(signal.SIGSTOP)
        self.process = subprocess.Popen(
            [binary("cleave"), *self.c.gateway_words(), "volume", "resize", "v", "--size", "32M", "--shrink",
             *self.words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_for(self.has_opened, "it opens the volume")
        return self

    def has_opened(self):
        check(self.process.poll() is None, f"it has ended: {self.process.returncode}")
        return "holder" in asked(self.c, "volume", "show", "v")["volume"]

    def go_on(self):
        for node in self.c.nodes:
            node.signal(signal.SIGCONT)
        self.said = self.process.communicate(timeout=WAIT_S)[1]
        return self.process.returncode

    def __exit__(self, *exception):
        if self.said is None:
            self.go_on()


def a_shrink_is_of_the_volume_that_was_looked_at():
    """And no reason to put out whoever came meanwhile, but with --force."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "40M")
        c.volume_create("u", "40M")
        fill(c, "v", 1, 40)

        def sizes():
            return {name: v["size_bytes"] >> 20 for name, v in listed(c).items()}

        with Shrinking(c) as shrinking:
            c.cleave("volume", "rename", "v", "w")
            c.cleave("volume", "rename", "u", "v")
            rc = shrinking.go_on()
        check(rc == 1 and "another one by now" in shrinking.said, shrinking.said)
        check(sizes() == {"v": 40, "w": 40}, f"{sizes()}")
        for words, status in (((), 1), (("--force",), 0)):
            fill(c, "v", 2, 40)
            with Shrinking(c, *words) as shrinking, Agent(c, "--volume", "v", "--read-only") as agent:
                reader = Client(agent)
                check(reader.go() == 1, "GO")
                # It is told that the volume is there before it has said to any port that it reads: only then is it known.
                wait_for(lambda: "read" in [s["access"] for s in asked(c, "volume", "show", "v")["usage"]["sessions"]],
                         "the reader has no session")
                rc = shrinking.go_on()
            check(rc == status, shrinking.said)
            check(rc == 0 or ("being read by" in shrinking.said and "is discarded" in shrinking.said and
                              "--force" in shrinking.said), shrinking.said)
            check(sizes()["v"] == (32 if rc == 0 else 40), f"{words}: {sizes()}")
        c.cleave("volume", "resize", "w", "--size", "32M", "--shrink")
        check(sizes() == {"v": 32, "w": 32}, f"{sizes()}")


class Forgetful(Proxy):
    """The end of a session is never heard of: what a client says of it does not arrive."""

    lost_count = 0

    def _read(self, flow):
        super()._read(flow)
        if flow.queue and b"volume.detach" in flow.queue[-1][1]:
            flow.queue.pop()
            self.lost_count += 1


def a_shrink_waits_for_the_end_of_its_own_session():
    with Cluster(nodes=3, gateway_args=("--session-timeout", "6s")) as c:
        c.volume_create("v", "40M")
        fill(c, "v", 1, 40)
        host, port = c.gateway_addresses[0].removeprefix("tcp://").split(":")
        proxy = Forgetful(host, int(port))
        try:
            run_argv([binary("cleave"), "--gateway", proxy.address, "volume", "resize", "v", "--size", "32M",
                      "--shrink"])
            check(proxy.lost_count == 1, f"{proxy.lost_count} sessions ended unheard of")
            check(listed(c)["v"]["size_bytes"] == 32 << 20, "its size")
        finally:
            proxy.close()


if __name__ == "__main__":
    main(the_list_tells_what_is_stored_and_who_is_there, snapshots_say_what_each_holds_and_deleting_frees,
         a_shrink_is_of_the_volume_that_was_looked_at, a_shrink_waits_for_the_end_of_its_own_session)
