/* SPDX-License-Identifier: Apache-2.0 */
/*
 * timer_heap.h -- a binary heap of things that fall due, for both kinds of loop
 *
 * The array is address space reserved once and touched as it fills, so starting a timer neither
 * allocates nor fails. Order: due_ns, then order, then rank_ns, then sequence; never an address.
 */
#ifndef CLEAVE_BASE_TIMER_HEAP_H
#define CLEAVE_BASE_TIMER_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"

#define TIMER_HEAP_ENTRIES_MAX (1u << 18)

struct timer_entry {
	uint64_t due_ns;
	uint64_t order;   /* simulator: shuffles loops that have something due at once */
	uint64_t rank_ns; /* simulator: when it would have been due had its process not been held */
	uint64_t sequence;
	struct loop *loop;
	struct loop_timer *timer; /* NULL: a turn for @loop without a timer */
};

struct timer_heap {
	struct timer_entry *entries;
	uint32_t count;
};

/* timer_heap_init -- 0 or a negative errno. */
int timer_heap_init(struct timer_heap *heap);
/* timer_heap_fini -- unmap it; timers in it are not touched. Also of a heap that is all zeros. */
void timer_heap_fini(struct timer_heap *heap);
/* timer_heap_push -- sets the timer's heap_index and is_active. More than the maximum is a bug. */
void timer_heap_push(struct timer_heap *heap, const struct timer_entry *entry);
/* timer_heap_first -- NULL when empty; valid until the next change. */
const struct timer_entry *timer_heap_first(const struct timer_heap *heap);
/* timer_heap_pop -- remove the first into *@ret_entry; false when empty. */
bool timer_heap_pop(struct timer_heap *heap, struct timer_entry *ret_entry);
/* timer_heap_remove -- @timer must be in the heap. */
void timer_heap_remove(struct timer_heap *heap, struct loop_timer *timer);
/* timer_heap_drop_loop -- forget all entries of @loop without touching their timers. */
void timer_heap_drop_loop(struct timer_heap *heap, const struct loop *loop);
/* timer_heap_rebuild -- restore the order after entries were changed in place. */
void timer_heap_rebuild(struct timer_heap *heap);

#endif /* CLEAVE_BASE_TIMER_HEAP_H */
