/* SPDX-License-Identifier: Apache-2.0 */
/* http_guard.h -- libmicrohttpd's part in TLS: sessions for a guard (base/metrics_http.h), who alone has keys */
#ifndef CLEAVE_BASE_HTTP_GUARD_H
#define CLEAVE_BASE_HTTP_GUARD_H

#include <microhttpd.h>
#include <stdbool.h>

#include "base/metrics_http.h"

/* http_guard_options -- for MHD_OPTION_ARRAY of a daemon that speaks TLS (MHD_USE_TLS), or does not. */
struct MHD_OptionItem *http_guard_options(bool is_tls);
/* http_guard_open -- @guard's guest for a @connection that begins; its socket is @fd. NULL: no memory. */
void *http_guard_open(const struct metrics_guard *guard, void *arg,
    struct MHD_Connection *connection, int fd);

#endif /* CLEAVE_BASE_HTTP_GUARD_H */
