/* SPDX-License-Identifier: Apache-2.0 */
/* http_host.h -- by which name is a page asked for? */
#ifndef CLEAVE_BASE_HTTP_HOST_H
#define CLEAVE_BASE_HTTP_HOST_H

#include <stdbool.h>

/*
 * http_host_is_ours -- does @host, a request's Host, name this machine as no other site can: by an address, as
 * localhost, by its own host name, or by @name?
 *
 * A browser lets a site read what is served under the site's own name, and whoever owns a name may let it mean our
 * address (DNS rebinding): what is asked for by such a name is not told.
 * @name: one more that is ours; "": none. Threads: any.
 */
bool http_host_is_ours(const char *host, const char *name);

#endif /* CLEAVE_BASE_HTTP_HOST_H */
