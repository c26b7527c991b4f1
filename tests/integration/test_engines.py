#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each engine stored is read back from the nodes, zeros and dense blocks among the rest."""
import os

from libcluster import Cluster, check, main

ENGINES = ("auto", "lz4", "snappy", "deflate", "zstd", "none")


def data_file(c):
    """64 blocks each of text, zeros and random bytes: requests of one kind, whatever their size."""
    path = os.path.join(c.folder, "data")
    text = open(__file__, "rb").read() * 16
    with open(path, "wb") as f:
        for i in range(192):
            f.write((text[i:i + 4096], bytes(4096), os.urandom(4096))[i // 64])
    return path


def every_engine_gives_back_what_it_took():
    with Cluster(nodes=3, disk_size="512M") as c:
        path = data_file(c)
        for engine in ENGINES:
            c.volume_create(engine, "4M", "--engine", engine)
            stored = c.metric("stored_bytes")
            c.load("--volume", engine, "--file-copy", path)
            stored = c.metric("stored_bytes") - stored
            # Nothing is stored of zeros, by any engine.
            check(64 * 4096 <= stored <= 128 * 4096, f"{engine}: {stored} bytes stored")
        # From the nodes, not from the gateway's memory.
        check(c.gateway.stop() == 0, "the gateway's exit status")
        c.gateway.start()
        for engine in ENGINES:
            c.load("--volume", engine, "--file-verify", path)
        shown = c.cleave("volume", "show", "auto").stdout
        check("auto" in shown, shown)


main(every_engine_gives_back_what_it_took)
