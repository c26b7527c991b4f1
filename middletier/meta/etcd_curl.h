/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_curl.h -- the way to the members of an etcd over HTTP/1.1, by libcurl on a loop */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_CURL_H
#define CLEAVE_MIDDLETIER_META_ETCD_CURL_H

#include <stdint.h>

#include "cleave/loop.h"
#include "meta/etcd_http.h"

struct etcd_curl_options {
	struct loop *loop;
	const char *const *urls; /* "http://HOST:PORT" or "https://HOST:PORT", of each endpoint */
	uint32_t url_count;
	const char *ca, *cert,
	    *key; /* files in PEM; NULL: the system's authorities; no certificate */
};

/*
 * etcd_curl_open -- handlers are called on the loop; see etcd_http.h
 *
 * A request is never sent twice: where libcurl would, because a connection that it kept has ended meanwhile, the
 * call fails as one that perhaps was sent. No proxy of the environment is asked.
 * Returns: NULL, out of memory. Threads: the loop's; the first one before any other thread uses libcurl.
 */
struct etcd_http *etcd_curl_open(const struct etcd_curl_options *options);

#endif /* CLEAVE_MIDDLETIER_META_ETCD_CURL_H */
