/* SPDX-License-Identifier: Apache-2.0 */
/*
 * map_cache.c -- where blocks of a volume lie at nodes, and of which of them that still holds
 *
 *	a read misses --> asked (CHUNK_MAP) --> told, page by page --> forgotten: the least recently read
 *	                   ^    dirty: none        dirty grows
 *	                   '--- many misses, or another owner, and no change is out
 *
 * A *window* is 4096 blocks, a quarter of a chunk. A map tells what was the newest version of each block at one moment
 * after it was asked for. Of other sessions' changes the lease keeps us (LEASES.md); of our own these rules do:
 *
 * 1. A change marks its blocks *dirty* when it is made into a message, before it is sent.
 * 2. A window is asked for only while no change of it is out, and no debt of the volume (debt.c): a change that was
 *    given up may yet take effect until that is paid. Then no block is dirty. What is marked from there on stays dirty
 *    until the window is asked for again, whenever the answer comes: it may be of before or after.
 * 3. A block is read by its map if it is not dirty, is named, and a lease of the map's epoch holds: when the read
 *    begins, and again when it has ended.
 * 4. A window is asked for again when it has missed often, no more than once a second; at once when its shard has
 *    another epoch, which makes all of it void; and, no more than once a second, when a node has not what it says. What
 *    was flushed since lies in runs, and the gateway says so with each read: after some of these it is asked soon.
 *
 * Pages of a window are asked for one behind the other. The later ones need no quiet moment: a change that was out then
 * was submitted after the first, and is dirty. They must be of the same epoch.
 *
 * Bounds: windows take bytes_max at most, beside those that are being asked for; a connection asks for one at a time.
 * Who has no memory, or no answer, reads at the gateway.
 */
#include "map_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/list.h"
#include "base/mutant.h"
#include "base/num.h"
#include "internal.h"
#include "map_page.h"

#define MAP_BLOCKS WIRE_MAP_BLOCKS_MAX
#define MAP_BYTES ((uint64_t)MAP_BLOCKS * CLEAVE_BLOCK_BYTES)
#define MAP_BUCKETS 4096u
#define MAPS_BYTES_DEFAULT NUM_MIB(64)
#define MAPS_AGAIN_NS NUM_S(1)
#define MAPS_MISS_MAX 32u
#define MAPS_SOON_PART                                                                             \
	16u /* of MAPS_AGAIN_NS: a window of which a map would tell more by now waits no longer */

_Static_assert(CLEAVE_CHUNK_BYTES % MAP_BYTES == 0, "a window is of one chunk");

struct map_window {
	struct loop_link bucket_link, lru_link;
	uint64_t index;  /* in the volume */
	bool is_out;     /* a connection asks for it */
	bool is_void;    /* is_out: what comes counts no more */
	bool is_doubted; /* a node has not what it says: to be asked for again */
	struct map_page *pages;
	uint32_t told_count; /* blocks that pages tell of, from the first on */
	uint32_t epoch;      /* of what they tell */
	uint32_t miss_count; /* reads since it was asked for, that it could not serve */
	uint32_t
	    mapped_count; /* of these, those of which the gateway says that it would serve them now */
	uint32_t asked_epoch;
	uint64_t asked_ns; /* 0: never */
	uint64_t serial;
	uint64_t dirty[MAP_BLOCKS / 64];
};

struct maps {
	struct maps_options options;
	uint64_t bytes, serial;
	uint64_t refused_ns; /* when a gateway would tell nothing; 0: none has */
	struct loop_link lru;
	struct loop_link buckets[MAP_BUCKETS];
};

/* ---- windows ---- */

static struct loop_link *
bucket_of(struct maps *maps, uint64_t index)
{
	return &maps->buckets[num_mix_u64(index) % MAP_BUCKETS];
}

/* NULL: there is none. */
static struct map_window *
window_find(struct maps *maps, uint64_t index)
{
	struct loop_link *bucket = bucket_of(maps, index), *link, *next;

	LIST_FOREACH_SAFE(bucket, link, next) {
		struct map_window *window = LIST_ENTRY(link, struct map_window, bucket_link);

		if (window->index == index)
			return window;
	}
	return NULL;
}

/* Nothing is told of it any more. */
static void
window_clear(struct maps *maps, struct map_window *window)
{
	struct map_page *page;

	while ((page = window->pages) != NULL) {
		window->pages = page->next;
		assert(maps->bytes >= page->bytes);
		maps->bytes -= page->bytes;
		free(page);
	}
	window->told_count = window->epoch = 0;
}

static void
window_free(struct maps *maps, struct map_window *window)
{
	assert(!window->is_out);
	window_clear(maps, window);
	list_remove(&window->bucket_link);
	list_remove(&window->lru_link);
	maps->bytes -= sizeof(*window);
	free(window);
}

/* The least recently read go, until the rest fit. @kept stays. */
static void
maps_trim(struct maps *maps, const struct map_window *kept)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&maps->lru, link, next) {
		struct map_window *window = LIST_ENTRY(link, struct map_window, lru_link);

		if (maps->bytes <= maps->options.bytes_max)
			return;
		if (window != kept && !window->is_out)
			window_free(maps, window);
	}
}

/* NULL: no memory. */
static struct map_window *
window_touch(struct maps *maps, uint64_t index)
{
	struct map_window *window = window_find(maps, index);

	if (window != NULL) {
		list_remove(&window->lru_link);
		list_push_back(&maps->lru, &window->lru_link);
		return window;
	}
	window = client_calloc(1, sizeof(*window));
	if (window == NULL)
		return NULL;
	window->index = index;
	maps->bytes += sizeof(*window);
	list_push_back(bucket_of(maps, index), &window->bucket_link);
	list_push_back(&maps->lru, &window->lru_link);
	maps_trim(maps, window);
	return window;
}

/* How many blocks of it the volume has. */
static uint32_t
window_block_count(const struct cleave_volume *volume, const struct map_window *window)
{
	uint64_t from_bytes = window->index * MAP_BYTES;

	assert(from_bytes < volume->info.size_bytes);
	return (uint32_t)(num_min(volume->info.size_bytes - from_bytes, MAP_BYTES) /
	    CLEAVE_BLOCK_BYTES);
}

static uint32_t
window_shard(const struct cleave_volume *volume, uint64_t index)
{
	uint64_t offset_bytes = index * MAP_BYTES;

	return wire_shard_of(volume->info.segment_base + offset_bytes / CLEAVE_SEGMENT_BYTES,
	    offset_bytes % CLEAVE_SEGMENT_BYTES, volume->client->map->shard_count);
}

/* ---- looking ---- */

static bool
window_is_dirty(const struct map_window *window, uint32_t block)
{
	return (window->dirty[block / 64] >> block % 64 & 1) != 0 && !MUTANT(map_dirty_ignored);
}

/* The page that tells of @block; NULL: none. */
static const struct map_page *
window_page(const struct map_window *window, uint32_t block)
{
	const struct map_page *page = window->pages;

	while (page != NULL && page->end <= block)
		page = page->next;
	return page;
}

static bool
window_is_leased(const struct cleave_volume *volume, const struct map_window *window,
    uint32_t shard)
{
	if (MUTANT(direct_lease_unjudged))
		return true;
	return MUTANT(map_epoch_ignored) ? leases_hold_any(volume, shard)
					 : leases_hold(volume, shard, window->epoch);
}

bool
maps_look(struct cleave_volume *volume, uint64_t offset_bytes, struct map_block *ret_block)
{
	struct maps *maps = volume->maps;
	uint32_t block = (uint32_t)(offset_bytes % MAP_BYTES / CLEAVE_BLOCK_BYTES), shard;
	const struct map_record *record = NULL;
	const struct map_window *window;
	const struct map_page *page;

	assert(offset_bytes < volume->info.size_bytes);
	if (maps == NULL || !volume_is_live(volume))
		return false;
	window = window_find(maps, offset_bytes / MAP_BYTES);
	shard = window_shard(volume, offset_bytes / MAP_BYTES);
	page = window == NULL ? NULL : window_page(window, block);
	if (page != NULL && !window_is_dirty(window, block))
		record = map_page_record(page, block);
	if (record == NULL || !window_is_leased(volume, window, shard))
		return false;
	*ret_block = (struct map_block){ .record = record,
		.in_record = record->first_block + (block - record->block),
		.shard = shard,
		.epoch = window->epoch,
		.serial = window->serial };
	if (record->source != WIRE_MAP_ZEROS) {
		ret_block->source = &page->sources[record->source];
		ret_block->block_crc = page->crcs[record->crcs_at + (block - record->block)];
	}
	return true;
}

bool
maps_are_leased(const struct cleave_volume *volume, uint64_t offset_bytes)
{
	return leases_hold_any(volume, window_shard(volume, offset_bytes / MAP_BYTES));
}

/* ---- asking ---- */

static bool
volume_has_change_in(const struct cleave_volume *volume, uint64_t from_bytes, uint64_t end_bytes)
{
	struct loop_link *link, *next;

	if (volume->debt_count > 0)
		return true;
	LIST_FOREACH_SAFE((struct loop_link *)&volume->messages, link, next) {
		const struct message *message = LIST_ENTRY(link, struct message, all_link);

		/* A question for holes changes nothing: messages that do come behind it. */
		if (message->is_write && !message->is_holes && message->offset_bytes < end_bytes &&
		    message->offset_bytes + message->length_bytes > from_bytes)
			return true;
	}
	return false;
}

static void
map_on_send(struct split_send *send, int rc, void *arg)
{
	struct connection *connection = arg;

	(void)send;
	(void)rc; /* a failure is followed by the connection's end */
	assert(connection->map.is_sending);
	connection->map.is_sending = false;
}

/* Asks for @window from block @from on; if that is 0, what it has goes. */
static void
window_ask(struct cleave_volume *volume, struct map_window *window, uint32_t shard, uint32_t from)
{
	struct connection *connection = volume_connection_of(volume, shard);
	uint64_t offset_bytes = window->index * MAP_BYTES + (uint64_t)from * CLEAVE_BLOCK_BYTES;
	struct connection_map *ask = connection == NULL ? NULL : &connection->map;

	if (ask == NULL || connection->sm.state != CONNECTION_UP || ask->is_out ||
	    ask->is_sending || connection->agreed_level < CLEAVE_LEVEL_READS)
		return;
	ask->request_id = ++volume->send_count << REQUEST_INDEX_BITS;
	wire_io_encode(&ask->header,
	    &(struct wire_io){ .opcode = WIRE_CHUNK_MAP,
		.service_class = (enum service_class)volume->info.service_class,
		.request_id = ask->request_id,
		.segment = volume->info.segment_base + offset_bytes / CLEAVE_SEGMENT_BYTES,
		.offset_bytes = offset_bytes % CLEAVE_SEGMENT_BYTES,
		.length_bytes =
		    (uint32_t)((window_block_count(volume, window) - from) * CLEAVE_BLOCK_BYTES),
		.epoch = volume->client->map->epoch_of_shard[shard],
		.vm_id = volume->client->options.vm_id });
	ask->send = (struct split_send){
		.header = &ask->header,
		.header_bytes = WIRE_HEADER_BYTES,
		.fn = map_on_send,
		.arg = connection,
	};
	ask->sent_boot_ns = leases_now_ns(volume);
	if (split_send(connection->qp, &ask->send) != 0)
		return; /* a full queue: again, when it is read again */
	ask->is_sending = ask->is_out = window->is_out = true;
	window->is_void = false;
	ask->window = window;
	if (from > 0)
		return;
	window_clear(volume->maps, window);
	window->asked_ns = loop_now_ns(volume->client->loop);
	window->asked_epoch = volume->client->map->epoch_of_shard[shard];
	window->serial = ++volume->maps->serial;
	window->miss_count = window->mapped_count = 0;
	window->is_doubted = false;
	memset(window->dirty, 0, sizeof(window->dirty));
}

/* Rule 4, and that of what was refused. */
static bool
window_is_due(const struct cleave_volume *volume, const struct map_window *window, uint32_t shard)
{
	const struct maps *maps = volume->maps;
	uint64_t now_ns = loop_now_ns(volume->client->loop);

	if (maps->refused_ns != 0 && now_ns - maps->refused_ns < maps->options.again_ns)
		return false;
	if (window->asked_ns == 0 ||
	    window->asked_epoch != volume->client->map->epoch_of_shard[shard])
		return true;
	if (window->mapped_count >= maps->options.miss_max &&
	    now_ns - window->asked_ns >= maps->options.again_ns / MAPS_SOON_PART)
		return true;
	return now_ns - window->asked_ns >= maps->options.again_ns &&
	    (window->told_count == 0 || window->is_doubted ||
		window->miss_count >= maps->options.miss_max);
}

/* May all of it, in one window, be read by its map? */
static bool
maps_have(struct cleave_volume *volume, uint64_t offset_bytes, uint64_t end_bytes)
{
	struct map_block block;

	for (; offset_bytes < end_bytes; offset_bytes += CLEAVE_BLOCK_BYTES)
		if (!maps_look(volume, offset_bytes, &block))
			return false;
	return true;
}

static void
maps_on_read(struct cleave_volume *volume, uint64_t offset_bytes, uint64_t length_bytes)
{
	uint64_t index = offset_bytes / MAP_BYTES;
	uint32_t shard = window_shard(volume, index);
	struct map_window *window;

	if (!leases_hold_any(volume, shard))
		return;
	window = window_touch(volume->maps, index);
	/* A read that goes on in the next window asks for that when it misses this one no more. */
	if (window == NULL || window->is_out ||
	    (!window->is_doubted &&
		maps_have(volume, offset_bytes,
		    num_min((index + 1) * MAP_BYTES, offset_bytes + length_bytes))))
		return;
	window->miss_count++;
	if (!window_is_due(volume, window, shard) ||
	    (volume_has_change_in(volume, index * MAP_BYTES, (index + 1) * MAP_BYTES) &&
		!MUTANT(map_cleared_under_write)))
		return;
	window_ask(volume, window, shard, 0);
}

static void
maps_on_change(struct maps *maps, uint64_t offset_bytes, uint64_t length_bytes)
{
	uint64_t end_bytes = offset_bytes + length_bytes;
	struct map_window *window = NULL;

	assert(num_is_aligned(offset_bytes | length_bytes, CLEAVE_BLOCK_BYTES));
	for (; offset_bytes < end_bytes; offset_bytes += CLEAVE_BLOCK_BYTES) {
		uint64_t index = offset_bytes / MAP_BYTES;
		uint32_t block = (uint32_t)(offset_bytes % MAP_BYTES / CLEAVE_BLOCK_BYTES);

		if (window == NULL || window->index != index)
			window = window_find(maps, index);
		if (window != NULL)
			window->dirty[block / 64] |= UINT64_C(1) << block % 64;
		else
			offset_bytes = (index + 1) * MAP_BYTES - CLEAVE_BLOCK_BYTES;
	}
}

void
maps_on_start(const struct message *message)
{
	struct cleave_volume *volume = message->volume;

	if (volume->maps == NULL)
		return;
	if (message->io->op == CLEAVE_READ)
		maps_on_read(volume, message->offset_bytes, message->length_bytes);
	else if (message->is_write && !message->is_holes)
		maps_on_change(volume->maps, message->offset_bytes, message->length_bytes);
}

void
maps_on_mapped(const struct message *message)
{
	struct cleave_volume *volume = message->volume;
	uint64_t index = message->offset_bytes / MAP_BYTES;
	struct map_window *window = volume->maps == NULL ? NULL : window_find(volume->maps, index);

	/* A read that was sent before it was asked for, or goes by it by now, tells nothing new. */
	if (window == NULL || window->is_out || message->sent_ns <= window->asked_ns ||
	    maps_have(volume, message->offset_bytes,
		num_min((index + 1) * MAP_BYTES, message->offset_bytes + message->length_bytes)))
		return;
	window->mapped_count++;
}

/* ---- an answer ---- */

static void
window_add_page(struct maps *maps, struct map_window *window, struct map_page *page)
{
	struct map_page **last = &window->pages;

	while (*last != NULL)
		last = &(*last)->next;
	*last = page;
	window->told_count = page->end;
	maps->bytes += page->bytes;
	maps_trim(maps, window);
}

/* False: it breaks the protocol. */
static bool
window_take(struct cleave_volume *volume, struct map_window *window,
    const struct wire_io_reply *reply)
{
	uint32_t left_count = window_block_count(volume, window) - window->told_count;
	uint32_t shard = window_shard(volume, window->index);
	struct map_page *page;
	int rc = map_page_create(volume->client->status, reply->payload_bytes, window->told_count,
	    left_count, &page);

	if (rc != 0)
		return rc != -EPROTO;
	if (window->told_count > 0 && window->epoch != reply->epoch) {
		window_clear(volume->maps, window); /* pages of two owners are no map */
		free(page);
		return true;
	}
	window->epoch = reply->epoch;
	window_add_page(volume->maps, window, page);
	if (window->told_count < window_block_count(volume, window) && volume_is_live(volume))
		window_ask(volume, window, shard, window->told_count);
	return true;
}

bool
maps_on_message(struct connection *connection, struct split_msg *msg)
{
	struct connection_map *ask = &connection->map;
	struct cleave_volume *volume = connection->volume;
	struct cleave_client *client = volume->client;
	struct map_window *window = ask->window;
	struct wire_io_reply reply;
	const char *field;

	if (wire_io_reply_decode(msg->header, &reply, &field) != 0 ||
	    reply.opcode != WIRE_CHUNK_MAP || !ask->is_out || reply.request_id != ask->request_id)
		return false;
	assert(volume->maps != NULL && window->is_out);
	ask->is_out = window->is_out = false;
	ask->window = NULL;
	leases_on_reply(volume, window_shard(volume, window->index), &reply, ask->sent_boot_ns);
	if (reply.rc == -ENOTSUP)
		volume->maps->refused_ns = loop_now_ns(client->loop);
	if (reply.rc != 0 || window->is_void)
		return true;
	dev_copy_to_host(client->port, client->status, msg->payload, reply.payload_bytes);
	if (crc32c(0, client->status, reply.payload_bytes) != reply.payload_crc) {
		CLIENT_STAT(client, checksum_errors, 1);
		return true;
	}
	return window_take(volume, window, &reply);
}

void
maps_on_closed(struct connection *connection)
{
	struct connection_map *ask = &connection->map;

	assert(!ask->is_sending);
	if (ask->is_out)
		ask->window->is_out = false;
	ask->is_out = false;
	ask->window = NULL;
}

/* ---- a volume's ---- */

void
maps_doubt(struct cleave_volume *volume, uint64_t offset_bytes, uint64_t serial, bool is_useless)
{
	struct map_window *window =
	    volume->maps == NULL ? NULL : window_find(volume->maps, offset_bytes / MAP_BYTES);

	if (window == NULL || window->serial != serial)
		return;
	window->is_doubted = true;
	window->is_void |= is_useless && window->is_out;
	if (is_useless)
		window_clear(volume->maps, window);
}

void
maps_forget(struct cleave_volume *volume)
{
	struct loop_link *link, *next;

	if (volume->maps == NULL)
		return;
	LIST_FOREACH_SAFE(&volume->maps->lru, link, next) {
		struct map_window *window = LIST_ENTRY(link, struct map_window, lru_link);

		window->is_void = true;
		if (!window->is_out)
			window_free(volume->maps, window);
	}
}

int
maps_want(struct cleave_volume *volume, const struct maps_options *options)
{
	struct maps *maps;

	assert(volume->sm.state == VOLUME_OPEN && volume->leases != NULL);
	maps = volume->maps != NULL ? volume->maps : client_calloc(1, sizeof(*maps));
	if (maps == NULL)
		return -ENOMEM;
	maps->options = *options;
	if (maps->options.bytes_max == 0)
		maps->options.bytes_max = MAPS_BYTES_DEFAULT;
	if (maps->options.again_ns == 0)
		maps->options.again_ns = MAPS_AGAIN_NS;
	if (maps->options.miss_max == 0)
		maps->options.miss_max = MAPS_MISS_MAX;
	if (volume->maps != NULL)
		return 0;
	list_init(&maps->lru);
	for (uint32_t i = 0; i < MAP_BUCKETS; i++)
		list_init(&maps->buckets[i]);
	volume->maps = maps;
	return 0;
}

uint64_t
maps_bytes(const struct cleave_volume *volume)
{
	return volume->maps == NULL ? 0 : volume->maps->bytes;
}

void
maps_fini(struct cleave_volume *volume)
{
	struct maps *maps = volume->maps;
	struct loop_link *link;

	if (maps == NULL)
		return;
	while ((link = list_first(&maps->lru)) != NULL) {
		struct map_window *window = LIST_ENTRY(link, struct map_window, lru_link);

		window->is_out = false; /* its connection is gone */
		window_free(maps, window);
	}
	assert(maps->bytes == 0);
	free(maps);
	volume->maps = NULL;
}
