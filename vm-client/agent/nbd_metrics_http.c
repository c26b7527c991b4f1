/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_metrics_http.c -- an agent's metrics over HTTP, also when a predecessor has the address for a moment */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/metrics_http.h"
#include "library/client_key.h"
#include "nbd.h"
#include "nbd_metrics.h"

#define METRICS_MAGIC 0x544d424eu /* "NBMT" */
#define METRICS_AGAIN_NS NUM_S(1)

struct nbd_metrics {
	uint32_t magic;
	struct nbd_server *server;
	struct metrics_http *http; /* NULL: the address is in use, and tried again */
	char *address;
	struct secure_metrics_words words;
	struct secure_metrics guard;
	struct loop_timer timer;
};

static void
metrics_on_scrape(struct metrics_scrape *scrape, void *arg)
{
	struct nbd_metrics *metrics = arg;

	CHECK_OBJ(metrics, METRICS_MAGIC);
	metrics_scrape_finish(scrape,
	    nbd_metrics_write(metrics->server, metrics_scrape_out(scrape)));
}

static void
metrics_on_health(struct metrics_scrape *scrape, void *arg)
{
	struct nbd_metrics *metrics = arg;

	CHECK_OBJ(metrics, METRICS_MAGIC);
	if (nbd_metrics_health(metrics->server, metrics_scrape_out(scrape)))
		metrics_scrape_finish(scrape, 0);
	else
		metrics_scrape_refuse(scrape);
}

static const struct metrics_path metrics_paths[] = {
	{ "/metrics", METRICS_TYPE_METRICS, NULL, false, metrics_on_scrape },
	{ "/healthz", METRICS_TYPE_TEXT, NULL, false, metrics_on_health },
};

static const struct split_key *
metrics_key(void *arg)
{
	const struct nbd_metrics *metrics = arg;

	CHECK_OBJ(metrics, METRICS_MAGIC);
	return client_key(metrics->server->options.client);
}

static bool
metrics_listen(struct nbd_metrics *metrics, char *ret_error, size_t error_bytes)
{
	const struct metrics_http_options options = { .address = metrics->address,
		.is_open = metrics->words.is_open,
		.wants_tls = metrics->words.wants_tls,
		.guard = metrics_key(metrics) == NULL ? NULL : &secure_metrics_guard,
		.guard_arg = &metrics->guard,
		.paths = metrics_paths,
		.path_count = NUM_COUNT(metrics_paths),
		.arg = metrics };

	assert(metrics->http == NULL);
	metrics->http =
	    metrics_http_start(metrics->server->options.loop, &options, ret_error, error_bytes);
	if (metrics->http != NULL)
		secure_metrics_tell(&metrics->guard, metrics_http_address(metrics->http),
		    metrics_http_is_tls(metrics->http));
	return metrics->http != NULL;
}

static void
metrics_on_timer(struct loop_timer *timer, void *arg)
{
	struct nbd_metrics *metrics = arg;
	char error[256];

	CHECK_OBJ(metrics, METRICS_MAGIC);
	assert(timer == &metrics->timer);
	if (!metrics_listen(metrics, error, sizeof(error))) {
		log_limited(LOG_WARN, "agent: --metrics: %s: tried again", error);
		loop_timer_start(metrics->server->options.loop, timer, METRICS_AGAIN_NS);
	}
}

struct nbd_metrics *
nbd_metrics_start(struct nbd_server *server, const struct nbd_metrics_options *options,
    char *ret_error, size_t error_bytes)
{
	struct nbd_metrics *metrics = client_calloc(1, sizeof(*metrics));

	CHECK_OBJ(server, SERVER_MAGIC);
	if (metrics != NULL)
		metrics->address = strdup(options->address);
	if (metrics == NULL || metrics->address == NULL) {
		(void)snprintf(ret_error, error_bytes, "out of memory");
		free(metrics);
		return NULL;
	}
	metrics->magic = METRICS_MAGIC;
	metrics->server = server;
	metrics->words = options->words;
	metrics->guard = (struct secure_metrics){ .noun = "agent",
		.key = metrics_key,
		.arg = metrics,
		.takes_anybody = options->words.is_open };
	loop_timer_init(&metrics->timer, metrics_on_timer, metrics);
	if (metrics_listen(metrics, ret_error, error_bytes))
		return metrics;
	if (!options->may_wait) {
		nbd_metrics_stop(metrics);
		return NULL;
	}
	loop_timer_start(server->options.loop, &metrics->timer, METRICS_AGAIN_NS);
	return metrics;
}

void
nbd_metrics_stop(struct nbd_metrics *metrics)
{
	if (metrics == NULL)
		return;
	CHECK_OBJ(metrics, METRICS_MAGIC);
	loop_timer_stop(metrics->server->options.loop, &metrics->timer);
	metrics_http_stop(metrics->http);
	metrics->magic = 0;
	free(metrics->address);
	free(metrics);
}
