/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nbd_metrics.h -- what an agent counts and measures, and the text that monitors read
 *
 *	cleave_agent_...            the agent; and all exports together, also those that have gone
 *	cleave_agent_export_...     the NBD_METRICS_EXPORTS_MAX exports with the most requests, by name
 *	cleave_agent_client_...     libcleave's counters (CLEAVE_STAT_LIST)
 *
 * A request's time is from its head to the last byte of its reply, both by the time at which the loop's turn began: no
 * clock is read for it. Its own waits for the client's payload, and for the client's socket, are in it.
 */
#ifndef CLEAVE_VM_CLIENT_NBD_METRICS_H
#define CLEAVE_VM_CLIENT_NBD_METRICS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/latency.h"
#include "cleave/secure_metrics.h"

#define NBD_METRICS_EXPORTS_MAX 50u

struct cleave_stall;
struct loop;
struct nbd_export;
struct nbd_request;
struct nbd_server;

enum nbd_op {
	NBD_OP_READ,
	NBD_OP_WRITE,
	NBD_OP_FLUSH,
	NBD_OP_TRIM,
	NBD_OP_ZERO,
	NBD_OP_STATUS,
	NBD_OP_NR
};

#define NBD_COUNTER_LIST(X)                                                                        \
	X(read_bytes, "bytes", "read by NBD clients")                                              \
	X(written_bytes, "bytes", "written by NBD clients, zeros and trims left out")              \
	X(errors, "count", "requests of NBD clients that were answered with an error")             \
	X(opens, "count", "times that a volume was opened, to read or to write it")                \
	X(losses, "count", "times that a volume was lost: taken by another client, or deleted")

/* The numbers of an export. */
struct nbd_stats {
	struct latency latency[NBD_OP_NR];
#define NBD_COUNTER_MEMBER(name, unit, help) uint64_t name;
	NBD_COUNTER_LIST(NBD_COUNTER_MEMBER)
#undef NBD_COUNTER_MEMBER
};

/* nbd_metrics_count_sent -- @request's reply has left. */
void nbd_metrics_count_sent(struct nbd_request *request);
/* nbd_metrics_retire -- @export goes; what it counted stays in what all exports have counted. */
void nbd_metrics_retire(struct nbd_export *export);
/* nbd_metrics_on_stall -- an export's volume gets no answers, or does again. */
void nbd_metrics_on_stall(struct nbd_server *server, const struct cleave_stall *stall);
/* nbd_metrics_write -- all of it, as OpenMetrics. Errors are @out's; -ENOMEM: too little is there. */
int nbd_metrics_write(struct nbd_server *server, FILE *out);
/* nbd_metrics_health -- "ok", and true; or a line for each reason why it is not. */
bool nbd_metrics_health(struct nbd_server *server, FILE *out);

/* ---- nbd_metrics_http.c ---- */
struct nbd_metrics;
/*
 * nbd_metrics_start -- listen at @options->address, HOST:PORT: /metrics, /healthz; over TLS by the client's key
 *
 * may_wait: the address may be in use, by a predecessor that is about to go, and is tried again each second.
 * Returns NULL, with why in @ret_error.
 */
struct nbd_metrics_options {
	const char *address;
	struct secure_metrics_words words;
	bool may_wait;
};
struct nbd_metrics *nbd_metrics_start(struct nbd_server *server,
    const struct nbd_metrics_options *options, char *ret_error, size_t error_bytes);
/* nbd_metrics_stop -- NULL is a no-op. */
void nbd_metrics_stop(struct nbd_metrics *metrics);

#endif /* CLEAVE_VM_CLIENT_NBD_METRICS_H */
