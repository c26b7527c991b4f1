#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cleave-agent and a volume that others use: who reads takes nothing, who changes it has it, or not."""
import os
import shutil
import signal
import struct

from libagent import EPERM, ERR_UNKNOWN, Agent, Client, control
from libcluster import Cluster, check, main, run_argv, wait_for
from libkeys import Authority, Keyed
from libproxy import Proxy

ESHUTDOWN = 108
ERR_PLATFORM = 2**31 + 4


class Other(Agent):
    """An agent of another host: its own socket and control socket."""

    def __init__(self, c, name, *words):
        super().__init__(c, "--volume", "v", "--control", os.path.join(c.folder, name + ".control"),
                         *words)
        self.socket = os.path.join(c.folder, name + ".sock")
        self.control = os.path.join(c.folder, name + ".control")
        self.argv = [word if not word.startswith("unix:") else f"unix:{self.socket}"
                     for word in self.argv]

    def export(self):
        return control(self.control, op="list")["exports"][0]


def come(agent):
    s = Client(agent)
    check(s.go() == 1, "GO")
    return s


def write(s, block, letter):
    s.command(1, 4096 * block, 4096, data=letter * 4096)
    return s.error()


def read(s, block):
    s.command(0, 4096 * block, 4096)
    check(s.error() == 0, "a read")
    return s.get(4096)


def who_reads_takes_nothing():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Other(c, "one") as one, Other(c, "two") as two:
            writer, reader = come(one), come(two)
            check(one.export()["writing"] is False, "it has not written yet")
            check(write(writer, 0, b"1") == 0, "a write")
            check(one.export()["writing"] is True, "it writes")
            check(read(reader, 0) == b"1" * 4096, "what the other host reads")
            # A change there is refused, the first client does not notice, and it may be tried again.
            check(write(reader, 1, b"2") == EPERM, "a write of what another one has")
            two.wait_line("export: cannot be written name=v .*in use by")
            check(write(writer, 0, b"3") == 0 and read(reader, 0) == b"3" * 4096, "the next one")
            reader.command(8, 8 << 20)
            check(reader.error() == EPERM, "another size")
            writer.s.close()
            one.wait_line("export: closed")
            # Which it says before the gateway has heard of it.
            wait_for(lambda: write(reader, 1, b"2") == 0, "a write when the other one has left")
            check(read(reader, 0) == b"3" * 4096 and read(reader, 1) == b"2" * 4096, "all of it")


def who_takes_has_it_until_it_leaves():
    """The one that was robbed gets errors, says by whom, and goes on where it was when it is told to."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Other(c, "one", "--reclaim") as one, \
                Other(c, "two", "--when-held", "take") as two:
            first, second = come(one), come(two)
            check(write(first, 0, b"1") == 0 and write(second, 1, b"2") == 0, "two writes")
            check(write(first, 2, b"3") == ESHUTDOWN, "a write of who was robbed")
            one.wait_line("export: lost, its clients get errors until it is got back name=v:"
                          ".*taken by")
            export = one.export()
            check(export["state"] == "lost" and "taken by" in export["lost"], export)
            late = come(one)
            check(write(late, 2, b"3") == ESHUTDOWN, "a write of one who comes meanwhile")
            check(write(second, 1, b"4") == 0, "the taker's")
            second.s.close()
            one.wait_line("export: got back name=v")
            for s in (first, late):
                check(write(s, 2, b"5") == 0, "a write afterwards, of the same client")
                check(read(s, 1) == b"4" * 4096, "what the taker has written")
            check(one.export()["lost"] == "", "it is not lost any more")


def who_is_put_out_by_an_operator_says_why():
    """The list of exports has a reason for one that is lost, from the first moment on, and none for one that is had again."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Other(c, "one") as one:
            for wanted in ("direct", "gateway"):
                s = come(one)
                check(write(s, 0, b"1") == 0, "a write")
                c.cleave("volume", "set", "v", "--reads", wanted, "--force")
                check(write(s, 0, b"2") == ESHUTDOWN, "a write of who was put out")
                check(one.export()["state"] == "lost" and "volume 'v': " in one.export()["lost"], one.export())
                wait_for(lambda: "--force" in one.export()["lost"], "the reason does not say who does such a thing")
                told = c.cleave("exports", "--agent", one.control).stdout
                check(one.export()["lost"] in told, told)
                late = come(one)  # which cuts the others off: it gets the volume anew
                check(read(late, 1) == bytes(4096), "who comes then")
                check(one.export()["state"] == "open" and one.export()["lost"] == "", one.export())
                late.s.close()
                wait_for(lambda: one.export()["state"] == "closed", "it is never closed")


def a_uri_leads_to_a_socket_of_any_name():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Other(c, "a b%41?c&d#") as one:
            uri = one.export()["uri"]
            check(uri == f"nbd+unix:///v?socket={c.folder}/a%20b%2541%3Fc%26d%23.sock", uri)
            if shutil.which("nbdinfo"):
                check(run_argv(["nbdinfo", "--size", uri]).stdout.strip() == str(4 << 20), "nbdinfo")


def another_volume_of_the_name_is_taken_from_nobody():
    """A client has read a volume, which then gets another name, and another one its name."""
    with Cluster(nodes=3) as c:
        for name in ("v", "u"):
            c.volume_create(name, "4M")
        with Other(c, "one", "--when-held", "take") as one, Other(c, "two") as two:
            first = come(one)
            check(read(first, 0) == bytes(4096), "what it reads")
            c.cleave("volume", "rename", "v", "w")
            c.cleave("volume", "rename", "u", "v")
            second = come(two)
            check(write(second, 0, b"2") == 0, "the other volume's writer")
            check(write(first, 0, b"1") != 0, "a change for another volume than it has read")
            check(write(second, 1, b"2") == 0, "the other volume was taken")
            one.wait_line("export: cannot be written name=v .*'v' is another one by now")
            check(read(second, 0) == b"2" * 4096 and read(first, 0) == bytes(4096), "both")
            # The refused write is no reason to cut off those that read: nobody else comes to what is open.
            check("is open here until its clients have left" in refusal(one), "a new client")
            check(read(first, 0) == bytes(4096), "a reader was cut off")


def refusal(agent, name=b"v"):
    """The text with which a new client is refused."""
    s = Client(agent)
    s.option(7, struct.pack(">I", len(name)) + name + struct.pack(">H", 0))
    _, kind, text = s.reply()
    check(kind == ERR_UNKNOWN, f"a new client was not refused: {kind}")
    s.s.close()
    return text.decode()


def a_new_client_gets_the_volume_of_the_name_or_none():
    """One that is there keeps what it has open, whatever becomes of the name."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Other(c, "one") as one:
            first = come(one)
            check(write(first, 0, b"1") == 0, "a write")
            c.cleave("volume", "rename", "v", "old")
            text = refusal(one)  # nobody has the name
            check("volume 1 is open" in text and "'v'" in text, text)
            c.volume_create("v", "8M")
            text = refusal(one)
            check("volume 1 is open" in text and "volume 2" in text, text)
            one.wait_line("export: client refused name=v: volume 1 is open .*volume 2")
            check(one.export()["problem"] == text, one.export())
            told = c.cleave("exports", "--agent", one.control).stdout
            check(text in told, told)
            check(write(first, 1, b"1") == 0 and read(first, 0) == b"1" * 4096, "the first one")
            # The name is its own again, and then another's until the last client has gone.
            c.cleave("volume", "rename", "v", "new")
            c.cleave("volume", "rename", "old", "v")
            second = come(one)
            check(read(second, 1) == b"1" * 4096, "a client of the same volume")
            check(one.export()["problem"] == "", one.export())
            c.cleave("volume", "rename", "v", "old")
            c.cleave("volume", "rename", "new", "v")
            check("volume 2" in refusal(one), "the other one again")
            for s in (first, second):
                s.s.close()
            one.wait_line("export: closed")
            check(one.export()["problem"] == "", one.export())
            check(read(come(one), 0) == bytes(4096), "what the new volume has")


def readers_and_snapshots_of_another_name():
    """The same where nothing is written; what is deleted refuses new clients, too."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Other(c, "one", "--all", "--read-only") as one:
            reader = come(one)
            c.cleave("snapshot", "create", "v@s")
            of_snapshot = Client(one)
            check(of_snapshot.go(b"v@s") == 1, "GO of the snapshot")
            again = Client(one)
            check(again.go(b"v@s") == 1, "GO of the snapshot, again")
            c.cleave("volume", "rename", "v", "old")
            text = refusal(one, b"v@s")
            check("an earlier snapshot is open" in text, f"nobody has the name: {text}")
            c.volume_create("v", "4M")
            c.cleave("snapshot", "create", "v@s")
            text = refusal(one)
            check("volume 1 is open" in text and "volume 2" in text, text)
            text = refusal(one, b"v@s")
            check("an earlier snapshot is open" in text and "'v@s'" in text, text)
            check(read(reader, 0) == bytes(4096), "the reader")
            check(read(of_snapshot, 0) == bytes(4096), "the snapshot's reader")
        with Other(c, "two") as two:
            reader = come(two)
            c.cleave("volume", "delete", "v", "--snapshots", "--force")
            reader.command(0, 0, 4096)
            check(reader.error() != 0, "a read of what was deleted")
            text = refusal(two)
            check("'v'" in text and two.export()["problem"] == text, f"deleted: {text}")
            check(reader.is_closed(), "who reads what was deleted is not cut off")
            c.volume_create("v", "8M")
            check(read(come(two), 1024) == bytes(4096), "the new volume")


def with_the_first_client():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Other(c, "one", "--attach", "client") as one, \
                Other(c, "two", "--attach", "client") as two:
            first = come(one)
            check(one.export()["writing"] is True, "it has the volume at once")
            check(Client(two).go() == ERR_PLATFORM, "a second one is refused when it comes")
            check(write(first, 0, b"1") == 0, "a write")


def one_that_comes_as_the_last_of_a_renamed_volume_leaves_gets_the_name():
    """It is asked whose the name is while the others are there, and answered when they have left."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Other(c, "one") as one:
            first = come(one)
            check(write(first, 0, b"1") == 0, "a write")
            c.cleave("volume", "rename", "v", "old")
            c.volume_create("v", "8M")
            c.gateway.signal(signal.SIGSTOP)
            try:
                late = Client(one)
                late.option(7, struct.pack(">I", 1) + b"v" + struct.pack(">H", 0))
                wait_for(lambda: one.export()["users"] == 2, "it does not come")
                first.s.close()
                wait_for(lambda: one.export()["users"] == 1, "the other one does not leave")
            finally:
                c.gateway.signal(signal.SIGCONT)
            kind = 3
            while kind == 3:
                _, kind, text = late.reply()
            check(kind == 1, f"it is refused: {text}")
            check(read(late, 0) == bytes(4096), "it has the renamed volume")
            check(write(late, 1, b"2") == 0 and one.export()["problem"] == "", one.export())
            late.s.close()


def who_lost_the_right_to_write_is_lost_and_the_next_one_is_not():
    """A right that is withdrawn ends the writer's session: EPERM. New clients have what the key may do by then."""
    with Authority() as a, Keyed(a) as c:
        key = a.issue("client/db1")
        c.volume_create("v", "4M")
        c.cleave("user", "add", "db1", "v:rw")
        with Other(c, "one", "--key", key, "--resize", "any") as one:
            writer = come(one)
            check(write(writer, 0, b"1") == 0, "a write")
            # Another size is not its to ask for, and that alone.
            writer.command(8, 8 << 20)
            check(writer.error() == EPERM, "a size that needs the letter a")
            check(one.export()["state"] == "open" and write(writer, 0, b"2") == 0, "a refused size ended the session")
            c.cleave("user", "set", "db1", "v:r")
            wait_for(lambda: write(writer, 1, b"3") == EPERM, "it writes without the right")
            one.wait_line("export: lost name=v rc=-ENOKEY")
            one.wait_line("export: lost, .* name=v: volume .v.: the key gives no right")
            check(one.export()["state"] == "lost", one.export())
            # The first one is still there.
            reader = come(one)
            check(read(reader, 0) == b"2" * 4096, "what a new client reads")
            check(write(reader, 1, b"4") == EPERM, "a write of who may not")
            check(one.export()["state"] == "open" and read(reader, 0) == b"2" * 4096, "a refused write ended the session")
            for s in (writer, reader):
                s.s.close()


def a_stop_leaves_the_volume():
    """Its last client has left; the gateway that it asked has died, and the other one takes a moment to hear of it."""
    with Cluster(gateways=2) as c:
        c.volume_create("v", "64M")
        agent = Agent(c).start()
        agent.wait_ready()
        s = come(agent)
        check(write(s, 0, b"1") == 0, "a write")
        c.gateways[1].signal(signal.SIGSTOP)
        try:
            c.gateway.kill()
            s.s.close()
            agent.wait_line("nbd: closed")
            agent.signal(signal.SIGTERM)
            agent.wait_line("agent: stopping")
        finally:
            c.gateways[1].signal(signal.SIGCONT)
        check(agent.wait_exit() == 0, "its exit status")
        c.gateways[1].wait_line("gateway 0000000000000001 .* is gone .*, and had shards")  # so nobody else is asked
        c.cleave("volume", "delete", "v", "--purge")


def a_stop_while_it_opens_leaves_the_volume():
    """The gateway has let it in, and the answer is late: nobody else would be let in before the session times out."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        host, port = c.address.removeprefix("tcp://").split(":")
        proxy = Proxy(host, int(port))
        agent = Other(c, "one", "--attach", "client")
        agent.argv[agent.argv.index(c.address)] = proxy.address
        opened = "volume: opened for writing name=v"
        try:
            agent.start()
            come(agent).s.close()
            agent.wait_line("export: closed")
            proxy.mark(answers=True)
            proxy.hold(marked=True)
            late = Client(agent)
            late.option(7, struct.pack(">I", 1) + b"v" + struct.pack(">H", 0))
            wait_for(lambda: c.gateway.count_lines(opened) == 2, "the open")
            check(agent.export()["state"] == "opening", agent.export())
            agent.signal(signal.SIGTERM)
            agent.wait_line("agent: stopping")
            proxy.release()
            check(agent.wait_exit() == 0, "its exit status")
        finally:
            proxy.close()
        c.cleave("volume", "delete", "v", "--purge")


if __name__ == "__main__":
    main(who_reads_takes_nothing, who_takes_has_it_until_it_leaves, who_is_put_out_by_an_operator_says_why,
         a_uri_leads_to_a_socket_of_any_name,
         another_volume_of_the_name_is_taken_from_nobody,
         a_new_client_gets_the_volume_of_the_name_or_none, readers_and_snapshots_of_another_name,
         with_the_first_client, one_that_comes_as_the_last_of_a_renamed_volume_leaves_gets_the_name,
         who_lost_the_right_to_write_is_lost_and_the_next_one_is_not, a_stop_leaves_the_volume,
         a_stop_while_it_opens_leaves_the_volume)
