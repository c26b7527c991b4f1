/* SPDX-License-Identifier: Apache-2.0 */
/* node_http.h -- --metrics: /metrics and /healthz of a node, over HTTP, or over TLS by its key */
#ifndef CLEAVE_STORAGE_NODE_HTTP_H
#define CLEAVE_STORAGE_NODE_HTTP_H

#include <stddef.h>

#include "cleave/secure_metrics.h"

struct loop;
struct metrics_http;
struct node;
struct secure;
struct storage_options;

struct node_http {
	struct metrics_http *http; /* NULL: nobody may ask */
	struct secure_metrics guard;
	struct node *node;
	const struct secure *secure;
};

/*
 * node_http_start -- listen where @options say; nowhere, where they say nothing
 *
 * @node and @secure outlive it; the key of @secure may be another one from call to call of the loop. Returns 0; or
 * -EINVAL, with why in @ret_error.
 */
int node_http_start(struct node_http *http, const struct storage_options *options,
    struct loop *loop, struct node *node, const struct secure *secure, char *ret_error,
    size_t error_bytes);
/* node_http_stop -- also of one that is all zeros. */
void node_http_stop(struct node_http *http);

#endif /* CLEAVE_STORAGE_NODE_HTTP_H */
