/* SPDX-License-Identifier: Apache-2.0 */
/* hot_pages.h -- pages of the table of hot blocks that clients read by themselves: whose they are, and since when */
#ifndef CLEAVE_MIDDLETIER_READ_HOT_PAGES_H
#define CLEAVE_MIDDLETIER_READ_HOT_PAGES_H

#include <stdint.h>

struct mt_hot;
struct mt_hot_object;
struct mt_port;
struct mt_session;

/* mt_hot_pages_max -- how many pages of a table of @hot_bytes sessions may have together; 0: none. Threads: any. */
uint32_t mt_hot_pages_max(uint64_t hot_bytes);
/*
 * mt_hot_pages_ask -- @session may have read leases, and its client wants to read hot blocks by itself: LEASE
 *
 * It gets pages, or more, or has to give some back: session->pages says which it has now. Where there is no table, or
 * peers' devices may not read here (a port with a key), it has none. Asked anew with each LEASE, some pages at a time.
 * Threads: the port's, as for all that follows.
 */
void mt_hot_pages_ask(struct mt_session *session);
/*
 * mt_hot_pages_revoke -- the gateway has lost its lease: no key is good any more, and pages are everybody's
 *
 * Nobody needs this whose clock goes on: a read lease ends before the gateway's (LEASES.md). Sessions get other pages,
 * under other keys, when they ask again.
 */
void mt_hot_pages_revoke(struct mt_port *port);
/* mt_hot_pages_left -- @session's queue pair has ended: nobody reads there by its keys any more. */
void mt_hot_pages_left(struct mt_session *session);
/* mt_hot_pages_of -- what @session's client reads by itself; NULL: nothing. */
struct mt_hot_object *mt_hot_pages_of(const struct mt_session *session);
/* mt_hot_set_at -- the first slot of the set for blocks of this @hash that @object's client reads; NULL: everybody's. */
uint32_t mt_hot_set_at(const struct mt_hot *hot, const struct mt_hot_object *object, uint64_t hash);
/* mt_hot_pages_init, mt_hot_pages_fini -- by mt_hot_init and _fini, once its sets are counted. 0; -ENOMEM. */
int mt_hot_pages_init(struct mt_hot *hot);
void mt_hot_pages_fini(struct mt_hot *hot);

#endif /* CLEAVE_MIDDLETIER_READ_HOT_PAGES_H */
