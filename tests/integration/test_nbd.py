#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cleave-agent as others' programs see it: nbdinfo, nbdcopy, qemu-img, qemu-io, fio, libnbd."""
import json
import os
import shutil
import signal
import struct
import subprocess

from libagent import (EINVAL, ENOSPC, EPERM, ERR_INVALID, ERR_UNKNOWN, ERR_UNSUP, FIO, Agent,
                      Client, Fio, control, make_certificates, need, pid_of_agent)
from libcluster import BUILD, Cluster, check, expect_error, main, run_argv

need("nbdinfo", "nbdcopy", "nbdsh", "qemu-img", "qemu-io", "fio", "certtool", "psktool", "libnbd")


def tools():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        with Agent(c) as agent:
            uri, raw = agent.uri(), os.path.join(c.folder, "raw")
            info = run_argv(["nbdinfo", "--list", uri]).stdout
            check("export-size: 67108864" in info, info)
            check("block_size_minimum: 1\n" in info.replace("\t", ""), info)
            run_argv(["nbdinfo", "--map", uri])
            with open(raw, "wb") as f:
                f.write(os.urandom(16 << 20) + bytes(32 << 20) + os.urandom(16 << 20))
            run_argv(["nbdcopy", raw, uri])
            run_argv(["nbdcopy", uri, raw + "2"])
            run_argv(["cmp", raw, raw + "2"])
            run_argv(["qemu-img", "compare", "-f", "raw", "-F", "raw", raw, uri])
            run_argv(["qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", raw, uri])
            run_argv(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", uri, raw + ".qcow2"])
            run_argv(["qemu-img", "compare", raw + ".qcow2", uri])
            qemu_io(
                ["-f", "raw", uri],
                "write -P 7 1000 5000", "read -P 7 1000 5000", "write -z 8192 10001",
                "read -P 0 8192 10001", "write -P 9 20000 1", "read -P 9 20000 1",
                "discard 1M 64k", "read -P 0 1M 64k", "read -P 7 1000 5000", "flush",
                "write -f -P 3 2097151 3", "read -P 3 2097151 3", "write -z -u 3M 64k",
                "write -z -f 5000001 99", "read -P 0 5000001 99", "aio_write -P 5 6M 2M",
                "aio_flush", "aio_read -P 5 6M 2M", "writev -P 6 9M 1 2 3 4096",
                "readv -P 6 9M 4096 6")


def qemu_formats_and_benchmarks():
    """A qcow2 on the export, and what qemu-img asks of it."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        with Agent(c) as agent:
            uri, raw = agent.uri(), os.path.join(c.folder, "raw")
            run_argv(["qemu-img", "info", "-f", "raw", uri])
            run_argv(["qemu-img", "create", "-q", "-f", "qcow2", uri, "48M"])
            qemu_io(["-f", "qcow2", uri], "write -P 1 0 64k", "write -P 2 1000001 77777",
                    "read -P 2 1000001 77777", "write -z -u 16k 32k", "read -P 0 16k 32k",
                    "discard 10M 1M", "aio_write -P 3 20M 3M", "aio_flush", "read -P 3 20M 3M",
                    "writev -P 4 40M 512 1024 4096", "flush", "read -P 1 0 16k")
            run_argv(["qemu-img", "check", "-f", "qcow2", uri])
            entries = json.loads(run_argv(["qemu-img", "map", "-f", "qcow2", "--output=json",
                                           uri]).stdout)
            check(sum(e["length"] for e in entries) == 48 << 20, str(entries))
            run_argv(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", uri, raw])
            run_argv(["qemu-img", "compare", "-f", "qcow2", "-F", "raw", uri, raw])
            run_argv(["qemu-img", "create", "-q", "-f", "raw", uri, "64M"])
            entries = json.loads(run_argv(["qemu-img", "map", "-f", "raw", "--output=json",
                                           uri]).stdout)
            check(sum(e["length"] for e in entries) == 64 << 20, str(entries))
            for words in (["-c", "3000", "-d", "64"], ["-c", "3000", "-d", "64", "-w"],
                          ["-c", "500", "-w", "--flush-interval=50", "-d", "16"],
                          ["-c", "500", "-s", "5000", "-S", "4999", "-o", "123", "-w"],
                          ["-c", "50", "-s", "1M", "-d", "8"]):
                run_argv(["qemu-img", "bench", "-f", "raw", *words, uri])


def qemu_io(words, *commands):
    out = run_argv(["qemu-io", *words] + [w for command in commands for w in ("-c", command)])
    check("failed" not in out.stdout.lower(), out.stdout)


def libnbd_commands():
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libnbdcommands.py")
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        with Agent(c) as agent:
            run_argv(["/usr/bin/python3", script, agent.socket, "v"])
            run_argv(["env", "PATH=/usr/bin:/bin", "nbdsh", "--uri", agent.uri(), "-c", "h.pwrite(b'sh' * 256, 1)", "-c",
                      "assert h.pread(2, 511) == b'sh'"])


def fio_verifies():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        with Agent(c) as agent:
            for words in (["--rw=randrw", "--bs=512-64k", "--bs_unaligned=1", "--iodepth=32"],
                          ["--rw=write", "--bs=128k", "--iodepth=8"],
                          ["--rw=randwrite", "--bs=4k", "--iodepth=64", "--numjobs=3",
                           "--size=16m", "--offset_increment=16m"]):
                run_argv([*FIO, f"--uri={agent.uri()}",
                          "--size=32m", "--verify=crc32c", "--minimal", "--randseed=1", *words])


def random_bytes_against_a_mirror():
    exerciser = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libnbdfsx.py")
    with Cluster(nodes=3) as c:
        c.volume_create("v", "8M")
        with Agent(c) as agent:
            for seed, connections in ((1, 1), (2, 4)):
                run_argv(["/usr/bin/python3", exerciser, agent.uri(), str(seed), "4000",
                          str(connections)])


def gateway_killed_under_fio():
    """The client sees a pause, no error."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "64M")
        with Agent(c) as agent, Fio(c, agent) as fio:
            for _ in range(2):
                fio.goes_on("writes", 2000)
                c.gateway.kill()
                c.gateway.start()
            fio.goes_on("writes", 2000)
            fio.end()


def gateway_replaced_under_fio():
    """One gateway dies for good, the other serves its shards: a pause, no error."""
    with Cluster(nodes=3, gateways=2) as c:
        c.volume_create("v", "64M")
        with Agent(c, *c.gateway_words()[2:], "--volume", "v") as agent, Fio(c, agent) as fio:
            fio.goes_on("writes", 1000)
            c.gateways[1].kill()
            fio.goes_on("writes", 2000)
            fio.end()


def handshake_errors():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        with Agent(c) as agent:
            check(Client(agent, flags=1 << 9).is_closed(), "unknown flags")
            s = Client(agent)
            s.option(99, b"what?")
            check(s.reply()[1] == ERR_UNSUP, "an unknown option")
            check(s.go(b"nobody") == ERR_UNKNOWN, "an unknown export")
            s.option(7, b"\x00\x00\xff\xffv")
            check(s.reply()[1] == ERR_INVALID, "GO with a name longer than the option")
            s.option(7, struct.pack(">I", 1) + b"v" + struct.pack(">H", 9))
            check(s.reply()[1] == ERR_INVALID, "GO with too few requests")
            s.option(3, b"x")
            check(s.reply()[1] == ERR_INVALID, "LIST with data")
            s.option(10, struct.pack(">I", 1) + b"v" + struct.pack(">I", 0))
            check(s.reply()[1] == ERR_INVALID, "a context without structured replies")
            s.option(5)
            check(s.reply()[1] == ERR_UNSUP, "TLS that is not configured")
            check(s.go() == 1, "GO after all that")
            s = Client(agent)
            s.option(7, b"", length=1 << 30)
            check(s.is_closed(), "an option of a gigabyte")
            s = Client(agent)
            s.s.sendall(b"GET / HTTP/1.1\r\n\r\n")
            check(s.is_closed(), "no option at all")
            s = Client(agent, flags=0)
            s.option(3)
            check(s.is_closed(), "haggling without fixed newstyle")
            s = Client(agent)
            s.option(2)
            check(s.reply()[1] == 1 and s.is_closed(), "ABORT")
            s = Client(agent)
            s.option(1, b"v")
            check(struct.unpack(">Q", s.get(10)[:8])[0] == 4 << 20, "EXPORT_NAME")
            s.command(0, 0, 4096)
            check(s.error() == 0 and s.get(4096) == bytes(4096), "a read after EXPORT_NAME")


def request_errors():
    size = 4 << 20
    with Cluster(nodes=3) as c:
        c.volume_create("v", str(size))
        with Agent(c) as agent:
            s = Client(agent)
            check(s.go() == 1, "GO")
            for name, error, words in (
                    ("a read beyond the end", EINVAL, (0, size - 1, 2)),
                    ("a read at a wild offset", EINVAL, (0, 2**64 - 1, 4096)),
                    ("an empty read", EINVAL, (0, 0, 0)),
                    ("a read of 64 MiB", EINVAL, (0, 0, 64 << 20)),
                    ("a trim beyond the end", EINVAL, (4, size, 4096)),
                    ("zeroes beyond the end", ENOSPC, (6, size, 4096)),
                    ("an unknown command", EINVAL, (77, 0, 4096)),
                    ("an unknown flag", EINVAL, (0, 0, 4096, 1 << 12)),
                    ("a status without a context", EINVAL, (7, 0, 4096)),
                    ("a flush with a length", EINVAL, (3, 0, 1))):
                s.command(*words)
                check(s.error() == error, name)
            s.command(1, size, 4096, data=bytes(4096))
            check(s.error() == ENOSPC, "a write beyond the end, whose payload is skipped")
            s.command(1, 0, 33 << 20, data=bytes(33 << 20))
            check(s.error() == EINVAL, "a write of 33 MiB, whose payload is skipped")
            s.command(1, 5, 3, data=b"abc")
            check(s.error() == 0, "a write after these")
            s.command(0, 4, 5)
            check(s.error() == 0 and s.get(5) == b"\0abc\0", "a read after these")
            s.command(0, 0, 4096, magic=0x12345678)
            check(s.is_closed(), "a wrong magic")
            s = Client(agent)
            check(s.go() == 1, "GO")
            s.command(1, 0, 8192, data=bytes(100))  # and goes in the middle of it
            s.s.close()
            s = Client(agent)
            check(s.go() == 1, "GO")
            s.command(2)
            check(s.is_closed(), "DISC")
        with Agent(c, "--volume", "v", "--read-only") as agent:
            s = Client(agent)
            check(s.go() == 1, "GO")
            for command, data in ((1, bytes(4096)), (4, b""), (6, b"")):
                s.command(command, 0, 4096, data=data)
                check(s.error() == EPERM, f"command {command} on a read-only export")


def started_by_its_client():
    """Over standard input and output, and with a socket passed as systemd does."""
    script = ("import nbd, sys\nh = nbd.NBD()\ngetattr(h, sys.argv[1])(sys.argv[2:])\n"
              "h.pwrite(b'x' * 512, 512)\nassert h.pread(512, 512) == b'x' * 512\n"
              "h.shutdown()\n")
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        agent = [os.path.join(BUILD, "vm-client", "cleave-agent"), "--gateway", c.address,
                 "--volume", "v"]
        run_argv(["/usr/bin/python3", "-c", script, "connect_command", *agent, "--stdio"])
        run_argv(["/usr/bin/python3", "-c", script, "connect_systemd_socket_activation", *agent])


def attach_and_detach():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        path = os.path.join(c.folder, "control")
        with Agent(c, "--control", path) as agent:
            check(run_argv(["nbdinfo", agent.uri()], check_rc=False).returncode != 0, "served")
            check(control(path, op="attach", name="v")["uri"] == agent.uri(), "the URI")
            run_argv(["nbdinfo", agent.uri()])
            check("error" in control(path, op="attach", name="v", read_only=True), "both ways")
            s = Client(agent)
            check(s.go() == 1, "GO")
            export, = control(path, op="list")["exports"]
            check(export["users"] == 1 and export["state"] == "open", str(export))
            check("in use" in control(path, op="detach", name="v")["error"], "in use")
            check(control(path, op="detach", name="v", force=True) == {}, "by force")
            check(s.is_closed(), "the client is still there")
            check(run_argv(["nbdinfo", agent.uri()], check_rc=False).returncode != 0, "served")
            c.cleave("snapshot", "create", "v@s")
            check(control(path, op="attach", name="v@s")["uri"] == agent.uri("v@s"), "the URI")
            check(control(path, op="attach", name="v@s")["uri"] == agent.uri("v@s"), "twice")
            check("read_only: true" in run_argv(["nbdinfo", agent.uri("v@s")]).stdout.replace(
                "is_read_only", "read_only"), "a snapshot is read-only")
            for wrong in ({}, {"op": "dance"}, {"op": "attach"}, {"op": "detach", "name": "w"},
                          {"op": "attach", "name": ""}):
                check("error" in control(path, **wrong), str(wrong))


def as_many_exports_as_there_may_be_are_listed():
    """By parts: one packet of a unix socket does not hold them. Who does not ask for parts is told so."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        path, file = os.path.join(c.folder, "control"), os.path.join(c.folder, "exports")
        names = sorted(f"{i * 7919 % 4000:04}-{'x' * 50}" for i in range(4000))
        with open(file, "w") as f:
            f.write("".join(f"{name}\n" for name in names[1:]))
        with Agent(c, "--control", path, "--exports", file):
            with open(file, "a") as f:
                f.write(f"{names[0]}\nno good name!\n")
            at = ("--agent", path)
            told = json.loads(c.cleave("--json", "exports", "--reload", *at).stdout)
            check([e["name"] for e in told["exports"]] == names, f"{len(told['exports'])} exports")
            check(len(told["exports_file_problems"]) == 1 and "more" not in told, str(told["exports_file_problems"]))
            check(c.cleave("exports", *at).stdout.count("\n") == 4002, "as a table")
            c.cleave("attach", "v", "--persistent", *at)
            c.cleave("detach", names[3999], *at)
            told = json.loads(c.cleave("--json", "exports", *at).stdout)
            check([e["name"] for e in told["exports"]] == [*names[:3999], "v"], "behind a detach")
            # A release before does not ask so; whether one answer holds them all is the system's to say (wmem_default).
            whole = control(path, op="list")
            check("too long" in whole.get("error", "") or len(whole["exports"]) == 4000, "one answer")
            check(len(control(path, op="list", after=names[3990])["exports"]) == 9, "the last part")


def control_socket_answers_root_and_its_own_user_alone():
    """Its mode keeps others out; where somebody has opened that, who connects is looked at."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        path = os.path.join(c.folder, "control")
        with Agent(c, "--control", path) as agent:
            check(os.stat(path).st_mode & 0o777 == 0o600, "its mode")
            if os.geteuid() != 0:
                return  # nobody else can be played
            os.chmod(path, 0o666)
            os.chmod(c.folder, 0o755)
            ask = ("import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect('%s'); "
                   "s.send(b'{\"op\":\"list\"}'); print(len(s.recv(100)))" % path)
            done = subprocess.run(["/usr/bin/python3", "-c", ask], user=65534, group=65534, extra_groups=[],
                                  capture_output=True, text=True, timeout=60)
            check(done.returncode != 0 or done.stdout == "0\n", f"another user was answered: {done.stdout}")
            agent.wait_line(r"control socket: refused uid=65534 pid=\d+")
            check("exports" in control(path, op="list"), "root is answered still")
            control(path, op="attach", name="v")
            agent.wait_line(f"attached name=v uid=0 pid={os.getpid()}")


def attach_starts_an_agent():
    """`cleave attach` alone: an agent is started, prints a URI, and is stopped by its pid."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        path = os.path.join(c.folder, "agent")
        expect_error(c.cleave("attach", "nobody", "--agent", path, check_rc=False), "nobody")
        check(not os.path.exists(path), "an agent for a volume that does not exist")
        expect_error(c.cleave("exports", "--agent", path, check_rc=False), "no agent answers")
        uri = c.cleave("attach", "v", "--agent", path).stdout.strip()
        pid = pid_of_agent(path)
        try:
            check(c.cleave("attach", "v", "--agent", path).stdout.strip() == uri, "twice")
            check(run_argv(["nbdinfo", "--size", uri]).stdout.strip() == str(4 << 20), uri)
            check(uri in c.cleave("exports", "--agent", path).stdout, "exports")
            c.cleave("detach", "v", "--agent", path)
            expect_error(c.cleave("detach", "v", "--agent", path, check_rc=False), "not attached")
        finally:
            os.kill(pid, signal.SIGTERM)
        expect_error(c.cleave("attach", "v", "--agent", "/nowhere/agent", check_rc=False),
                     "nowhere")


def attach_and_detach_as_they_are_told_of():
    """Without --agent: the agent that is started has no file of exports, and detach looks for none."""
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        os.environ["XDG_RUNTIME_DIR"] = c.folder
        try:
            c.cleave("attach", "v")
            pid = pid_of_agent(os.path.join(c.folder, "cleave-agent"))
            try:
                c.cleave("detach", "v")
                expect_error(c.cleave("detach", "v", check_rc=False), "'v' is not attached")
            finally:
                os.kill(pid, signal.SIGTERM)
        finally:
            del os.environ["XDG_RUNTIME_DIR"]


def tls_refuses(agent, uri, line):
    before = len(agent.lines)
    result = run_argv(["nbdinfo", uri], check_rc=False)
    check(result.returncode != 0, f"{uri} was served")
    agent.wait_line(line, from_line=before)


def tls_with_certificates():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        server, client, stranger = (os.path.join(c.folder, d) for d in "sct")
        for folder in (server, client, stranger):
            os.mkdir(folder)
        make_certificates(server)
        for name in ("ca-cert.pem", "client-cert.pem", "client-key.pem"):
            shutil.copy(os.path.join(server, name), client)
        shutil.copy(os.path.join(server, "ca-cert.pem"), os.path.join(stranger, "ca-cert.pem"))
        with Agent(c, "--volume", "v", "--listen", "tcp://127.0.0.1:0", "--tls-certificates",
                   server, "--tls-verify-peer") as agent:
            address = agent.wait_line("ready listen=tcp").split("tcp://")[1].split()[0]
            uri = f"nbds://{address}/v?tls-certificates="
            check("with TLS" in run_argv(["nbdinfo", uri + client]).stdout, "no TLS")
            raw = os.path.join(c.folder, "raw")
            with open(raw, "wb") as f:
                f.write(os.urandom(4 << 20))
            run_argv(["nbdcopy", raw, uri + client])
            run_argv(["nbdcopy", uri + client, raw + "2"])
            run_argv(["cmp", raw, raw + "2"])
            tls_refuses(agent, f"nbd://{address}/v", "TLS is required")
            tls_refuses(agent, uri + stranger, "TLS handshake failed")
            shutil.copy(os.path.join(server, "stranger-cert.pem"),
                        os.path.join(stranger, "client-cert.pem"))
            shutil.copy(os.path.join(server, "stranger-key.pem"),
                        os.path.join(stranger, "client-key.pem"))
            tls_refuses(agent, uri + stranger, "TLS handshake failed")
            s = Client(agent)
            s.option(5)
            s.s.sendall(b"injected in plain")
            check(s.reply()[1] == 1 and s.is_closed(), "bytes in plain behind STARTTLS")


def tls_with_keys():
    with Cluster(nodes=3) as c:
        c.volume_create("v", "4M")
        keys, wrong = os.path.join(c.folder, "keys"), os.path.join(c.folder, "wrong")
        for file in (keys, wrong):
            run_argv(["psktool", "-u", "alice", "-p", file])
        with Agent(c, "--volume", "v", "--tls-psk", keys) as agent:
            uri = f"nbds+unix://alice@/v?socket={agent.socket}&tls-psk-file="
            check("with TLS" in run_argv(["nbdinfo", uri + keys]).stdout, "no TLS")
            tls_refuses(agent, uri + wrong, "TLS handshake failed")
            tls_refuses(agent, agent.uri(), "TLS is required")
        with Agent(c, "--volume", "v", "--tls-psk", keys, "--tls-optional") as agent:
            run_argv(["nbdinfo", agent.uri()])
            run_argv(["/usr/bin/python3", os.path.join(os.path.dirname(
                os.path.abspath(__file__)), "libnbdfsx.py"),
                f"nbds+unix://alice@/v?socket={agent.socket}&tls-psk-file={keys}", "3", "2000"])


if __name__ == "__main__":
    main(tools, qemu_formats_and_benchmarks, libnbd_commands, fio_verifies,
         random_bytes_against_a_mirror, gateway_killed_under_fio, gateway_replaced_under_fio,
         handshake_errors, request_errors, started_by_its_client, attach_and_detach,
         attach_and_detach_as_they_are_told_of,
         as_many_exports_as_there_may_be_are_listed,
         control_socket_answers_root_and_its_own_user_alone, attach_starts_an_agent, tls_with_certificates, tls_with_keys)
