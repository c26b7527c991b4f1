/* SPDX-License-Identifier: Apache-2.0 */
/* node_http.c -- see node_http.h */
#include "node_http.h"

#include <errno.h>

#include "base/check.h"
#include "base/metrics_http.h"
#include "base/num.h"
#include "cleave/secure_options.h"
#include "metrics.h"
#include "node.h"
#include "options.h"

static void
http_on_scrape(struct metrics_scrape *scrape, void *arg)
{
	const struct node_http *http = arg;

	node_metrics_write(http->node, metrics_scrape_out(scrape));
	metrics_scrape_finish(scrape, 0);
}

static void
http_on_health(struct metrics_scrape *scrape, void *arg)
{
	const struct node_http *http = arg;

	if (node_health_write(http->node, metrics_scrape_out(scrape)))
		metrics_scrape_finish(scrape, 0);
	else
		metrics_scrape_refuse(scrape);
}

static const struct metrics_path http_paths[] = {
	{ "/metrics", METRICS_TYPE_METRICS, NULL, false, http_on_scrape },
	{ "/healthz", METRICS_TYPE_TEXT, NULL, false, http_on_health },
};

static const struct split_key *
http_key(void *arg)
{
	return ((const struct node_http *)arg)->secure->key;
}

int
node_http_start(struct node_http *http, const struct storage_options *options, struct loop *loop,
    struct node *node, const struct secure *secure, char *ret_error, size_t error_bytes)
{
	const struct metrics_http_options wanted = { .address = options->metrics,
		.is_open = options->metrics_words.is_open,
		.wants_tls = options->metrics_words.wants_tls,
		.guard = secure->key == NULL ? NULL : &secure_metrics_guard,
		.guard_arg = &http->guard,
		.paths = http_paths,
		.path_count = NUM_COUNT(http_paths),
		.arg = http };

	assert(http->http == NULL && node != NULL);
	if (options->metrics == NULL)
		return 0;
	*http = (struct node_http){ .node = node, .secure = secure };
	http->guard = (struct secure_metrics){ .noun = "storage",
		.key = http_key,
		.arg = http,
		.takes_anybody = options->metrics_words.is_open };
	http->http = metrics_http_start(loop, &wanted, ret_error, error_bytes);
	if (http->http == NULL)
		return -EINVAL;
	secure_metrics_tell(&http->guard, metrics_http_address(http->http),
	    metrics_http_is_tls(http->http));
	return 0;
}

void
node_http_stop(struct node_http *http)
{
	metrics_http_stop(http->http);
	http->http = NULL;
}
