#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports that outlive their agent: /etc/cleave/exports, written by cleave attach --persistent, and read again."""
import json
import os
import re
import signal

from libagent import EPERM, Agent, Client, control, need
from libcluster import Cluster, check, expect_error, main, run_argv, wait_for

need("nbdinfo")

BLOCK = 4096


class Host:
    """An agent with a file of exports, as a service has it."""

    def __init__(self, c, *words, name="agent"):
        self.c = c
        self.file = os.path.join(c.folder, name + ".exports")
        self.control = os.path.join(c.folder, name + ".control")
        self.agent = Agent(c, "--control", self.control, "--exports", self.file, *words)
        self.agent.socket = os.path.join(c.folder, name + ".sock")
        self.agent.argv = [w if not w.startswith("unix:") else f"unix:{self.agent.socket}"
                           for w in self.agent.argv]

    def __enter__(self):
        self.agent.start()
        return self

    def __exit__(self, kind, value, trace):
        return self.agent.__exit__(kind, value, trace)

    def write(self, text):
        with open(self.file, "w" if isinstance(text, str) else "wb") as f:
            f.write(text)

    def read(self):
        with open(self.file) as f:
            return f.read()

    def cleave(self, *words, **options):
        return self.c.cleave(*words, "--agent", self.control, **options)

    def exports(self, *words):
        """{name: what is told of it}"""
        self.told = json.loads(self.cleave("--json", "exports", *words).stdout)
        return {e["name"]: e for e in self.told["exports"]}

    def come(self, name=b"v"):
        s = Client(self.agent)
        check(s.go(name) == 1, "GO")
        return s


def write(s, letter, block=0):
    s.command(1, BLOCK * block, BLOCK, data=letter * BLOCK)
    return s.error()


def an_agent_that_was_killed_has_its_exports_again():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        c.volume_create("w", "4M")
        c.cleave("snapshot", "create", "v@s")
        with Host(c) as host:
            check(host.exports() == {} and not os.path.exists(host.file), "nothing yet")
            uri = host.cleave("attach", "v", "--persistent").stdout.strip()
            check(host.cleave("attach", "v", "--persistent").stdout.strip() == uri, "twice")
            expect_error(host.cleave("attach", "v@t", "--persistent", check_rc=False), "snapshot 'v@t': no such snapshot")
            host.cleave("attach", "v@s", "--persistent")
            host.cleave("attach", "w")
            check(host.read() == "v\nv@s\n", f"the file: {host.read()!r}")
            check({n: e["persistent"] for n, e in host.exports().items()} ==
                  {"v": True, "v@s": True, "w": False}, host.told)
            shown = host.cleave("exports").stdout
            check(re.search(r"^v@s +\S+ +read +", shown, re.M) and re.search(r"^w +\S+ +write +", shown, re.M), shown)
            # A line that makes no sense is its author's.
            host.write("v\nv@s\nw rw\n")
            expect_error(host.cleave("attach", "w", "--persistent", check_rc=False), "not for good: .*:3: 'rw' is no option")
            check(host.read() == "v\nv@s\nw rw\n", host.read())
            host.write("v\nv@s\n")
            check(write(host.come(), b"1") == 0, "a write")
            host.agent.kill()
            host.agent.start()
            check(set(host.exports()) == {"v", "v@s"}, f"behind a kill: {host.told}")
            check(run_argv(["nbdinfo", "--size", uri]).stdout.strip() == str(4 << 20), uri)
            s = host.come()
            s.command(0, 0, BLOCK)
            check(s.error() == 0 and s.get(BLOCK) == b"1" * BLOCK, "what was written")
            # Refused while it is in use, and then nothing is changed.
            expect_error(host.cleave("detach", "v", check_rc=False), "'v' is in use", "--force")
            check(host.read() == "v\nv@s\n", "it is there still")
            s.s.close()
            wait_for(lambda: host.exports()["v"]["users"] == 0, "its client has gone")
            host.cleave("detach", "v")
            check(host.read() == "v@s\n" and set(host.exports()) == {"v@s"}, host.read())
            expect_error(host.cleave("detach", "v", check_rc=False), "not attached")
            host.agent.kill()
            host.agent.start()
            check(set(host.exports()) == {"v@s"}, "for good")
            # A successor reads the same file.
            successor = Host(c, "--replace")
            with successor:
                check(set(successor.exports()) == {"v@s"}, "a successor's")
            host.agent.kill()
            host.agent.start()


def a_file_with_garbage():
    with Cluster(nodes=3) as c:
        for name in ("v", "w", "x"):
            c.volume_create(name, "4M")
        host = Host(c)
        host.write(b"# disks\n\n  v   # ours\nw read-only\nx readonly\nv\n@\na@b@c\n\xff\xfe\x00\n" +
                   b"y" * 600 + b"\nv@" + b"s" * 64 + b"\n" + b"x")
        with host:
            check({n: e["read_only"] for n, e in host.exports().items()} ==
                  {"v": False, "w": True}, host.told)
            wrong = [p[len(host.file) + 1:] for p in host.told["exports_file_problems"]]
            check([p.split(":")[0] for p in wrong] == ["5", "6", "7", "8", "9", "10", "11", "12"],
                  wrong)
            check(wrong[0] == "5: 'readonly' is no option: read-only is the only one", wrong[0])
            check(wrong[1] == "6: 'v' has line 3 already", wrong[1])
            # Nobody knows which of the two is meant: the one that was wrong first may be it.
            check(wrong[7] == "12: 'x' has line 5 already", wrong[7])
            check("no name of a volume" in wrong[2] and "too long" in wrong[5], wrong)
            host.agent.wait_line("ERROR agent: .*exports:5: 'readonly'")
            check("exports:5: " in host.cleave("exports").stdout, "people are told, too")
            # A line is changed; what else is in the file stays, wrong or not.
            before = open(host.file, "rb").read()
            host.cleave("detach", "w")
            check(open(host.file, "rb").read() == before.replace(b"w read-only\n", b"") + b"\n",
                  "the other lines")
            # While lines are wrong no export goes because of a line that is missing.
            host.write("w\nx readonly\n")
            check(set(host.exports("--reload")) == {"v", "w"}, host.told)
            host.write("w\nx read-only\n")
            check({n: e["read_only"] for n, e in host.exports("--reload").items()} ==
                  {"w": False, "x": True}, host.told)
            check(host.told["exports_file_problems"] == [], host.told)
            # A signal does it as well.
            for text, line in (("w\nx read-only\nv\n", "attached name=v by=.*:3"), ("w\nx read-only\n", "detached name=v")):
                seen = len(host.agent.lines)
                host.write(text)
                host.agent.signal(signal.SIGHUP)
                host.agent.wait_line(line, from_line=seen)
            # A client is not cut off by a line that goes, or changes.
            s = host.come(b"w")
            host.write("x\nw read-only\n")
            host.exports("--reload")
            check("in use: detach it first" in host.told["exports_file_problems"][0], host.told)
            host.write("x\n")
            check(write(s, b"1") == 0 and set(host.exports("--reload")) == {"w", "x"}, host.told)
            s.s.close()
            wait_for(lambda: set(host.exports()) == {"x"}, "it goes with its last client")
            os.remove(host.file)
            check(host.exports("--reload") == {}, "no file, no exports")
            os.mkdir(host.file)
            host.exports("--reload")
            check("directory" in host.told["exports_file_problems"][0], host.told)
            expect_error(host.cleave("attach", "v", "--persistent", check_rc=False),
                         "attached, but not for good: .*directory")
            os.rmdir(host.file)
            host.write("#" * ((1 << 20) + 1))
            host.exports("--reload")
            check("too large" in host.told["exports_file_problems"][0].lower(), host.told)


def what_cannot_be_had_keeps_nobody_out():
    """Volumes that there are not, and one that another host writes; told, and tried again."""
    with Cluster(nodes=3) as c:
        for name in ("v", "w"):
            c.volume_create(name, "4M")
        host, other = Host(c), Host(c, name="other")
        other.write("w\n")
        host.write("gone\nw\nv@gone\nv\n")
        with other, host:
            writer = other.come(b"w")
            check(write(writer, b"1") == 0, "the other host's write")
            wait_for(lambda: host.exports()["gone"]["problem"] != "" and
                     host.exports()["v@gone"]["problem"] != "", "nobody says that they are missing")
            host.agent.wait_line("WARN agent: 'gone' of .* cannot be had, and is tried again: ")
            check("gone" in host.exports()["gone"]["problem"], host.told)
            check(host.exports()["v"]["problem"] == "", host.told)
            check("'gone'" in host.cleave("exports").stdout, "the table")
            s = host.come(b"v")
            check(write(s, b"2") == 0, "a write of the one that is there")
            check(Client(host.agent).go(b"gone") >= 2**31, "the one that is not")
            # One that another host writes is read, and written when that one has left.
            s = host.come(b"w")
            s.command(0, 0, BLOCK)
            check(s.error() == 0 and s.get(BLOCK) == b"1" * BLOCK, "a read")
            check(write(s, b"3", 1) == EPERM, "a write")
            check("in use by" in host.exports()["w"]["problem"], host.told)
            writer.s.close()
            other.agent.wait_line("export: closed name=w")
            # The other agent says so before the gateway has heard of it.
            wait_for(lambda: write(s, b"3", 1) == 0, "what the other host has left is not written")
            check(host.exports()["w"]["problem"] == "", host.told)
            s.s.close()
            # A volume that is there now is found, without anybody asking.
            c.volume_create("gone", "8M")
            host.agent.wait_line("agent: 'gone' is there")
            check(host.exports()["gone"]["problem"] == "", host.told)
            host.come(b"gone").s.close()


def an_agent_that_nothing_outlives():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        path = os.path.join(c.folder, "control")
        with Agent(c, "--control", path):
            expect_error(c.cleave("attach", "v", "--persistent", "--agent", path, check_rc=False),
                         "no --exports FILE")
            check(control(path, op="list")["exports"] == [], "nothing is attached")
            expect_error(c.cleave("exports", "--reload", "--agent", path, check_rc=False),
                         "no --exports FILE")
            c.cleave("attach", "v", "--agent", path)
            c.cleave("detach", "v", "--agent", path)
        expect_error(c.cleave("attach", "v", "--persistent", "--agent", path + "x", check_rc=False),
                     "would not outlive")
        check(not os.path.exists(path + "x"), "no agent is started for it")


if __name__ == "__main__":
    main(an_agent_that_was_killed_has_its_exports_again, a_file_with_garbage,
         what_cannot_be_had_keeps_nobody_out, an_agent_that_nothing_outlives)
