/* SPDX-License-Identifier: Apache-2.0 */
/* tcp.h -- what the files of the TCP transport share, and that over unix sockets, which is the same but for its addresses */
#ifndef CLEAVE_SPLIT_TCP_H
#define CLEAVE_SPLIT_TCP_H

#include <sys/socket.h>

#include "cleave/loop.h"
#include "cleave/wire.h"
#include "core/sealed.h"
#include "core/transport.h"

/* The transport's part of a queue pair. */
struct tcp_qp {
	struct split_qp *qp;
	struct loop_fd watcher;
	struct loop_task resume_task;
	bool is_local; /* a unix socket, of this host */
	bool is_connected;
	bool is_send_blocked; /* the socket's buffer is full: wait until it is writable */
	bool is_paused;       /* a message waits for a receive: do not read */
	bool is_put_off;      /* the turn before had no time for what came */
	/* The header that is coming in. */
	union {
		struct wire_header header;
		uint8_t head[SEAL_HEAD_BYTES]; /* of a sealed queue pair */
	} __attribute__((aligned(8)));
	uint32_t header_have_bytes;
	/* A guess at the next messages, if all stays as it was. */
	uint32_t guess_payload_bytes;
	uint32_t guess_count;
	uint32_t wrong_in_row;
};

/* tcp.c */

extern const struct transport_ops transport_tcp_ops;

/* tcp_update_interest -- watch the socket for what can go on. */
void tcp_update_interest(struct tcp_qp *tcp);
/* tcp_attach -- @fd, which does not block, is @qp's from now on. 0; else a negative errno, and it is the caller's. */
int tcp_attach(struct split_qp *qp, int fd, bool is_connected);
/* tcp_listen_at -- @fd listens for @listener. 0; else a negative errno, and it is the caller's. */
int tcp_listen_at(struct split_listener *listener, int fd);
/* These are transport_ops of both. */
void tcp_unlisten(struct split_listener *listener);
void tcp_close(struct split_qp *qp);
void tcp_kick_send(struct split_qp *qp);
void tcp_kick_receive(struct split_qp *qp);
/* tcp_skip -- read up to @bytes bytes and forget them. As recv: how many; 0: the end; -1 and errno. */
ssize_t tcp_skip(const struct tcp_qp *tcp, size_t bytes);

/* unix.c */

extern const struct transport_ops transport_unix_ops;

/* unix_peer_format -- who connected by @fd, "unix://uid=N:pid=N", into SPLIT_ADDRESS_BYTES_MAX bytes. */
void unix_peer_format(int fd, char *ret_text);

/* tcp_receive.c */

/* tcp_receive -- read what there is, within bounds, and hand it up. */
void tcp_receive(struct tcp_qp *tcp);
/* tcp_on_readable -- the socket has something: receive it, or put it off to the next turn, which comes at once. */
void tcp_on_readable(struct tcp_qp *tcp);

#endif /* CLEAVE_SPLIT_TCP_H */
