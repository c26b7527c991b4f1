/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_http.h -- what a daemon tells over HTTP, to monitors and people: a table of paths, read only
 *
 * A text is made when somebody asks, by the daemon, which may take its time (a gateway asks its ports).
 * libmicrohttpd speaks HTTP, from the daemon's loop: no thread, and nothing runs while nobody asks (I12).
 * At most METRICS_CONNECTIONS_MAX connections, each silent for METRICS_IDLE_S at most (I9); one more takes the
 * place of the one that has been longest without a request.
 *
 * Paths take GET and HEAD, another method is a 405, another path a 404. No answer may be kept or guessed at:
 * Cache-Control: no-store, X-Content-Type-Options: nosniff.
 */
#ifndef CLEAVE_BASE_METRICS_HTTP_H
#define CLEAVE_BASE_METRICS_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cleave/loop.h"

#define METRICS_CONNECTIONS_MAX 16u
#define METRICS_IDLE_S 10u
#define METRICS_TYPE_METRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define METRICS_TYPE_TEXT "text/plain; charset=utf-8"

struct metrics_http;
/* Somebody asks. Ends in metrics_scrape_finish or metrics_scrape_refuse, once: now or later. */
struct metrics_scrape;

/* A path that can be asked for. */
struct metrics_path {
	const char *path;   /* "/metrics" */
	const char *type;   /* Content-Type of its answer */
	const char *policy; /* Content-Security-Policy; NULL: none */
	bool
	    is_page; /* people's: asked for by a name that others own it is a 421 (base/http_host.h) */
	void (*fn)(struct metrics_scrape *scrape, void *arg);
};

/*
 * A guard says who may ask, over TLS: connections have their keys from it, and it judges requests. It alone knows GnuTLS.
 *
 *	(connection) -- open --> (handshake) --> (request) -- judge --> the path's function, or a refusal
 *	                                             ^-------------------------------------+
 *	                         close <-- (it has ended)
 */
struct metrics_guard {
	/*
	 * @session, a gnutls_session_t of a server that has said nothing yet, is given what it needs. @peer: its address,
	 * during the call. Returns a guest, for the next two; NULL: no memory, and the handshake will fail.
	 */
	void *(*open)(void *session, const char *peer, void *arg);
	/* May the peer ask? 0; or the status of a refusal, 403 or 503, and its text in @ret_why. Each request is judged. */
	unsigned (*judge)(void *guest, char *ret_why, size_t why_bytes);
	/* The connection has ended, and its session may be gone. */
	void (*close)(void *guest);
};

struct metrics_http_options {
	const char *address; /* HOST:PORT; port 0 takes a free one */
	bool is_open;        /* it may be an address that other hosts reach, without TLS */
	bool wants_tls;      /* with a guard: also where it would be without */
	const struct metrics_guard *guard; /* NULL: there is no TLS */
	void *guard_arg;                   /* of open */
	const struct metrics_path *paths;
	uint32_t path_count;
	void *arg; /* of their functions */
};

/*
 * metrics_http_start -- listen at @options->address: of this machine alone, or, where is_open or with a guard, any
 *
 * It speaks TLS where others reach it and not is_open, or wants_tls; then guard has the last word on who may ask.
 * A host that is a name is looked up first, which blocks, HTTP_RESOLVE_NS at most: for a start. Its first address
 * that can be listened at is taken.
 * Ownership: @loop, the paths and the guard outlive it; @options and its address are read.
 * Errors:    an address that other hosts reach, and neither is_open nor a guard: HTTP_OPEN_TEXT.
 * Returns:   NULL, with why in @ret_error.
 * Threads:   the loop's.
 */
struct metrics_http *metrics_http_start(struct loop *loop,
    const struct metrics_http_options *options, char *ret_error, size_t error_bytes);
/* metrics_http_stop -- closes all. Scrapes that have not ended are gone: they may not be finished. NULL: nothing. */
void metrics_http_stop(struct metrics_http *http);
/* metrics_http_address -- tcp://HOST:PORT, where it listens. */
const char *metrics_http_address(const struct metrics_http *http);
/* metrics_http_is_tls -- does it speak TLS there? */
bool metrics_http_is_tls(const struct metrics_http *http);

/* metrics_scrape_out -- where the text goes. */
FILE *metrics_scrape_out(struct metrics_scrape *scrape);
/* metrics_scrape_finish -- answer. @rc not 0: the daemon cannot tell now (503). */
void metrics_scrape_finish(struct metrics_scrape *scrape, int rc);
/* metrics_scrape_refuse -- answer with what was written, as a 503: it is not well. */
void metrics_scrape_refuse(struct metrics_scrape *scrape);

#endif /* CLEAVE_BASE_METRICS_HTTP_H */
