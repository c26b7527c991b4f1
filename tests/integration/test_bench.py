#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each program of bench/ that is a script begins: what it imports is there, and --help says how it is used.

What they measure is nothing for a test; but most of them import from the tests, where names move.
"""
import os
import stat

from libcluster import check, main, run_argv

BENCH = os.path.join(os.environ.get("CLEAVE_SOURCE_DIR") or os.path.join(os.path.dirname(__file__), "..", ".."), "bench")


def scripts():
    for name in sorted(os.listdir(BENCH)):
        path = os.path.join(BENCH, name)
        if os.path.isfile(path) and os.stat(path).st_mode & stat.S_IXUSR:
            yield name, path


def each_program_says_how_it_is_used():
    names = [name for name, _ in scripts()]
    check("run" in names and "failover" in names, f"programs of {BENCH}: {names}")
    for name, path in scripts():
        with open(path, encoding="utf-8") as f:
            check(f.readline().startswith("#!"), f"{name} is not a script")
        result = run_argv([path, "--help"], check_rc=False)
        check(result.returncode == 0, f"bench/{name} --help: exit {result.returncode}\n{result.stderr}")
        check(f"bench/{name}" in result.stdout or f"usage: {name}" in result.stdout,
              f"bench/{name} --help: {result.stdout}")


if __name__ == "__main__":
    main(each_program_says_how_it_is_used)
