#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""HANDBOOK.md is true: its commands are run one after the other, and print what it says that they print.

A block ```sh is run by bash, in order, all in one shell; a block ```text behind it is what it prints: each line must be
there, in that order, with any number for a number. It happens in namespaces of its own (mounts, network, processes), so
/var/lib/cleave and the ports of the book are those of nobody else, and nothing outlives it.
"""
import os
import re
import shutil
import subprocess
import tempfile

from libagent import need
from libcluster import binary, check, main, skip

BOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "HANDBOOK.md")

LIMIT_S = 240
FOLDERS = ("/data", "/var/lib/cleave", "/etc/cleave", "/run/cleave")


def blocks(text):
    """[(line, commands, [printed lines])]"""
    found = []
    kind, body, first = None, [], 0
    for number, line in enumerate(text.splitlines(), 1):
        if kind is None and line.startswith("```"):
            kind, body, first = line[3:].strip() or "plain", [], number + 1
        elif kind is not None and line.strip() == "```":
            if kind == "sh":
                found.append((first, "\n".join(body), []))
            elif kind == "text":
                check(found and not found[-1][2], f"line {first}: a text block behind no sh block")
                found[-1][2].extend(body)
            kind = None
        elif kind is not None:
            body.append(line)
    return found


def pattern(line):
    """Any number for a number, any white space for some; "..." is anything."""
    parts = re.split(r"(\.\.\.|[0-9a-f]{16,}|\d+(?:\.\d+)?|\s+)", line.strip())
    out = []
    for part in parts:
        if part == "...":
            out.append(".*")
        elif re.fullmatch(r"[0-9a-f]{16,}", part):
            out.append("[0-9a-f]+")
        elif re.fullmatch(r"\d+(?:\.\d+)?", part):
            out.append(r"\d+(?:\.\d+)?")
        elif part.isspace():
            out.append(r"\s+")
        else:
            out.append(re.escape(part))
    return re.compile("".join(out))


def programs(folder):
    """The programs that the book names, as a package would install them."""
    for name in ("cleave", "cleave-agent", "cleave-gateway", "cleave-load", "cleave-storage"):
        os.symlink(os.path.abspath(binary(name)), os.path.join(folder, name))
    return folder


def script(found, folder):
    lines = ["set -uo pipefail", f"exec >{folder}/log 2>&1"]
    for path in FOLDERS:
        lines += [f"mkdir -p {path} {folder}/root{path}", f"mount --bind {folder}/root{path} {path}"]
    lines += ["ip link set lo up", "cd /var/lib/cleave"]
    for number, (_, commands, _) in enumerate(found):
        lines += [f"echo @@begin {number}", "set -e", commands, "set +e", f"echo; echo @@end {number}"]
    lines += ["exit 0"]
    return "\n".join(lines)


def printed(log, number):
    text = open(log, encoding="utf-8", errors="replace").read()
    begin = text.find(f"@@begin {number}\n")
    check(begin >= 0, "it was not reached")
    end = text.find(f"@@end {number}\n", begin)
    return text[begin:end if end >= 0 else len(text)], end >= 0


def the_handbooks_commands_print_what_it_says():
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        skip("namespaces want root")
    need("libnbd", "nbdcopy", "nbdinfo", "nbdsh", "qemu-img")
    with open(BOOK, encoding="utf-8") as book:
        found = blocks(book.read())
    check(len(found) > 0, "HANDBOOK.md has no block that is run")
    with tempfile.TemporaryDirectory(prefix="cleave-book-") as folder:
        log, path = os.path.join(folder, "log"), os.path.join(folder, "bin")
        os.mkdir(path)
        programs(path)
        # nbdsh is for the system's Python, whichever is the first one here.
        environment = {**os.environ, "PATH": f"{path}:/usr/bin:{os.environ['PATH']}", "HOME": folder}
        environment.pop("CLEAVE_GATEWAY", None)
        try:
            done = subprocess.run(
                ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
                 "bash", "-c", script(found, folder)],
                env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=LIMIT_S, check=False)
            rc = done.returncode
        except subprocess.TimeoutExpired:
            rc = "time is over"
        for number, (line, _, expected) in enumerate(found):
            out, is_whole = printed(log, number)
            check(is_whole, f"HANDBOOK.md:{line}: its commands failed ({rc}):\n{out[-4000:]}")
            rest = out
            for text in expected:
                if not text.strip():
                    continue
                match = pattern(text).search(rest)
                check(match is not None, f"HANDBOOK.md:{line}: not printed: {text}\n{out[-4000:]}")
                rest = rest[match.end():]
            print(f"  line {line}: as it says")


main(the_handbooks_commands_print_what_it_says)
