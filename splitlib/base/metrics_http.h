/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_http.h -- a daemon's metrics over HTTP, for monitors: GET /metrics
 *
 * The text is made when somebody asks, by the daemon, which may take its time (a gateway asks its ports).
 * libmicrohttpd speaks HTTP, from the daemon's loop: no thread, and nothing runs while nobody asks (I12).
 * At most METRICS_CONNECTIONS_MAX connections, each silent for METRICS_IDLE_S at most (I9); one more takes the
 * place of the one that has been longest without a request.
 */
#ifndef CLEAVE_BASE_METRICS_HTTP_H
#define CLEAVE_BASE_METRICS_HTTP_H

#include <stddef.h>
#include <stdio.h>

#include "cleave/loop.h"

#define METRICS_CONNECTIONS_MAX 16u
#define METRICS_IDLE_S 10u

struct metrics_http;
/* Somebody asks. Ends in metrics_scrape_finish: now or later. */
struct metrics_scrape;
typedef void (*metrics_http_fn)(struct metrics_scrape *scrape, void *arg);

/*
 * metrics_http_start -- listen at @address, HOST:PORT with a numeric host or localhost; port 0 takes a free one
 *
 * Ownership: @loop outlives it.
 * Returns:   NULL, with why in @ret_error.
 * Threads:   the loop's.
 */
struct metrics_http *metrics_http_start(struct loop *loop, const char *address, metrics_http_fn fn,
    void *arg, char *ret_error, size_t error_bytes);
/* metrics_http_stop -- closes all. Scrapes that have not ended are gone: they may not be finished. NULL: nothing. */
void metrics_http_stop(struct metrics_http *http);
/* metrics_http_address -- tcp://HOST:PORT, where it listens. */
const char *metrics_http_address(const struct metrics_http *http);

/* metrics_scrape_out -- where the text goes. */
FILE *metrics_scrape_out(struct metrics_scrape *scrape);
/* metrics_scrape_finish -- answer; once. @rc not 0: the daemon cannot tell now (503). */
void metrics_scrape_finish(struct metrics_scrape *scrape, int rc);

#endif /* CLEAVE_BASE_METRICS_HTTP_H */
