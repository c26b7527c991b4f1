/* SPDX-License-Identifier: Apache-2.0 */
/*
 * list.h -- intrusive doubly linked lists over struct loop_link
 *
 * A head is a link that points at itself when the list is empty. A link outside any list is
 * {NULL, NULL}, so membership can be asked for and removal is idempotent.
 */
#ifndef CLEAVE_BASE_LIST_H
#define CLEAVE_BASE_LIST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/num.h"
#include "cleave/loop.h"

#define LIST_ENTRY(link, type, member) NUM_CONTAINER_OF(link, type, member)

static inline void
list_init(struct loop_link *head)
{
	head->next = head->prev = head;
}

static inline bool
list_is_empty(const struct loop_link *head)
{
	return head->next == head;
}

static inline bool
list_contains(const struct loop_link *link)
{
	return link->next != NULL;
}

static inline void
list_insert_before(struct loop_link *at, struct loop_link *link)
{
	assert(link->next == NULL);
	link->prev = at->prev;
	link->next = at;
	at->prev->next = link;
	at->prev = link;
}

static inline void
list_push_back(struct loop_link *head, struct loop_link *link)
{
	list_insert_before(head, link);
}

static inline void
list_push_front(struct loop_link *head, struct loop_link *link)
{
	list_insert_before(head->next, link);
}

static inline void
list_remove(struct loop_link *link)
{
	if (link->next == NULL)
		return;
	link->prev->next = link->next;
	link->next->prev = link->prev;
	link->next = link->prev = NULL;
}

static inline struct loop_link *
list_first(struct loop_link *head)
{
	return list_is_empty(head) ? NULL : head->next;
}

static inline struct loop_link *
list_pop_front(struct loop_link *head)
{
	struct loop_link *link = list_first(head);

	if (link != NULL)
		list_remove(link);
	return link;
}

/* @next_link lets the body remove @link. */
#define LIST_FOREACH_SAFE(head, link, next_link)                                                   \
	for ((link) = (head)->next, (next_link) = (link)->next; (link) != (head);                  \
	     (link) = (next_link), (next_link) = (link)->next)

#endif /* CLEAVE_BASE_LIST_H */
