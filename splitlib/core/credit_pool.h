/* SPDX-License-Identifier: Apache-2.0 */
/* credit_pool.h -- the sum that always holds (credit.c), and what it leaves room for */
#ifndef CLEAVE_SPLIT_CREDIT_POOL_H
#define CLEAVE_SPLIT_CREDIT_POOL_H

#include <stdbool.h>
#include <stdint.h>

struct split_port;

/* credit_pool_request_cap -- receives that requests may have at most, granted or held. */
uint32_t credit_pool_request_cap(const struct split_port *port);
/* credit_pool_request_room -- how many more credits may be granted. */
uint32_t credit_pool_request_room(const struct split_port *port);
/*
 * credit_pool_reply_room -- how many more replies a receive may be set aside for
 *
 * A port that nobody sends requests to keeps none back.
 */
uint32_t credit_pool_reply_room(const struct split_port *port);
/* credit_mark_dirty -- something came back: serve who waits, if anyone does, at the turn's end. */
void credit_mark_dirty(struct split_port *port);
/* credit_is_short -- somebody waits for a receive, and there is none. */
bool credit_is_short(struct split_port *port);

#endif /* CLEAVE_SPLIT_CREDIT_POOL_H */
