/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_http.h -- the inner seam of meta_etcd: how a request gets to a member of etcd, and its answer back
 *
 * Two ways: etcd_curl (libcurl on a loop), and tests/support/fake_etcd (an etcd in memory and virtual time).
 * Neither knows what a request means. Each names members by their index in the list that it was made with.
 *
 * Every handler is called from the loop, never inside a call of these, and as the last act of what calls
 * it: it may cancel any call, begin others, or close the way.
 */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_HTTP_H
#define CLEAVE_MIDDLETIER_META_ETCD_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ETCD_ENDPOINTS_MAX 16u
/* A page of a list has at most 256 values of 64 KiB, and base64 makes them a third longer. */
#define ETCD_BODY_BYTES_MAX (32u << 20)

/* Connections of its own each, so that a long list delays no renewal. */
enum etcd_line { ETCD_LINE_LEASE, ETCD_LINE_REQUEST, ETCD_LINE_WATCH, ETCD_LINE_NR };

struct etcd_http_request {
	uint32_t endpoint;
	enum etcd_line line;
	const char *path; /* "/v3/kv/range" */
	const char *body;
	size_t body_bytes;
	const char *token;   /* of who asks; NULL: nobody in particular */
	uint64_t timeout_ns; /* until the whole answer is here; a stream: until it is connected */
};

struct etcd_http_answer {
	/* 0: an answer came, of whatever status; -EKEYREJECTED a certificate is refused; -ECONNREFUSED, -ETIMEDOUT,
	 * -EIO, -ENOMEM */
	int rc;
	bool was_sent;    /* rc < 0: a part of the request may have reached the member */
	uint32_t status;  /* of HTTP; rc 0 */
	const char *body; /* not of a stream */
	size_t body_bytes;
	const char *error; /* rc < 0: what went wrong, for people */
};

struct etcd_http;
struct etcd_http_call;

/* The arguments live during the call of it alone. */
typedef void (*etcd_http_fn)(const struct etcd_http_answer *answer, void *arg);
typedef void (*etcd_http_bytes_fn)(const char *bytes, size_t count, void *arg);

struct etcd_http_ops {
	const char *name;
	/* Inputs are copied. @fn is called once, unless it is canceled before. NULL: out of memory. */
	struct etcd_http_call *(*post)(struct etcd_http *http,
	    const struct etcd_http_request *request, etcd_http_fn fn, void *arg);
	/*
	 * The same with an answer that goes on: @bytes_fn for each piece, however cut; then @fn once, when
	 * it has ended. No time-out once it is connected.
	 */
	struct etcd_http_call *(*stream)(struct etcd_http *http,
	    const struct etcd_http_request *request, etcd_http_bytes_fn bytes_fn, etcd_http_fn fn,
	    void *arg);
	/* Nobody is called any more. What was sent may take effect all the same. */
	void (*cancel)(struct etcd_http *http, struct etcd_http_call *call);
	/* Cancels all that is under way. */
	void (*close)(struct etcd_http *http);
};

struct etcd_http {
	const struct etcd_http_ops *ops;
};

#endif /* CLEAVE_MIDDLETIER_META_ETCD_HTTP_H */
