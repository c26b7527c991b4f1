# SPDX-License-Identifier: Apache-2.0
"""`nbdkit memory` as a child process: what an NBD client costs where the server does next to nothing."""
import os

from libcluster import Daemon, check


class Nbdkit(Daemon):
    def __init__(self, folder, size):
        self.socket = os.path.join(folder, "nbdkit.sock")
        super().__init__("nbdkit", ["nbdkit", "-f", "-U", self.socket, "memory", str(size)])

    def uri(self, _name=""):
        return f"nbd+unix:///?socket={self.socket}"

    def __enter__(self):
        # Not verbose in what is measured: the socket says that it is ready.
        self.start(wait=False)
        while not os.path.exists(self.socket):
            check(self.process.poll() is None, "nbdkit ended")
        return self

    def __exit__(self, kind, value, trace):
        self.kill()
        os.unlink(self.socket)
        return False
