/* SPDX-License-Identifier: Apache-2.0 */
/* timer_heap.c -- see timer_heap.h */
#include "base/timer_heap.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "base/check.h"

#define TIMER_HEAP_BYTES ((size_t)TIMER_HEAP_ENTRIES_MAX * sizeof(struct timer_entry))

static bool
entry_is_before(const struct timer_entry *a, const struct timer_entry *b)
{
	if (a->due_ns != b->due_ns)
		return a->due_ns < b->due_ns;
	if (a->order != b->order)
		return a->order < b->order;
	if (a->rank_ns != b->rank_ns)
		return a->rank_ns < b->rank_ns;
	return a->sequence < b->sequence;
}

static void
entry_place(struct timer_heap *heap, uint32_t index, const struct timer_entry *entry)
{
	heap->entries[index] = *entry;
	if (entry->timer != NULL)
		entry->timer->heap_index = index;
}

static void
sift_up(struct timer_heap *heap, uint32_t index, const struct timer_entry *entry)
{
	assert(index < heap->count);
	while (index > 0) {
		uint32_t parent = (index - 1) / 2;

		if (!entry_is_before(entry, &heap->entries[parent]))
			break;
		entry_place(heap, index, &heap->entries[parent]);
		index = parent;
	}
	entry_place(heap, index, entry);
}

static void
sift_down(struct timer_heap *heap, uint32_t index, const struct timer_entry *entry)
{
	assert(index < heap->count);
	for (;;) {
		uint32_t child = 2 * index + 1;

		if (child >= heap->count)
			break;
		if (child + 1 < heap->count &&
		    entry_is_before(&heap->entries[child + 1], &heap->entries[child]))
			child++;
		if (!entry_is_before(&heap->entries[child], entry))
			break;
		entry_place(heap, index, &heap->entries[child]);
		index = child;
	}
	entry_place(heap, index, entry);
}

int
timer_heap_init(struct timer_heap *heap)
{
	void *memory = mmap(NULL, TIMER_HEAP_BYTES, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return -errno;
	*heap = (struct timer_heap){ .entries = memory };
	return 0;
}

void
timer_heap_fini(struct timer_heap *heap)
{
	assert(heap->count <= TIMER_HEAP_ENTRIES_MAX);
	if (heap->entries != NULL)
		(void)munmap(heap->entries, TIMER_HEAP_BYTES); /* ours, so it cannot fail */
	*heap = (struct timer_heap){ 0 };
}

void
timer_heap_push(struct timer_heap *heap, const struct timer_entry *entry)
{
	struct timer_entry copy = *entry;

	assert(copy.timer == NULL || !copy.timer->is_active);
	assert(heap->entries != NULL);
	assert(heap->count < TIMER_HEAP_ENTRIES_MAX);
	if (copy.timer != NULL)
		copy.timer->is_active = true;
	sift_up(heap, heap->count++, &copy);
}

const struct timer_entry *
timer_heap_first(const struct timer_heap *heap)
{
	return heap->count > 0 ? &heap->entries[0] : NULL;
}

static void
remove_at(struct timer_heap *heap, uint32_t index)
{
	struct timer_entry last;

	assert(index < heap->count);
	if (heap->entries[index].timer != NULL)
		heap->entries[index].timer->is_active = false;
	last = heap->entries[--heap->count];
	if (index == heap->count)
		return;
	if (index > 0 && entry_is_before(&last, &heap->entries[(index - 1) / 2]))
		sift_up(heap, index, &last);
	else
		sift_down(heap, index, &last);
}

bool
timer_heap_pop(struct timer_heap *heap, struct timer_entry *ret_entry)
{
	assert(heap->entries != NULL);
	if (heap->count == 0)
		return false;
	*ret_entry = heap->entries[0];
	remove_at(heap, 0);
	return true;
}

void
timer_heap_remove(struct timer_heap *heap, struct loop_timer *timer)
{
	assert(timer->is_active);
	assert(timer->heap_index < heap->count);
	assert(heap->entries[timer->heap_index].timer == timer);
	remove_at(heap, timer->heap_index);
}

void
timer_heap_drop_loop(struct timer_heap *heap, const struct loop *loop)
{
	uint32_t kept_count = 0;

	assert(loop != NULL);
	/* The timers may lie in memory that went with their process: only forget them. */
	for (uint32_t i = 0; i < heap->count; i++) {
		if (heap->entries[i].loop != loop)
			heap->entries[kept_count++] = heap->entries[i];
	}
	heap->count = kept_count;
	timer_heap_rebuild(heap);
}

void
timer_heap_rebuild(struct timer_heap *heap)
{
	assert(heap->count <= TIMER_HEAP_ENTRIES_MAX);
	for (uint32_t i = heap->count; i-- > 0;) {
		struct timer_entry entry = heap->entries[i];

		sift_down(heap, i, &entry);
	}
}
