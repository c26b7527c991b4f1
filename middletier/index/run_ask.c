/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_ask.c -- reads the heads of a run's batches, from any replica of its extent
 *
 *	         a reader is free           the last head has passed, or no copy is good
 *	QUEUED ------------------> READING ------------------------------------------> ENDED
 *	     ^                      |   ^  |  the next head; another copy                 (told from the loop)
 *	     |                      |   +--+
 *	     +------ WAITING <------+  no copy can be read now: a little later, until the node time-out
 *
 *	           no directory that is on the nodes that are there is good
 *	QUEUED <-----------------------------------------------+
 *	                                                       |   all pages are there, or a page cannot be had
 *	                                                   GATHERING ---------------------------------> ENDED
 *
 * Heads are read one after the other (run_heads.c says what they are). Each head is taken from any copy
 * that passes: one that was bad for a batch may be good for the next. A load of a page, of a run whose directory is
 * known, reads a single head, and one of a directory the batch that is it. The whole index of such a run is gathered:
 * pages that are missing are loaded side by side (run_load.c).
 *
 * What is out at a node when its load ends goes on in its reader, which nobody else waits for. run_load.c says who waits.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/alloc.h"
#include "common/metric.h"
#include "common/port.h"
#include "common/replica.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/choose.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "extent/node_error.h"
#include "extent/node_link.h"
#include "index/index.h"
#include "index/run_ask.h"
#include "index/run_dir.h"
#include "index/run_heads.h"
#include "index/run_index.h"
#include "index/run_load.h"

#define RUN_TICK_NS NUM_MS(50)

const struct sm_state mt_run_load_table[RUN_LOAD_STATE_NR] = {
	[RUN_LOAD_QUEUED] = { "queued", SM_TO(RUN_LOAD_READING) | SM_TO(RUN_LOAD_ENDED),
	    SM_INITIAL },
	[RUN_LOAD_READING] = { "reading", SM_TO(RUN_LOAD_WAITING) | SM_TO(RUN_LOAD_ENDED), 0 },
	[RUN_LOAD_WAITING] = { "waiting", SM_TO(RUN_LOAD_QUEUED) | SM_TO(RUN_LOAD_ENDED), 0 },
	[RUN_LOAD_GATHERING] = { "gathering", SM_TO(RUN_LOAD_QUEUED) | SM_TO(RUN_LOAD_ENDED),
	    SM_INITIAL },
	[RUN_LOAD_ENDED] = { "ended", 0, SM_FINAL },
};

static struct mt_run_cache *
cache_of(const struct mt_run_load *load)
{
	return load->shard->port->run_cache;
}

static void
load_move(struct mt_run_load *load, enum run_load_state state, struct loop_link *list)
{
	sm_move(&load->sm, state);
	list_remove(&load->link);
	list_push_back(list, &load->link);
}

/* ---- ends ---- */

void
mt_run_load_finish(struct mt_run_load *load, int rc)
{
	struct mt_run_cache *cache = cache_of(load);

	assert(load->sm.state != RUN_LOAD_ENDED);
	assert(rc <= 0);
	load->rc = rc;
	if (load->reader != NULL)
		load->reader->load = NULL;
	load->reader = NULL;
	load_move(load, RUN_LOAD_ENDED, &cache->ended);
	loop_defer(cache->port->loop, &cache->end_task);
}

void
mt_run_load_queue(struct mt_run_load *load)
{
	assert(load->page == MT_RUN_WHOLE);
	load_move(load, RUN_LOAD_QUEUED, &cache_of(load)->queued);
}

static void
load_complete_directory(struct mt_run_load *load)
{
	mt_run_load_finish(load, 0);
	mt_run_cache_put_dir(load->run, mt_run_heads_end_directory(&load->heads));
	metric_add(&load->shard->port->metrics[MT_METRIC_run_directories_loaded], 1);
}

/* All heads are there. */
static void
load_complete(struct mt_run_load *load)
{
	uint64_t *metrics = load->shard->port->metrics;
	struct mt_run_index *index;

	assert(mt_run_heads_are_over(&load->heads));
	assert(load->reader == NULL);
	if (load->page == MT_RUN_DIRECTORY) {
		load_complete_directory(load);
		return;
	}
	index = mt_run_heads_end(&load->heads);
	mt_run_load_finish(load, index == NULL ? -ENOMEM : 0);
	if (index == NULL)
		return;
	if (load->page == MT_RUN_WHOLE) {
		mt_run_cache_put(load->run, index);
		metric_add(&metrics[MT_METRIC_run_indexes_loaded], 1);
		return;
	}
	metric_add(&metrics[MT_METRIC_run_pages_loaded], 1);
	if (load->heads.glimpse_count == 0) {
		mt_run_cache_put_page(load->run, load->page, index);
		return;
	}
	index->run = load->run;
	index->page = load->page;
	load->glimpse = index;
}

/* ---- asking ---- */

static void load_ask(struct mt_run_load *load);

void
mt_run_loads_go_on(struct mt_run_cache *cache)
{
	while (!list_is_empty(&cache->queued) && !list_is_empty(&cache->free_readers)) {
		struct mt_run_load *load = mt_run_load_of(list_first(&cache->queued));
		struct loop_link *link = list_pop_front(&cache->free_readers);

		load->reader = LIST_ENTRY(link, struct run_reader, link);
		load->reader->load = load;
		load_move(load, RUN_LOAD_READING, &cache->reading);
		load_ask(load);
	}
}

static void
reader_free(struct run_reader *reader)
{
	assert(!list_contains(&reader->link));
	reader->load = NULL;
	reader->shard = NULL;
	list_push_back(&reader->cache->free_readers, &reader->link);
}

/* READING, with nothing out: its reader is for others. */
static void
load_let_go(struct mt_run_load *load)
{
	assert(load->sm.state == RUN_LOAD_READING);
	assert(load->reader->load == load);
	reader_free(load->reader);
	load->reader = NULL;
}

static struct mt_extent *
load_extent(const struct mt_run_load *load)
{
	return mt_shard_extent(load->shard, load->run->extent_index);
}

/* Nobody is left to ask for this head. */
static void
load_give_up(struct mt_run_load *load, const struct mt_extent *extent)
{
	struct mt_run_cache *cache = cache_of(load);

	load_let_go(load);
	if (extent == NULL || mt_chooser_is_hopeless(&load->chooser, extent->replica_count)) {
		mt_run_load_finish(load, -EBADMSG);
		return;
	}
	/* Heads may be good where the directory is bad. One copy is not believed that it is: who hides blocks may say so. */
	if (load->page == MT_RUN_DIRECTORY &&
	    mt_chooser_bad_count(&load->chooser) >= num_max(extent->replica_count - 1u, 1)) {
		mt_run_load_finish(load, -ENODATA);
		return;
	}
	if (loop_now_ns(cache->port->loop) >= load->deadline_ns) {
		mt_run_load_finish(load, -EHOSTDOWN);
		return;
	}
	mt_chooser_retry(&load->chooser);
	load_move(load, RUN_LOAD_WAITING, &cache->waiting);
	if (!cache->tick_timer.is_active)
		loop_timer_start(cache->port->loop, &cache->tick_timer, RUN_TICK_NS);
}

static void run_on_read(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg);

/* May @node be asked to look the blocks up, and send their frames along? */
static bool
load_may_find(const struct mt_run_load *load, const struct mt_link *node)
{
	return load->block_count > 0 && node->agreed_level >= CLEAVE_LEVEL_FIND;
}

static void
load_make_request(const struct mt_run_load *load, const struct mt_extent *extent,
    const struct mt_link *node)
{
	struct wire_node *request = &load->reader->call.request;

	*request = (struct wire_node){ .opcode = WIRE_EXTENT_READ,
		.id = extent->id,
		.offset_bytes = load->heads.at_bytes,
		.length_bytes = load->reader->bytes,
		.epoch = load->shard->epoch };
	if (!load_may_find(load, node))
		return;
	request->opcode = WIRE_EXTENT_FIND;
	request->block = (uint16_t)load->block;
	request->block_count = (uint16_t)load->block_count;
}

/* READING, with nothing out. */
static void
load_ask(struct mt_run_load *load)
{
	struct mt_extent *extent = load_extent(load);
	struct run_reader *reader = load->reader;

	assert(load->sm.state == RUN_LOAD_READING);
	while (extent != NULL) {
		struct mt_copies copies = mt_extent_copies(extent);
		struct mt_link *node;
		int index;

		/* A short read's, with the frames that it wants. */
		if (load->block_count > 0 && load->block_count <= RUN_JOIN_BLOCKS_MAX)
			copies.turn = &cache_of(load)->ask_turn;
		index = mt_chooser_pick(&load->chooser, extent->shard->port, &copies, &node);
		if (index < 0)
			break;
		reader->replica_index = (uint8_t)index;
		reader->bytes = mt_run_heads_ask_bytes(&load->heads);
		load_make_request(load, extent, node);
		reader->call.fn = run_on_read;
		reader->call.arg = reader;
		if (mt_link_call(node, &reader->call) == 0) {
			reader->shard = load->shard;
			return;
		}
		mt_chooser_note_failed(&load->chooser, (uint32_t)index);
	}
	load_give_up(load, extent);
}

void
mt_run_loads_on_tick(struct loop_timer *timer, void *arg)
{
	struct mt_run_cache *cache = arg;

	(void)timer;
	while (!list_is_empty(&cache->waiting))
		load_move(mt_run_load_of(list_first(&cache->waiting)), RUN_LOAD_QUEUED,
		    &cache->queued);
	mt_run_loads_go_on(cache);
}

/* ---- an answer ---- */

static void
load_note_error(struct mt_run_load *load, const struct run_reader *reader, int rc)
{
	struct mt_extent *extent = load_extent(load);
	uint32_t node_id = reader->call.node->node_id;
	char text[MT_EXTENT_TEXT_BYTES] = "gone";

	assert(rc < 0);
	metric_add(&load->shard->port->metrics[MT_METRIC_replica_read_errors], 1);
	mt_chooser_note_failed(&load->chooser, reader->replica_index);
	if (!mt_is_copy_bad(rc))
		return;
	metric_add(&load->shard->port->metrics[MT_METRIC_repairs_queued], 1);
	mt_chooser_note_bad(&load->chooser, reader->replica_index);
	if (extent != NULL) {
		mt_extent_suspect(extent, node_id);
		(void)mt_extent_text(extent, text);
	}
	log_limited(LOG_WARN,
	    "run: bad head node=%" PRIu32 " extent=%s offset_bytes=%" PRIu32 " chunk=%" PRIu64
	    " rc=%s",
	    node_id, text, load->heads.at_bytes, load->run->chunk->number, log_errno(rc));
}

/* The answer has come, and its reader is free for the next question. */
static void
load_on_head(struct mt_run_load *load, int rc)
{
	struct mt_port *port = load->shard->port;

	assert(load->sm.state == RUN_LOAD_READING);
	if (rc != 0)
		load->block_count = 0; /* the head alone, from now on */
	if (rc == 0) {
		mt_chooser_reset(&load->chooser);
		load->deadline_ns = loop_now_ns(port->loop) + port->settings->node_timeout_ns;
	} else if (rc == -ENOMEM) {
		load_let_go(load);
		mt_run_load_finish(load, rc);
		return;
	} else if (rc != -EAGAIN) { /* else more of it is asked for, of whichever copy */
		load_note_error(load, load->reader, rc);
		mt_run_heads_distrust(&load->heads);
	}
	if (!mt_run_heads_are_over(&load->heads)) {
		load_ask(load);
		return;
	}
	load_let_go(load);
	load_complete(load);
}

/*
 * A page's head is there: is it worth more than a glimpse? It is where several wait for it, or the run's whole index does,
 * or it is to be kept.
 */
static void
load_choose_glimpse(struct mt_run_load *load)
{
	const struct loop_link *waiters = &load->waiters;
	bool is_glimpse = load->block_count > 0 && load->run->load == NULL &&
	    waiters->next != waiters && waiters->next->next == waiters &&
	    !mt_run_cache_admits(cache_of(load), load->run, load->page);

	if (load->page < MT_RUN_DIRECTORY)
		mt_run_heads_glimpse(&load->heads, load->block, is_glimpse ? load->block_count : 0);
}

/* The head has passed, and the load ends: what came with it is for who has asked. False: nothing came. */
static bool
load_keep_found(struct mt_run_load *load, const struct wire_node_reply *reply,
    struct split_msg *msg)
{
	const struct run_reader *reader = load->reader;

	if (reply->opcode != WIRE_EXTENT_FIND || msg->payload_bytes == reader->bytes)
		return false;
	assert(load->found.msg == NULL);
	metric_add(&load->shard->port->metrics[MT_METRIC_run_pages_found], 1);
	load->found = (struct mt_run_found){ .msg = msg,
		.skip_bytes = reader->bytes,
		.offset_bytes = (uint32_t)reply->offset_bytes,
		.extent_index = load->run->extent_index,
		.extent = extent_id_pack(&reader->call.request.id),
		.node = reader->call.node,
		.replica_index = reader->replica_index,
		.took_ns = loop_now_ns(reader->cache->port->loop) - reader->call.sent_ns };
	return true;
}

static void
run_on_read(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct run_reader *reader = arg;
	struct mt_run_cache *cache = reader->cache;
	struct mt_run_load *load = reader->load;

	assert(call == &reader->call);
	reader->shard = NULL;
	if (rc == 0 &&
	    (msg == NULL ||
		(call->request.opcode == WIRE_EXTENT_READ && msg->payload_bytes != reader->bytes)))
		rc = -EMSGSIZE;
	/* The extent has gone: so has its run, in a moment. */
	if (rc == 0 && load != NULL && load_extent(load) == NULL)
		rc = -ENOENT;
	if (rc == 0 && load != NULL) {
		uint32_t bytes = (uint32_t)num_min(reader->bytes, BATCH_HEAD_BYTES_MAX);

		load_choose_glimpse(load);
		dev_copy_to_host(cache->port->split, cache->head, msg->payload, bytes);
		rc = mt_run_heads_take(&load->heads, &load_extent(load)->id, cache->head, bytes);
		if (rc == 0 && load_keep_found(load, reply, msg))
			msg = NULL;
	}
	if (msg != NULL)
		split_msg_release(msg);
	if (load != NULL)
		load_on_head(load, rc);
	else
		reader_free(reader);
	mt_run_loads_go_on(cache);
}
