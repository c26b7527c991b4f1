/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_load.c -- who waits for which loads of runs' heads, and is told; run_ask.c has what a load does
 *
 * A load is shared by all who ask for the same meanwhile: the whole index of a run (run->load), or a page of it (its
 * directory's loads). It outlives its run, or its shard, only until those who wait are told.
 */
#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "index/index.h"
#include "index/run_ask.h"
#include "index/run_dir.h"
#include "index/run_heads.h"
#include "index/run_index.h"
#include "index/run_load.h"

/* ---- ends ---- */

/* The load of @run's whole index, or of its directory, that is under way, or not told yet. NULL: there is none. */
static struct mt_run_load *
whole_load(const struct mt_run *run)
{
	return run->load != NULL && run->load->page == MT_RUN_WHOLE ? run->load : NULL;
}

static struct mt_run_load *
directory_load(const struct mt_run *run)
{
	struct mt_run_load *whole = whole_load(run);

	return whole != NULL ? whole->directory : run->load;
}

static void
load_attach(struct mt_run_load *load, struct mt_run *run)
{
	struct mt_run_load *whole = whole_load(run);

	if (load->page == MT_RUN_WHOLE) {
		load->directory = run->load;
		run->load = load;
	} else if (load->page != MT_RUN_DIRECTORY) {
		list_push_back(&run->dir->loads, &load->pages_link);
	} else if (whole != NULL) {
		whole->directory = load;
	} else {
		run->load = load;
	}
}

/* Nobody joins the load any more: the next question gets a load of its own. */
static void
load_detach(struct mt_run_load *load)
{
	struct mt_run_load *whole = whole_load(load->run);

	if (load == whole)
		load->run->load = load->directory;
	else if (load->page == MT_RUN_DIRECTORY && whole != NULL)
		whole->directory = NULL;
	else if (load->page == MT_RUN_DIRECTORY)
		load->run->load = NULL;
	else
		list_remove(&load->pages_link);
	load->run = NULL;
}

static void
load_end(struct mt_run_load *load, int rc)
{
	if (load->sm.state != RUN_LOAD_ENDED)
		mt_run_load_finish(load, rc);
	load->rc = rc; /* it may have ended otherwise, and be about to say so */
}

void
mt_run_load_end_pages(struct mt_run_dir *dir, int rc)
{
	struct loop_link *link;

	while ((link = list_first(&dir->loads)) != NULL) {
		struct mt_run_load *load = LIST_ENTRY(link, struct mt_run_load, pages_link);

		load_end(load, rc);
		load_detach(load);
	}
}

void
mt_run_load_end(struct mt_run *run, int rc)
{
	struct mt_run_load *load;

	assert(rc == 0 || rc == -ESTALE);
	if (run->dir != NULL)
		mt_run_load_end_pages(run->dir, rc);
	load = directory_load(run);
	if (load != NULL) {
		load_end(load, rc);
		if (rc != 0)
			load_detach(load);
	}
	load = whole_load(run);
	if (load == NULL)
		return;
	load_end(load, rc);
	if (rc != 0)
		load_detach(load);
}

/* Is there a directory to be read? */
static bool
run_has_directory(const struct mt_run *run)
{
	return run->directory_bytes > 0 && !run->is_dir_bad && !run->is_dir_away;
}

static void gather_go_on(struct mt_run *run);

static void
tell(struct loop_link *waiters, int rc)
{
	struct loop_link *link;

	while ((link = list_pop_front(waiters)) != NULL) {
		struct mt_run_waiter *waiter = LIST_ENTRY(link, struct mt_run_waiter, link);

		waiter->fn(rc, waiter->arg);
	}
}

/* The load that gathers @run's pages; NULL: none does. */
static struct mt_run_load *
load_gathering(const struct mt_run *run)
{
	struct mt_run_load *load = whole_load(run);

	return load != NULL && load->sm.state == RUN_LOAD_GATHERING ? load : NULL;
}

/*
 * A page that cannot be had fails the whole that is gathered, too. Nobody joins @load any more. Without a directory it is
 * done as if there were none, by whoever looks again: for good, or where copies are away that may have it, this once.
 */
static void
load_fail(struct mt_run_load *load)
{
	struct mt_run_load *whole = load_gathering(load->run);

	assert(load->rc != 0);
	if (load->page == MT_RUN_DIRECTORY && load->rc == -EBADMSG) {
		load->run->is_dir_bad = true;
		load->rc = 0;
		return;
	}
	if (load->page == MT_RUN_DIRECTORY && load->rc == -ENODATA) {
		load->run->is_dir_away = true;
		load->rc = 0;
		return;
	}
	load->run->is_dir_away = false;
	if (whole != NULL && whole != load)
		mt_run_load_finish(whole, load->rc);
	load_detach(load);
}

/* Frames that a node has sent with the page are the first's who asked for just those. */
static void
load_give_found(struct mt_run_load *load, struct mt_run_waiter *waiter)
{
	if (load->rc != 0 || load->found.msg == NULL || waiter->block_count == 0 ||
	    waiter->block != load->block)
		return;
	waiter->found = load->found;
	load->found.msg = NULL;
}

/*
 * A glimpse of the page, if that is all there is, is looked at from now on, until who waits was told. Nobody joins the load
 * any more, for others see nothing in it; who gathers the run's pages asks for this one anew.
 */
static void
load_show_glimpse(struct mt_run_load *load)
{
	struct mt_run *run = load->run;

	if (load->glimpse == NULL || run == NULL || load->rc != 0)
		return;
	load_detach(load);
	gather_go_on(run);
	load->shard->port->run_cache->glimpse = load->glimpse;
}

/* A handler may ask again, withdraw others, or have the run go. */
static void
load_tell(struct mt_run_load *load)
{
	struct mt_run_cache *cache = load->shard->port->run_cache;
	struct loop_link *link;
	struct mt_run *run;

	assert(load->sm.state == RUN_LOAD_ENDED);
	assert(load->reader == NULL);
	if (load->rc != 0 && load->run != NULL)
		load_fail(load);
	load_show_glimpse(load);
	while ((link = list_pop_front(&load->waiters)) != NULL) {
		struct mt_run_waiter *waiter = LIST_ENTRY(link, struct mt_run_waiter, link);

		/* While its load is set the index stays, and a page while its load is listed. */
		assert(load->rc != 0 || load->page != MT_RUN_WHOLE || load->run->index != NULL);
		load_give_found(load, waiter);
		waiter->fn(load->rc, waiter->arg);
	}
	cache->glimpse = NULL;
	run = load->run;
	if (run != NULL) {
		load_detach(load);
		gather_go_on(run);
	}
	list_remove(&load->link);
	if (load->found.msg != NULL)
		split_msg_release(load->found.msg);
	mt_run_index_free(load->glimpse);
	mt_run_heads_fini(&load->heads);
	load->magic = 0;
	mt_free(load);
	mt_run_cache_trim(cache);
}

static void
run_on_end_task(struct loop_task *task, void *arg)
{
	struct mt_run_cache *cache = arg;
	struct loop_link ended, *link;

	(void)task;
	/* Lists of their own: what ends meanwhile is told in the next turn. */
	list_init(&ended);
	while ((link = list_pop_front(&cache->starved)) != NULL)
		list_push_back(&ended, link);
	tell(&ended, -ENOMEM);
	while ((link = list_pop_front(&cache->ended)) != NULL)
		list_push_back(&ended, link);
	while ((link = list_first(&ended)) != NULL)
		load_tell(mt_run_load_of(link));
}

/* ---- what others ask for ---- */

/* The load of @run's @page, or of all, that is under way, or not told yet. NULL: there is none. */
static struct mt_run_load *
load_find(const struct mt_run *run, uint32_t page)
{
	const struct loop_link *link;

	if (page == MT_RUN_WHOLE)
		return whole_load(run);
	if (page == MT_RUN_DIRECTORY)
		return directory_load(run);
	for (link = run->dir->loads.next; link != &run->dir->loads; link = link->next) {
		struct mt_run_load *load = LIST_ENTRY(link, struct mt_run_load, pages_link);

		if (load->page == page)
			return load;
	}
	return NULL;
}

bool
mt_run_is_loading_page(const struct mt_run_dir *dir, uint32_t page)
{
	assert(page < dir->slot_count);
	return load_find(dir->run, page) != NULL;
}

static struct mt_run_load *
load_create(struct mt_run_cache *cache, struct mt_run *run, uint32_t page)
{
	struct mt_run_load *load = mt_calloc(1, sizeof(*load));
	struct mt_port *port = cache->port;
	bool is_gathered;

	assert(load_find(run, page) == NULL);
	assert(run->length_bytes > 0);
	if (load == NULL)
		return NULL;
	load->magic = RUN_LOAD_MAGIC;
	is_gathered = page == MT_RUN_WHOLE && (run->dir != NULL || run_has_directory(run));
	sm_init(&load->sm, "run_load", mt_run_load_table,
	    is_gathered ? RUN_LOAD_GATHERING : RUN_LOAD_QUEUED, run->extent_index);
	load->shard = run->chunk->index->shard;
	load->run = run;
	load->page = page;
	if (page == MT_RUN_WHOLE)
		mt_run_heads_init(&load->heads, run);
	else if (page == MT_RUN_DIRECTORY)
		mt_run_heads_init_directory(&load->heads, run);
	else
		mt_run_heads_init_page(&load->heads, run, page);
	load->deadline_ns = loop_now_ns(port->loop) + port->settings->node_timeout_ns;
	list_init(&load->waiters);
	list_push_back(is_gathered ? &cache->gathering : &cache->queued, &load->link);
	load_attach(load, run);
	return load;
}

/* All pages are there. */
static void
gather_complete(struct mt_run_load *load)
{
	struct mt_run_index *index = mt_run_dir_join(load->run->dir);

	mt_run_load_finish(load, index == NULL ? -ENOMEM : 0);
	if (index == NULL)
		return;
	mt_run_cache_put(load->run, index);
	metric_add(&load->shard->port->metrics[MT_METRIC_run_indexes_loaded], 1);
}

/* @run's whole index @load wants its directory, or, where no copy of that is good, all heads in their order. */
static void
gather_directory(struct mt_run *run, struct mt_run_load *load)
{
	struct mt_run_cache *cache = mt_run_cache_of(run);

	if (load->directory != NULL)
		return;
	if (!run_has_directory(run))
		mt_run_load_queue(load);
	else if (load_create(cache, run, MT_RUN_DIRECTORY) == NULL)
		mt_run_load_finish(load, -ENOMEM);
	mt_run_loads_go_on(cache);
}

/* Pages that @run's whole index wants are loaded, so many at a time. */
static void
gather_go_on(struct mt_run *run)
{
	struct mt_run_load *load = load_gathering(run);
	struct mt_run_dir *dir = run->dir;
	struct loop_link *link;
	uint32_t count = 0;

	if (load == NULL)
		return;
	/* While a whole index is being loaded no directory of its chunk goes. */
	if (dir == NULL) {
		gather_directory(run, load);
		return;
	}
	if (dir->page_count == dir->slot_count) {
		gather_complete(load);
		return;
	}
	for (link = dir->loads.next; link != &dir->loads; link = link->next)
		count++;
	for (uint32_t i = 0; i < dir->slot_count && count < RUN_GATHER_MAX; i++) {
		if (dir->slots[i].page != NULL || load_find(run, i) != NULL)
			continue;
		if (load_create(mt_run_cache_of(run), run, i) == NULL) {
			mt_run_load_finish(load, -ENOMEM);
			break; /* others begin all the same */
		}
		count++;
	}
	mt_run_loads_go_on(mt_run_cache_of(run));
}

static void
load_join(struct mt_run *run, uint32_t page, struct mt_run_waiter *waiter)
{
	struct mt_run_cache *cache = mt_run_cache_of(run);
	struct mt_run_load *load = load_find(run, page);
	bool is_page = page < MT_RUN_DIRECTORY;
	bool is_there = is_page ? run->dir->slots[page].page != NULL : run->index != NULL;

	assert(waiter->fn != NULL);
	waiter->link = (struct loop_link){ NULL, NULL };
	waiter->found.msg = NULL;
	if (load == NULL) {
		load = load_create(cache, run, page);
		if (load != NULL && is_page) {
			load->block = waiter->block;
			load->block_count = waiter->block_count;
		}
	}
	if (load == NULL) {
		list_push_back(&cache->starved, &waiter->link);
		loop_defer(cache->port->loop, &cache->end_task);
		return;
	}
	list_push_back(&load->waiters, &waiter->link);
	if (is_there && load->sm.state == RUN_LOAD_QUEUED)
		mt_run_load_finish(load, 0);
	else if (load->sm.state == RUN_LOAD_GATHERING)
		gather_go_on(run);
	else
		mt_run_loads_go_on(cache);
}

void
mt_run_load(struct mt_run *run, struct mt_run_waiter *waiter)
{
	waiter->block_count = 0;
	load_join(run, MT_RUN_WHOLE, waiter);
}

void
mt_run_load_block(struct mt_run *run, uint32_t block, struct mt_run_waiter *waiter)
{
	mt_run_find_block(run, block, 0, waiter);
}

void
mt_run_find_block(struct mt_run *run, uint32_t block, uint32_t count, struct mt_run_waiter *waiter)
{
	uint32_t page = MT_RUN_WHOLE;

	if (run->index == NULL && run->dir != NULL && mt_run_dir_has(run->dir, block))
		page = mt_run_dir_page(run->dir, block);
	else if (run->index == NULL && run->dir == NULL && run_has_directory(run))
		page = MT_RUN_DIRECTORY;
	waiter->block = block;
	waiter->block_count = count;
	load_join(run, page, waiter);
}

void
mt_run_unwait(struct mt_run_waiter *waiter)
{
	list_remove(&waiter->link);
}

static void
loads_stop(struct loop_link *list, const struct mt_shard *shard)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(list, link, next) {
		struct mt_run_load *load = mt_run_load_of(link);

		if (load->shard == shard)
			mt_run_load_finish(load, -ECANCELED);
	}
}

void
mt_run_stop(struct mt_shard *shard)
{
	struct mt_run_cache *cache = shard->port->run_cache;

	if (cache == NULL)
		return;
	loads_stop(&cache->queued, shard);
	loads_stop(&cache->reading, shard);
	loads_stop(&cache->waiting, shard);
	loads_stop(&cache->gathering, shard);
}

bool
mt_run_is_quiet(const struct mt_shard *shard)
{
	const struct mt_run_cache *cache = shard->port->run_cache;
	const struct loop_link *link;

	if (cache == NULL)
		return true;
	for (uint32_t i = 0; i < RUN_READERS_MAX; i++) {
		if (cache->readers[i].shard == shard)
			return false;
	}
	for (link = cache->ended.next; link != &cache->ended; link = link->next) {
		if (LIST_ENTRY(link, struct mt_run_load, link)->shard == shard)
			return false;
	}
	return true;
}

/* ---- its part of the port's life ---- */

int
mt_run_loads_init(struct mt_run_cache *cache)
{
	list_init(&cache->free_readers);
	list_init(&cache->queued);
	list_init(&cache->reading);
	list_init(&cache->waiting);
	list_init(&cache->gathering);
	list_init(&cache->ended);
	list_init(&cache->starved);
	loop_task_init(&cache->end_task, run_on_end_task, cache);
	loop_timer_init(&cache->tick_timer, mt_run_loads_on_tick, cache);
	cache->head = mt_calloc(1, BATCH_HEAD_BYTES_MAX);
	cache->readers = mt_calloc(RUN_READERS_MAX, sizeof(*cache->readers));
	if (cache->head == NULL || cache->readers == NULL) {
		mt_free(cache->head);
		mt_free(cache->readers);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < RUN_READERS_MAX; i++) {
		cache->readers[i].cache = cache;
		list_push_back(&cache->free_readers, &cache->readers[i].link);
	}
	return 0;
}

static void
loads_free(struct loop_link *list)
{
	struct loop_link *link;

	while ((link = list_pop_front(list)) != NULL) {
		struct mt_run_load *load = mt_run_load_of(link);

		mt_run_heads_fini(&load->heads);
		mt_run_index_free(load->glimpse);
		load->magic = 0;
		mt_free(load);
	}
}

/* The process is being killed: nobody is told. */
void
mt_run_loads_fini(struct mt_run_cache *cache)
{
	struct loop *loop = cache->port->loop;

	loop_task_cancel(loop, &cache->end_task);
	loop_timer_stop(loop, &cache->tick_timer);
	loads_free(&cache->queued);
	loads_free(&cache->reading);
	loads_free(&cache->waiting);
	loads_free(&cache->gathering);
	loads_free(&cache->ended);
	mt_free(cache->head);
	mt_free(cache->readers);
}
