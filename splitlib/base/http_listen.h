/* SPDX-License-Identifier: Apache-2.0 */
/* http_listen.h -- where a daemon tells what it does over HTTP: a socket that listens there, and who reaches it */
#ifndef CLEAVE_BASE_HTTP_LISTEN_H
#define CLEAVE_BASE_HTTP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/num.h"
#include "cleave/split.h"

/* A host that is a name is looked up for so long. */
#define HTTP_RESOLVE_NS NUM_S(10)

/* Whoever reaches the address reads all that is told there: names, addresses, loads. */
#define HTTP_OPEN_TEXT                                                                             \
	"other hosts reach it, and whoever does reads names of volumes and addresses: take "       \
	"127.0.0.1, give the daemon a key (--key: it speaks TLS then), or add --metrics-open "     \
	"(metrics-open = yes) where that is meant"

struct http_listener {
	int fd;
	bool is_reached; /* by other hosts */
	char address[SPLIT_ADDRESS_BYTES_MAX];
	char name[SPLIT_ADDRESS_BYTES_MAX]; /* that stands for it; "": it was given as numbers */
};

/*
 * http_listen -- listen at @address, HOST:PORT; port 0 takes a free one
 *
 * A host that is a name is looked up first, which blocks, HTTP_RESOLVE_NS at most: for a start. Its first address that
 * can be listened at is taken.
 * Ownership: @ret->fd is the caller's to close.
 * Returns:   0 and *@ret; a negative errno, and why in @ret_error.
 * Errors:    other hosts reach it, and not @may_be_reached: HTTP_OPEN_TEXT.
 */
int http_listen(const char *address, bool may_be_reached, struct http_listener *ret,
    char *ret_error, size_t error_bytes);

#endif /* CLEAVE_BASE_HTTP_LISTEN_H */
