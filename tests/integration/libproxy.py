# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy that delays or holds what it forwards, for links that are slow or late, not cut.

    proxy = Proxy("127.0.0.1", 7201)        # listens at proxy.address, in a thread of its own
    proxy.delay_s = 0.2                     # each way, from now on
    proxy.hold()                            # nothing gets through; connections stay
    proxy.mark()                            # those that there are now ...
    proxy.hold(marked=True)                 # ... are held, and no others
    proxy.mark(answers=True)                # of those, what comes back alone
    proxy.release()                         # what was held arrives now, in order
    proxy.close()
"""
import collections
import selectors
import socket
import threading
import time


class Flow:
    """One direction of one connection."""

    def __init__(self, source, sink, is_answer):
        self.source, self.sink, self.is_answer = source, sink, is_answer
        self.queue = collections.deque()  # (due, bytes); b"" is the end
        self.queued_bytes = 0
        self.is_ended = self.is_marked = False


class Proxy:
    def __init__(self, host, port):
        self.target = (host, port)
        self.delay_s = 0.0
        self.is_held = self.holds_marked = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.setblocking(False)
        self.address = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        self.selector = selectors.DefaultSelector()
        self.wake_in, self.wake_out = socket.socketpair()
        self.wake_in.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(self.wake_in, selectors.EVENT_READ)
        self.flows = {}  # by source
        self.is_closed = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _wake(self):
        self.wake_out.send(b"x")

    def mark(self, answers=False):
        for flow in list(self.flows.values()):
            flow.is_marked = flow.is_answer or not answers

    def hold(self, marked=False):
        self.is_held, self.holds_marked = True, marked
        self._wake()

    def _is_held(self, flow):
        return self.is_held and (flow.is_marked or not self.holds_marked)

    def release(self):
        self.is_held = False
        self._wake()

    def close(self):
        self.is_closed = True
        self._wake()
        self.thread.join()

    def _accept(self):
        client, _ = self.listener.accept()
        try:
            server = socket.create_connection(self.target, timeout=5)
        except OSError:
            client.close()
            return
        for source, sink in ((client, server), (server, client)):
            source.setblocking(False)
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.flows[source] = Flow(source, sink, source is server)
            self.selector.register(source, selectors.EVENT_READ)

    def _drop(self, flow):
        for end in (flow.source, flow.sink):
            gone = self.flows.pop(end, None)
            if gone is not None:
                if not gone.is_ended:
                    self.selector.unregister(end)
                end.close()

    def _read(self, flow):
        try:
            data = flow.source.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        flow.queue.append((time.monotonic() + self.delay_s, data))
        flow.queued_bytes += len(data)
        if not data:
            self.selector.unregister(flow.source)  # at its end it would be readable for ever
            flow.is_ended = True

    def _write(self, flow, now):
        while flow.queue and not self._is_held(flow) and flow.queue[0][0] <= now:
            due, data = flow.queue[0]
            if not data:
                self._drop(flow)
                return
            try:
                sent = flow.sink.send(data)
            except BlockingIOError:
                return
            except OSError:
                self._drop(flow)
                return
            flow.queued_bytes -= sent
            if sent < len(data):
                flow.queue[0] = (due, data[sent:])
                return
            flow.queue.popleft()

    def _timeout(self, now):
        dues = [flow.queue[0][0] for flow in self.flows.values()
                if flow.queue and not self._is_held(flow)]
        if not dues:
            return None
        return max(min(dues) - now, 0.001)  # a full sink is tried again that soon

    def _run(self):
        while not self.is_closed:
            for key, _ in self.selector.select(self._timeout(time.monotonic())):
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj is self.wake_in:
                    self.wake_in.recv(4096)
                elif key.fileobj in self.flows:
                    self._read(self.flows[key.fileobj])
            now = time.monotonic()
            for flow in list(self.flows.values()):
                if flow.source in self.flows:
                    self._write(flow, now)
        for flow in list(self.flows.values()):
            self._drop(flow)
        self.listener.close()
        self.selector.close()
        self.wake_in.close()
        self.wake_out.close()
