#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` leaves behind is enough: for a cluster, for programs, for readers.

The build's files are installed into a folder of this test's own. With CLEAVE_INSTALL_ROOT=FOLDER that
folder is tested instead, as `dpkg-deb -x` has filled it (.ci/run does so).
"""
import glob
import gzip
import json
import os
import pty
import re
import shutil
import socket
import tempfile

import libcluster
from libcluster import BUILD, CLUSTER_ID, Daemon, Failure, check, main, run_argv

SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
ROOT = os.environ.get("CLEAVE_INSTALL_ROOT")
PAGES = {"cleave": 1, "cleave-load": 1, "cleave-agent": 8, "cleave-gateway": 8, "cleave-storage": 8}
PUBLIC_HEADERS = {f"{name}.h" for name in (
    "client", "dev_ptr", "engine", "loop", "manage", "message", "secure", "split", "status", "trash", "units")}
PUBLIC_NAME = re.compile(r"(cleave|dev|engine|loop|split|status|wire"
                         r"|CLEAVE|DEV|ENGINE|LOOP|SPLIT|WIRE)_\w+")
# What the paper calls its calls, objects that a prefix alone names, what only our own code makes, and POSIX.
PUBLIC_NAMES_BARE = {"open_roce_instance", "connect_qp", "host_alloc", "host_free", "cleave", "loop",
                     "sim_host", "batch_check", "iovec", "keyring"}


def cached(name):
    """A variable of the build's; of a package that is not of this build, nothing is known."""
    if ROOT:
        return ""
    with open(os.path.join(BUILD, "CMakeCache.txt")) as f:
        match = re.search(rf"^{name}:\w+=(.*)$", f.read(), re.M)
    return match.group(1) if match else ""


def install(folder):
    for name in PAGES:
        libcluster.binary(name)  # skips where it has not been built
    run_argv(["cmake", "--install", BUILD], env={**os.environ, "DESTDIR": folder})


def find(root, pattern):
    """The one file that ends so."""
    found = [p for p in glob.glob(f"{root}/**/{pattern}", recursive=True)]
    check(len(found) == 1, f"{pattern}: {found or 'is not installed'}")
    return found[0]


def texts(root):
    for folder, _, names in os.walk(root):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as f:
                data = f.read()
            is_binary = data[:4] == b"\x7fELF" or data[:7] == b"!<arch>"
            yield path, is_binary, gzip.decompress(data) if name.endswith(".gz") else data


def nothing_names_the_build_tree(root):
    """In test builds assertions and debug information do, so programs are for packages."""
    count = 0
    for path, is_binary, data in texts(root):
        if is_binary and not ROOT:
            continue
        count += 1
        for folder in (SOURCE, os.path.realpath(BUILD)):
            check(os.fsencode(folder) not in data, f"{path} names {folder}")
    check(count > 20, f"{count} files are not all")
    for name in PAGES:
        path = find(root, f"bin/{name}")
        text = run_argv(["readelf", "-d", path]).stdout
        check("(NEEDED)" in text and "PATH" not in text, f"{path}: it has a run path")


def manual_pages_render_without_warnings(root):
    checkers = [c for c in (["groff", "-man", "-Tutf8", "-ww", "-z"], ["mandoc", "-Tlint", "-Wwarning"])
                if shutil.which(c[0])]
    if len(checkers) < 2:
        print("  not by both groff and mandoc: one is not installed")
    for name, section in PAGES.items():
        path = find(root, f"man{section}/{name}.{section}.gz")
        with gzip.open(path, "rt") as f:
            text = f.read()
        for words in (["--help"], ["format", "--help"])[: 2 if name == "cleave-storage" else 1]:
            shown = run_argv([find(root, f"bin/{name}"), *words]).stdout
            for option in re.findall(r"^  (?:    |-., )(--[a-z-]+)", shown.split("\nCommands")[0], re.M):
                check(f"\\fB{option}\\fR".replace("-", "\\-") in text, f"{path}: no {option}")
        for title in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SIGNALS", "EXIT STATUS", "FILES",
                      "EXAMPLES", "SEE ALSO"):
            check(f"\n.SH {title}\n" in text, f"{path}: no section {title}")
        check("\n@" not in text and "@VERSION@" not in text, f"{path}: something was not filled in")
        with tempfile.NamedTemporaryFile("w", suffix=f".{section}") as page:
            page.write(text)
            page.flush()
            for checker in checkers:
                done = run_argv([*checker, page.name])
                check(done.stdout + done.stderr == "", f"{checker[0]}: {done.stdout}{done.stderr}")


# Answers as a cluster with a snapshot would.
KNOWING = """#!/bin/sh
for last; do :; done
case $last in
	db@m*) echo db@monday ;;
	del) [ "$*" = "complete --gateway host:9000 volume del" ] && echo delete ;;
	*) exec '%s' "$@" ;;
esac
"""


def typed(script, program, line):
    """What an interactive bash makes of @line and a Tab."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"],
                   {**os.environ, "PATH": f"{os.path.dirname(program)}:{os.environ['PATH']}", "TERM": "dumb", "PS1": ""})
    try:
        # Behind the Tab: to the line's begin, echo and a quote; to its end, a quote and another that ends the output.
        os.write(fd, f"stty -echo; . '{script}'; printf '%s' REA; echo DY\n".encode())
        shown = b""
        while b"READY" not in shown:
            shown += os.read(fd, 4096)
        os.write(fd, f"{line}\t\x01printf '<%s>' '\x05' EN''D\n".encode())
        shown = b""
        while b"<END>" not in shown:
            shown += os.read(fd, 4096)
    finally:
        os.close(fd)
        os.waitpid(pid, 0)
    return re.search(rb"<([^<>]*)><END>", shown).group(1).decode()


def shells_complete_the_command(root):
    """By the installed file, in a bash that is typed to; of zsh's only that it is there."""
    program, script = find(root, "bin/cleave"), find(root, "bash-completion/completions/cleave")
    check("cleave" in open(find(root, "vendor-completions/_cleave"), encoding="utf-8").readline(), "zsh")
    with tempfile.TemporaryDirectory(prefix="cleave-typed-") as folder:
        knowing = os.path.join(folder, "cleave")
        with open(knowing, "w", encoding="utf-8") as f:
            f.write(KNOWING % program)
        os.chmod(knowing, 0o755)
        for line, expected in (("volume rena", "volume rename "), ("volume create v --engine z", "volume create v --engine zstd "),
                               ("volume create v --engine=z", "volume create v --engine=zstd "),
                               ("status --q", "status --quiet "), ("volume delete --en", "volume delete --en"),
                               ("snapshot delete db@m", "snapshot delete db@monday "),
                               ("--gateway host:9000 volume del", "--gateway host:9000 volume delete ")):
            done = typed(script, knowing, f"cleave {line}")
            check(done == f"cleave {expected}", f"'{line}' and a Tab: '{done}'")


def alert_rules_are_what_prometheus_takes(root):
    path = find(root, "examples/cleave.rules.yml")
    with open(path, encoding="utf-8") as f:
        rules = f.read()
    with open(os.path.join(SOURCE, "include/cleave/health.h"), encoding="utf-8") as f:
        codes = re.findall(r'^\tX\(\w+, "([a-z-]+)"', f.read(), re.M)
    check(len(codes) > 20 and rules.count("- alert: ") == len(codes), f"{len(codes)} codes:\n{rules}")
    for code in codes:
        check(f'code="{code}"' in rules or code in ("gateway-silent", "no-gateway", "key-refused"), f"no alert of {code}")
    if shutil.which("promtool") is None:
        print("  not by promtool: it is not installed")
        return
    done = run_argv(["promtool", "check", "rules", path], check_rc=False)
    check(done.returncode == 0 and f"{len(codes)} rules found" in done.stdout, done.stdout + done.stderr)


def dashboard_asks_what_prometheus_takes(root):
    """Each question of the dashboard is a rule, for promtool."""
    with open(find(root, "examples/cleave.dashboard.json"), encoding="utf-8") as f:
        panels = json.load(f)["panels"]
    exprs = [p["targets"][0]["expr"].replace("$__rate_interval", "5m") for p in panels if "targets" in p]
    check(len(exprs) > 20 and len({p["id"] for p in panels}) == len(panels), f"{len(exprs)} questions")
    places = {(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels}
    check(len(places) == len(panels), "two panels lie at one place")
    if shutil.which("promtool") is None:
        print("  not by promtool: it is not installed")
        return
    with tempfile.NamedTemporaryFile("w", suffix=".json") as rules:
        json.dump({"groups": [{"name": "x", "rules": [{"record": f"x:{i}", "expr": e} for i, e in enumerate(exprs)]}]}, rules)
        rules.flush()
        done = run_argv(["promtool", "check", "rules", rules.name], check_rc=False)
    check(done.returncode == 0 and f"{len(exprs)} rules found" in done.stdout, done.stdout + done.stderr)


def each_function_has_a_manual_page(root):
    folder = os.path.join(os.path.dirname(os.path.dirname(find(root, "man1/cleave.1.gz"))), "man3")
    with tempfile.TemporaryDirectory(prefix="cleave-pages-") as pages:
        for name in os.listdir(folder):
            with gzip.open(os.path.join(folder, name), "rt") as f:
                text = f.read()
            for other in re.findall(r"^\.so (\S+)$", text, re.M):
                check(os.path.exists(f"{folder}/../{other}.gz"), f"{name} refers to {other}")
            for other in re.findall(r"^\.BR (\w+) \(3\)$", text, re.M):
                check(os.path.exists(f"{folder}/{other}.3.gz"), f"{name} refers to {other}")
            if not text.startswith(".so "):
                with open(os.path.join(pages, name[:-3]), "w") as f:
                    f.write(text)
        for argv in (["groff", "-man", "-Tutf8", "-ww", "-z"], ["mandoc", "-Tlint", "-Wwarning"]):
            if shutil.which(argv[0]) is None:
                print(f"  not by {argv[0]}: it is not installed")
                continue
            done = run_argv([*argv, *sorted(glob.glob(f"{pages}/*"))], check_rc=False)
            check(done.stdout + done.stderr == "", f"{argv[0]}: {done.stdout}{done.stderr}")
    nm = run_argv(["nm", "-D", "--defined-only", "--format=posix",
                   find(root, "libcleave.so"), find(root, "libcleave_split.so")]).stdout
    names = set(re.findall(r"^(\w+)@@\S+ T ", nm, re.M)) | {"libcleave", "libcleave_split"}
    found = {name[:-5] for name in os.listdir(folder)}
    check(found == names, f"pages but no function, or functions without: {sorted(found ^ names)}")


def unit_paths(root):
    names = ["cleave-storage@.service", "cleave-gateway@.service", "cleave-agent.service",
             "cleave-agent.socket", "cleave-snapshots@.service", "cleave-snapshots@.timer"]
    return [find(root, f"systemd/system/{name}") for name in names]


def systemd_knows_all_that_units_say(root):
    if shutil.which("systemd-analyze") is None:
        print("  not checked: there is no systemd-analyze")
        return
    with tempfile.TemporaryDirectory(prefix="cleave-units-") as folder:
        for path in unit_paths(root):
            with open(path) as f:
                text = f.read()
            # It looks for the programs.
            text = re.sub(r"^(ExecStart|ExecReload)=(?=\S*/cleave\b)", rf"\1={root}", text, flags=re.M)
            with open(os.path.join(folder, os.path.basename(path)), "w") as f:
                f.write(text)
        # A key that it does not know is a warning, and exit 0.
        done = run_argv(["systemd-analyze", "verify", "--man=no", *glob.glob(f"{folder}/*")])
        check(folder not in done.stderr and "cleave" not in done.stderr, done.stderr)


def the_service_user_can_be_made(root):
    if shutil.which("systemd-sysusers") is None:
        print("  not checked: there is no systemd-sysusers")
        return
    run_argv(["systemd-sysusers", "--dry-run", find(root, "sysusers.d/cleave.conf")])


def compile_outside(root, folder, source, package, is_static=False):
    """As somebody would who has the installed files alone."""
    target = os.path.join(folder, os.path.basename(source)[:-2] + ("-static" if is_static else ""))
    env = {**os.environ, "PKG_CONFIG_SYSROOT_DIR": root,
           "PKG_CONFIG_PATH": os.path.dirname(find(root, f"pkgconfig/{package}.pc"))}
    flags = run_argv(["pkg-config", "--cflags", "--libs", *(["--static"] if is_static else []), package],
                     env=env).stdout.split()
    if is_static:  # ours alone: those of others are what their packages have
        flags = [re.sub(r"^-l(cleave\w*)$", r"-l:lib\1.a", flag) for flag in flags]
    if cached("CLEAVE_SANITIZE"):
        flags.append("-fsanitize=" + cached("CLEAVE_SANITIZE"))
    if cached("CLEAVE_COVERAGE") == "ON":
        flags.append("--coverage")
    run_argv([cached("CMAKE_C_COMPILER") or "cc", "-std=c11", "-Wall", "-Wextra", "-Werror", source, "-o",
              target, *flags])
    return target


def run_outside(root, argv):
    """A program of compile_outside's: the loader looks for shared libraries where they were installed."""
    folder = os.path.dirname(find(root, "libcleave.so"))
    return run_argv(argv, check_rc=False, env={**os.environ, "LD_LIBRARY_PATH": folder})


def programs_outside_build(root):
    for is_static in (False, True):
        with tempfile.TemporaryDirectory(prefix="cleave-outside-") as folder:
            source = find(root, "libcleave-dev/examples/listing1.c")
            program = compile_outside(root, folder, source, "cleave-split", is_static)
            needed = run_argv(["readelf", "-d", program]).stdout
            check(("[libcleave_split.so.0]" in needed) != is_static, f"listing1: {needed}")
            done = run_outside(root, [program])
            check(done.returncode == 2 and "usage: listing1" in done.stderr, f"listing1: {done}")


def public_headers(root):
    """Name -> text without comments."""
    found = {}
    for path in glob.glob(os.path.dirname(find(root, "cleave/client.h")) + "/*.h"):
        with open(path) as f:
            found[os.path.basename(path)] = re.sub(r"/\*.*?\*/", " ", f.read(), flags=re.S)
    return found


def each_public_header_stands_alone(root):
    """In strict C11 and in C++17, without a warning; none that only our own code uses is installed."""
    headers = public_headers(root)
    check(set(headers) == PUBLIC_HEADERS, f"installed are {sorted(headers)}")
    include = os.path.dirname(os.path.dirname(find(root, "cleave/client.h")))
    for compiler, standard, suffix in (("cc", "c11", "c"), ("c++", "c++17", "cc")):
        compiler = cached("CMAKE_C_COMPILER") if suffix == "c" and not ROOT else compiler
        if shutil.which(compiler) is None:
            print(f"  not compiled as {standard}: there is no {compiler}")
            continue
        with tempfile.TemporaryDirectory(prefix="cleave-outside-") as folder:
            for name in sorted(headers):
                source = os.path.join(folder, f"alone.{suffix}")
                with open(source, "w") as f:
                    f.write(f"#include <cleave/{name}>\n#include <cleave/{name}>\n")
                run_argv([compiler, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror",
                          "-fsyntax-only", "-I", include, source])


def names_of(text):
    """What a header without comments defines or declares at file scope."""
    names = set(re.findall(r"^#define (\w+)", text, re.M))
    names |= set(re.findall(r"\b(?:struct|enum|union) (\w+)", text))
    for body in re.findall(r"\benum(?: \w+)? \{([^}]*)\}", re.sub(r"^#.*$", "", text, flags=re.M)):
        names |= {match.group(1) for match in map(re.compile(r"\s*(\w+)").match, body.split(",")) if match}
    names |= set(re.findall(r"^(?:[a-z][\w ]*[ *])?(\w+)\(", text, re.M))
    return names


def public_names_have_a_prefix(root):
    for header, text in public_headers(root).items():
        bare = {n for n in names_of(text) if not PUBLIC_NAME.fullmatch(n)} - PUBLIC_NAMES_BARE
        check(not bare, f"{header}: {sorted(bare)}")


def each_function_says_what_it_promises(root):
    """Its comment has its name, who owns what, and on which thread; what returns something, what and when."""
    for path in sorted(glob.glob(os.path.dirname(find(root, "cleave/client.h")) + "/*.h")):
        with open(path) as f:
            text = f.read()
        comment, end, count = "", -1, 0
        for match in re.finditer(r"^/\*.*?\*/\n|^([a-z][\w \*]*?)(\w+)\([^;{]*;", text, re.M | re.S):
            before = text[end:match.start()]
            name, end = match.group(2), match.end()
            if name is None:
                comment = match.group(0)
                continue
            count += 1
            # Others of a group stand right behind the first.
            words = ["Ownership", "Threads"]
            if match.group(1) != "void ":
                words += ["Returns", "Errors"]
            title = comment.partition(" -- ")[0].replace(",", "").split()
            check(before.strip() == "" and name in title, f"{path}: {name} has no comment of its name")
            for word in words:
                check(f"\n * {word}:" in comment, f"{path}: {name}: nothing about {word}")
        for match in re.finditer(r"^static inline [\w \*]+\n(\w+)\(", text, re.M):
            comment = text[text.rfind("\n/*\n", 0, match.start()):match.start()]
            check(f"\n * {match.group(1)} -- " in comment and comment.endswith("\n */\n"),
                  f"{path}: {match.group(1)} has no comment of its name")
            for word in ("Ownership", "Returns", "Errors", "Threads"):
                check(f"\n * {word}:" in comment, f"{path}: {match.group(1)}: nothing about {word}")
        bare = set(re.findall(r"^(?!static|typedef)[a-z][^\n;={(]*[ *](\w+)\(", text, re.M))
        check(count == len(bare), f"{path}: {count} of {sorted(bare)} looked at")


def libraries_export_what_headers_declare(root):
    """And nothing else: what a program calls its own functions is its own affair."""
    known = set()
    for text in public_headers(root).values():
        known |= names_of(text)
    known |= {"engine_set_gate_ops"}
    for name in ("libcleave", "libcleave_split"):
        nm = run_argv(["nm", "--extern-only", "--defined-only", "--format=posix",
                       find(root, f"{name}.a")]).stdout
        names = {words[0] for words in map(str.split, nm.splitlines()) if len(words) > 1}
        is_client = name == "libcleave"
        check(("cleave_pwrite" in names) == is_client and ("split_send" in names) != is_client,
              f"{name}.a lacks what it is for")
        check(not is_client or all(n.startswith("cleave_") for n in names), f"{name}.a: {sorted(names)}")
        check(names <= known, f"{name}.a exports {sorted(names - known)[:10]}")
        # The shared one has the same, each under a version of the library's.
        nm = run_argv(["nm", "-D", "--defined-only", "--format=posix", find(root, f"{name}.so")]).stdout
        shared = {line.split()[0] for line in nm.splitlines() if line.split()[1] != "A"}
        check({n.partition("@@")[0] for n in shared} == names, f"{name}.so exports {sorted(shared)}")
        check(all(re.search(rf"@@{name.upper()}_0\.\d+$", n) for n in shared), f"{name}.so: {sorted(shared)}")
        dynamic = run_argv(["readelf", "-d", find(root, f"{name}.so")]).stdout
        check(f"soname: [{name}.so.0]" in dynamic and "PATH" not in dynamic, f"{name}.so: {dynamic}")
        find(root, f"{name}.so.0")


def configure(root, folder, name, example, **values):
    """An operator's file: the example with other values. A list replaces all lines of an option."""
    with open(find(root, f"examples/{example}.conf")) as f:
        text = f.read()
    for key, value in values.items():
        key = key.replace("_", "-")
        lines = "".join(f"{key} = {v}\n" for v in (value if isinstance(value, list) else [value]))
        text, count = re.subn(rf"(?:^{key} = .*\n)+", lambda _: lines, text, flags=re.M)
        check(count == 1, f"{example}.conf: {count} places with {key}")
    path = os.path.join(folder, f"{name}.conf")
    with open(path, "w") as f:
        f.write(text)


def unit_argv(root, folder, unit, instance):
    """What systemd would run, with the file's folder for /etc/cleave."""
    with open(find(root, f"systemd/system/{unit}.service")) as f:
        text = f.read()
    timeout = re.search(r"^TimeoutStartSec=(\d+)s$", text, re.M)
    check(timeout and int(timeout.group(1)) <= 300 and "\nRestart=on-failure\n" in text,
          f"{unit}: its start has no end, or it does not come again")
    check("\nType=notify\n" in text and "\nUser=cleave\n" in text, f"{unit}: another type or user")
    check(re.search(r"^WatchdogSec=\d+s$", text, re.M), f"{unit}: nobody looks whether it stands still")
    reload = re.findall(r"^ExecReload=(.*)$", text, re.M)
    check(reload == [re.search(r"^ExecStart=(.*)$", text, re.M).group(1) + " --check-config",
                     "/bin/kill -HUP $MAINPID"], f"{unit}: {reload}")
    argv = re.search(r"^ExecStart=(.*)$", text, re.M).group(1).replace("%i", instance).split()
    check("/etc/cleave/" in argv[-1], f"{unit}: {argv}")
    return [root + argv[0], *argv[1:-1], argv[-1].replace("/etc/cleave", folder)]


class Manager:
    """systemd's end of $NOTIFY_SOCKET."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(libcluster.WAIT_S)

    def start(self, daemon):
        os.environ["NOTIFY_SOCKET"] = self.path
        try:
            daemon.start()
        finally:
            del os.environ["NOTIFY_SOCKET"]
        try:
            while self.socket.recv(2000) != b"READY=1":
                pass  # STATUS= and more, before it and behind another's
        except TimeoutError:
            raise Failure(f"{daemon.name} has not told that it is ready") from None
        return daemon.wait_ready()


class Keys:
    """Of a cluster's processes, as the README makes them."""

    def __init__(self, root, folder):
        self.argv, self.folder, self.ca = [find(root, "bin/cleave"), "key"], folder, os.path.join(folder, "ca")
        run_argv([*self.argv, "init", "--cluster-id", CLUSTER_ID, "--ca", self.ca])

    def issue(self, subject):
        path = os.path.join(self.folder, subject.replace("/", "-") + ".key")
        run_argv([*self.argv, "issue", subject, "--out", path, "--ca", self.ca])
        return path


def run_cluster(root, folder, daemons):
    manager, addresses, keys = Manager(folder), [], Keys(root, folder)

    def start(name, unit, instance=""):
        run_argv([*unit_argv(root, folder, unit, instance), "--check-config"])
        daemons.append(Daemon(name, unit_argv(root, folder, unit, instance)))
        return manager.start(daemons[-1])

    for i in (1, 2, 3):
        disk = os.path.join(folder, f"disk{i}")
        configure(root, folder, f"storage-{i}", "storage", disk=disk, node_id=i,
                  listen="tcp://127.0.0.1:0", key=keys.issue(f"node/{i}"))
        run_argv([find(root, "bin/cleave-storage"), "format", "--disk", disk, "--size", "640M", "--slot-size",
                  "4M", "--cluster-id", CLUSTER_ID, "--node-id", str(i)])
        line = start(f"node{i}", "cleave-storage@", str(i))
        addresses.append(re.search(r"listen=(tcp://\S+)", line).group(1) + f",domain={i}")
    configure(root, folder, "gateway-1", "gateway", meta=os.path.join(folder, "meta"),
              port="tcp://127.0.0.1:0", node=addresses, key=keys.issue("gateway/1"))
    run_argv([*unit_argv(root, folder, "cleave-gateway@", "1"), "--create"])
    gateway = re.search(r"tcp://[0-9.:]+", start("gateway", "cleave-gateway@", "1")).group(0)
    cleave = [find(root, "bin/cleave"), "--gateway", gateway]
    load = [find(root, "bin/cleave-load"), "--gateway", gateway, "--volume", "disk1", "--quiet"]
    journal = os.path.join(folder, "journal")
    done = run_argv([*cleave, "volume", "list"], check_rc=False)
    check(done.returncode == 1 and "key" in done.stderr, f"without a key: {done}")
    os.environ["CLEAVE_KEY"] = keys.issue("admin/you")
    run_argv([*cleave, "volume", "create", "disk1", "--size", "64M"])
    run_argv([*cleave, "user", "add", "host1", "*:rw"])
    run_argv([*load, "--operations", "2000", "--read-percent", "50", "--journal", journal])
    run_argv([*load, "--verify-journal", journal])
    # It has functions that are called like some of the library's own.
    source = os.path.join(SOURCE, "tests/integration/installed_client.c")
    for is_static in (False, True):
        done = run_outside(root, [compile_outside(root, folder, source, "cleave", is_static), gateway, "disk1"])
        check("read back from disk1" in done.stdout, f"{done}")
    source = find(root, "libcleave-dev/examples/many_writes.c")
    done = run_outside(root, [compile_outside(root, folder, source, "cleave"), gateway, "disk1"])
    check("256 blocks of disk1: as written" in done.stdout, f"{done}")

    listen = os.path.join(folder, "nbd")
    configure(root, folder, "agent", "agent", gateway=gateway, control=os.path.join(folder, "agent"),
              key=keys.issue("client/host1"))
    agent = Daemon("agent", [*unit_argv(root, folder, "cleave-agent", ""), "--listen", f"unix:{listen}"])
    daemons.append(agent)
    manager.start(agent)
    if shutil.which("nbdinfo"):
        size = run_argv(["nbdinfo", "--size", f"nbd+unix:///disk1?socket={listen}"]).stdout
        check(int(size) == 64 << 20, f"disk1 has {size} bytes")
    # Whom systemd stops ends well.
    for daemon in reversed(daemons):
        check(daemon.stop() == 0, f"{daemon.name}: exit status after SIGTERM")


def a_cluster_runs_from_the_examples(root):
    daemons = []
    with tempfile.TemporaryDirectory(prefix="cleave-test-") as folder:
        try:
            run_cluster(root, folder, daemons)
        except BaseException:
            for daemon in daemons:
                print(f"---- log of {daemon.name}\n" + "\n".join(daemon.lines[-40:]))
            raise
        finally:
            os.environ.pop("CLEAVE_KEY", None)
            for daemon in daemons:
                if daemon.process is not None:
                    daemon.kill()


TESTS = (nothing_names_the_build_tree, shells_complete_the_command, alert_rules_are_what_prometheus_takes,
         dashboard_asks_what_prometheus_takes,
         manual_pages_render_without_warnings, each_function_has_a_manual_page,
         systemd_knows_all_that_units_say, the_service_user_can_be_made, programs_outside_build,
         each_public_header_stands_alone, public_names_have_a_prefix, each_function_says_what_it_promises,
         libraries_export_what_headers_declare, a_cluster_runs_from_the_examples)


def installed(test):
    def run():
        test(FOLDER)

    run.__name__ = test.__name__
    return run


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="cleave-install-") as FOLDER:
        if ROOT:
            FOLDER = os.path.realpath(ROOT)
        else:
            install(FOLDER)
        main(*map(installed, TESTS))
