/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_sim_pages.c -- a simulated disk's bytes: what reads see, and what a power loss leaves of it
 *
 * Each page has its present bytes, which reads see, and, while it differs, its durable bytes. A write
 * changes the present bytes when it completes and joins the list of unflushed writes with a copy of
 * its data. A flush carries the writes that had completed before it was submitted to the durable
 * bytes, in order. Power loss starts from the durable bytes and lays a seeded choice of the unflushed
 * writes over them, in order, each whole, torn by sector, or not at all.
 *
 * A failed flush (injected) loses about half of what it was to carry, for good, while reads go on to
 * show it: what Linux does with pages it could not write back. A later flush succeeds and does not
 * bring it back (fault 6).
 */
#include "disk_sim_pages.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/num.h"
#include "base/random.h"
#include "disk_sim_state.h"

static uint64_t
sim_below(struct disk_sim *sim, uint64_t limit)
{
	return random_below(sim->random_state, limit);
}

/* ---- bytes ---- */

struct sim_page *
sim_page_get(struct disk_sim *sim, uint64_t index)
{
	assert(index < sim->page_count);
	if (sim->pages[index] == NULL) {
		sim->pages[index] = calloc(1, sizeof(struct sim_page));
		assert(sim->pages[index] != NULL);
	}
	return sim->pages[index];
}

/* Keep what is durable now apart before the present bytes change. */
static void
page_set_apart(struct sim_page *page)
{
	if (page->durable != NULL)
		return;
	page->durable = malloc(DISK_ALIGN);
	assert(page->durable != NULL);
	memcpy(page->durable, page->present, DISK_ALIGN);
}

static void
page_rejoin(struct sim_page *page)
{
	if (page->pending_count > 0 || page->is_lost)
		return;
	free(page->durable);
	page->durable = NULL;
}

enum page_target { TO_PRESENT, TO_DURABLE, TO_BOTH };

/* Any alignment; within a disk. */
static void
bytes_put(struct disk_sim *sim, uint64_t offset, const uint8_t *data, uint64_t bytes,
    enum page_target target)
{
	assert(offset + bytes <= sim->options.capacity_bytes);
	while (bytes > 0) {
		struct sim_page *page = sim_page_get(sim, offset / DISK_ALIGN);
		uint64_t in_page = offset % DISK_ALIGN;
		uint64_t step = num_min(bytes, DISK_ALIGN - in_page);

		if (target != TO_DURABLE)
			memcpy(page->present + in_page, data, step);
		if (target != TO_PRESENT && page->durable != NULL)
			memcpy(page->durable + in_page, data, step);
		offset += step;
		data += step;
		bytes -= step;
	}
}

void
disk_sim_peek(const struct disk_sim *sim, uint64_t offset_bytes, void *data, size_t bytes)
{
	uint8_t *out = data;

	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	assert(offset_bytes + bytes <= sim->options.capacity_bytes);
	while (bytes > 0) {
		const struct sim_page *page = sim->pages[offset_bytes / DISK_ALIGN];
		uint64_t in_page = offset_bytes % DISK_ALIGN;
		uint64_t step = num_min(bytes, DISK_ALIGN - in_page);

		if (page == NULL)
			memset(out, 0, step);
		else
			memcpy(out, page->present + in_page, step);
		offset_bytes += step;
		out += step;
		bytes -= step;
	}
}

void
disk_sim_poke(struct disk_sim *sim, uint64_t offset_bytes, const void *data, size_t bytes)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	assert(offset_bytes + bytes <= sim->options.capacity_bytes);
	bytes_put(sim, offset_bytes, data, bytes, TO_BOTH);
}

bool
disk_sim_is_lost(const struct disk_sim *sim, uint64_t offset_bytes, uint64_t bytes)
{
	uint64_t end = num_round_up(offset_bytes + bytes, DISK_ALIGN) / DISK_ALIGN;

	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	assert(end <= sim->page_count);
	for (uint64_t i = offset_bytes / DISK_ALIGN; i < end; i++)
		if (sim->pages[i] != NULL && sim->pages[i]->is_lost)
			return true;
	return false;
}

/* ---- unflushed writes ---- */

static uint64_t
write_first_page(const struct sim_write *write)
{
	return write->offset_bytes / DISK_ALIGN;
}

static uint64_t
write_end_page(const struct sim_write *write)
{
	return (write->offset_bytes + write->bytes) / DISK_ALIGN;
}

static void
write_forget(struct disk_sim *sim, struct sim_write *write)
{
	for (uint64_t i = write_first_page(write); i < write_end_page(write); i++) {
		struct sim_page *page = sim->pages[i];

		assert(page->pending_count > 0);
		page->pending_count--;
		page_rejoin(page);
	}
	list_remove(&write->link);
	assert(sim->unflushed_count > 0);
	sim->unflushed_count--;
	free(write);
}

void
sim_write_apply(struct disk_sim *sim, struct sim_write *write)
{
	assert(num_is_aligned(write->offset_bytes | write->bytes, DISK_ALIGN));
	assert(write->sequence == 0);
	assert(!list_contains(&write->link));
	for (uint64_t i = write_first_page(write); i < write_end_page(write); i++) {
		struct sim_page *page = sim_page_get(sim, i);

		page_set_apart(page);
		page->pending_count++;
	}
	bytes_put(sim, write->offset_bytes, write->data, write->bytes, TO_PRESENT);
	write->sequence = ++sim->write_sequence;
	list_push_back(&sim->unflushed, &write->link);
	sim->unflushed_count++;
	if (sim->trace_fn != NULL)
		sim->trace_fn(&(struct disk_sim_event){ .op = DISK_WRITE,
				  .sequence = write->sequence,
				  .offset_bytes = write->offset_bytes,
				  .bytes = write->bytes,
				  .data = write->data },
		    sim->trace_arg);
}

static void
write_make_durable(struct disk_sim *sim, struct sim_write *write)
{
	assert(write->sequence > 0);
	for (uint64_t i = write_first_page(write); i < write_end_page(write); i++)
		sim->pages[i]->is_lost = false; /* these bytes at least are whole again */
	bytes_put(sim, write->offset_bytes, write->data, write->bytes, TO_DURABLE);
	write_forget(sim, write);
}

/* Reads go on to show it, but it will never be durable. */
static void
write_give_up(struct disk_sim *sim, struct sim_write *write)
{
	assert(write->sequence > 0);
	for (uint64_t i = write_first_page(write); i < write_end_page(write); i++)
		sim->pages[i]->is_lost = true;
	write_forget(sim, write);
}

void
sim_flush(struct disk_sim *sim, uint64_t covers_sequence, bool is_failed)
{
	struct loop_link *link, *next;

	assert(covers_sequence <= sim->write_sequence);
	if (!is_failed && sim->trace_fn != NULL)
		sim->trace_fn(&(struct disk_sim_event){ .op = DISK_FLUSH,
				  .sequence = covers_sequence },
		    sim->trace_arg);

	LIST_FOREACH_SAFE(&sim->unflushed, link, next) {
		struct sim_write *write = LIST_ENTRY(link, struct sim_write, link);

		if (write->sequence > covers_sequence)
			break;
		if (is_failed && sim_below(sim, 2) == 0)
			write_give_up(sim, write);
		else if (!is_failed)
			write_make_durable(sim, write);
	}
}

/* ---- power loss ---- */

enum loss_mode { LOSS_ALL, LOSS_NONE, LOSS_BY_WRITE, LOSS_BY_SECTOR, LOSS_MODE_NR };

/* Lay what the mode lets through of @write over the present bytes. */
static void
loss_apply(struct disk_sim *sim, const struct sim_write *write, enum loss_mode mode)
{
	bool is_kept = mode == LOSS_NONE || (mode == LOSS_BY_WRITE && sim_below(sim, 2) == 0);
	uint32_t kept_count = 0;
	uint64_t sectors = write->bytes / DISK_SIM_SECTOR_BYTES;

	assert(mode < LOSS_MODE_NR);
	assert(num_is_aligned(write->bytes, DISK_SIM_SECTOR_BYTES));
	if (mode == LOSS_BY_WRITE && sim_below(sim, 4) == 0)
		mode = LOSS_BY_SECTOR;
	for (uint64_t i = 0; i < sectors; i++) {
		uint64_t at = i * DISK_SIM_SECTOR_BYTES;

		if (mode == LOSS_BY_SECTOR ? sim_below(sim, 2) != 0 : !is_kept)
			continue;
		bytes_put(sim, write->offset_bytes + at, write->data + at, DISK_SIM_SECTOR_BYTES,
		    TO_PRESENT);
		kept_count++;
	}
	if (kept_count == 0)
		sim->counters.lost_writes_count++;
	else if (kept_count < sectors)
		sim->counters.torn_writes_count++;
}

void
disk_sim_power_loss(struct disk_sim *sim)
{
	enum loss_mode mode;
	struct loop_link *link;

	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	assert(sim->handle == NULL);
	mode = (enum loss_mode)sim_below(sim, LOSS_MODE_NR);
	for (uint64_t i = 0; i < sim->page_count; i++) {
		struct sim_page *page = sim->pages[i];

		if (page == NULL || page->durable == NULL)
			continue;
		memcpy(page->present, page->durable, DISK_ALIGN);
		free(page->durable);
		page->durable = NULL;
		page->pending_count = 0;
		page->is_lost = false;
	}
	while ((link = list_pop_front(&sim->unflushed)) != NULL) {
		struct sim_write *write = LIST_ENTRY(link, struct sim_write, link);

		loss_apply(sim, write, mode);
		free(write);
	}
	sim->unflushed_count = 0;
	sim->counters.power_losses_count++;
}

/* ---- life ---- */

int
sim_pages_init(struct disk_sim *sim)
{
	list_init(&sim->unflushed);
	sim->page_count = sim->options.capacity_bytes / DISK_ALIGN;
	sim->pages = calloc(sim->page_count, sizeof(struct sim_page *));
	assert(sim->page_count > 0);
	return sim->pages == NULL ? -ENOMEM : 0;
}

void
sim_pages_fini(struct disk_sim *sim)
{
	struct loop_link *link;

	while ((link = list_pop_front(&sim->unflushed)) != NULL)
		free(LIST_ENTRY(link, struct sim_write, link));
	for (uint64_t i = 0; i < sim->page_count; i++) {
		if (sim->pages[i] != NULL)
			free(sim->pages[i]->durable);
		free(sim->pages[i]);
	}
	free(sim->pages);
}

uint64_t
disk_sim_held_bytes(const struct disk_sim *sim)
{
	const struct loop_link *link;
	uint64_t bytes = 0;

	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	for (uint64_t i = 0; i < sim->page_count; i++) {
		if (sim->pages[i] == NULL)
			continue;
		bytes += malloc_usable_size(sim->pages[i]) + sizeof(size_t);
		if (sim->pages[i]->durable != NULL)
			bytes += malloc_usable_size(sim->pages[i]->durable) + sizeof(size_t);
	}
	for (link = sim->unflushed.next; link != &sim->unflushed; link = link->next)
		bytes += malloc_usable_size(LIST_ENTRY(link, struct sim_write, link)) +
		    sizeof(size_t);
	return bytes;
}

uint32_t
disk_sim_unflushed_count(const struct disk_sim *sim)
{
	CHECK_OBJ(sim, DISK_SIM_MAGIC);
	return sim->unflushed_count;
}
