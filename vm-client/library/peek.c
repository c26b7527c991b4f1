/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peek.c -- a READ of one block that is hot: made out of the gateway's memory, by a one-sided read (cleave/hot.h)
 *
 *	message --a lease holds, and the page's tags have the block--> PEEKING: head and block come into its staging
 *	   ^                                                               |
 *	   |  another block, hidden, torn; the lease did not last          v
 *	   '------------------------------------------- is it the block, all of it, and does the lease hold now? --> caller
 *
 * Which slot has a block is known by the tags of its page, which are read one-sided, too, and may be old: a slot is
 * believed by its head alone. The head is of one moment, within the read: it was shown then, so no newer change had been
 * acknowledged by that owner. The lease, which is judged when all else is, says that nobody else's had (LEASES.md). It
 * must be of the head's epoch: the lease of a newer owner says nothing about what an older one shows. Nor is a block
 * read so while a change of it, by the same volume's session, is on its way: a newer owner may have decided that it
 * happened, and shown it to others, before it is answered here.
 *
 * Where anything is in doubt the message is read as others are: at nodes, or at its gateway. That costs time, never truth.
 * One read in HOT_TELL_PART goes to the gateway, which counts it as so many: so what is hot stays hot.
 *
 * The slot comes into the message's device memory, which is the library's until the read has ended. A one-sided read
 * cannot be taken back; so a message that is given up closes its connection, as one that was sent does. Such reads end
 * before their connection has (qp_life.c).
 */
#include "peek.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/mutant.h"
#include "base/num.h"
#include "internal.h"
#include "message_payload.h"

#define PEEK_FETCHES_MAX 8u /* of a volume, at a time */
#define PEEK_MISSES_MAX 32u
#define PEEK_AGAIN_NS NUM_MS(250)

_Static_assert(HOT_SLOT_BYTES <= CLIENT_MESSAGE_BYTES_MAX, "a slot fits a message's memory");

struct peek_page {
	struct dev_remote remote;
	uint64_t fetched_ns; /* when its tags were asked for last; 0: never */
	uint32_t miss_count; /* reads since then of blocks that its tags do not have */
	uint32_t tags[HOT_PAGE_SLOTS];
};

/* Tags that are being read. */
struct peek_fetch {
	struct peeks *peeks;
	struct connection *connection; /* NULL: free */
	uint32_t serial, page_index;
	dev_ptr to;
};

struct peeks {
	struct cleave_volume *volume;
	struct peeks_options options;
	dev_ptr memory;
	struct peek_fetch fetches[PEEK_FETCHES_MAX];
};

/* Where a block is, if its page has it. */
struct peek_place {
	uint64_t segment, hash;
	uint32_t block; /* of the segment */
	uint32_t shard;
	struct peek_page *page;
	uint32_t *tag; /* of the slot; NULL: no tag is the block's */
};

/* ---- tags ---- */

static void
fetch_on_read(const struct dev_completion *completion, void *arg)
{
	struct peek_fetch *fetch = arg;
	struct connection *connection = fetch->connection;
	struct cleave_client *client = fetch->peeks->volume->client;
	uint8_t bytes[HOT_PAGE_TAG_BYTES];
	struct peek_page *page;

	assert(connection != NULL);
	fetch->connection = NULL;
	if (client->is_destroying)
		return;
	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (fetch->serial != connection->peek.serial)
		return; /* of pages that are others' by now */
	if (completion->rc != 0) {
		peeks_forget(connection);
		return;
	}
	dev_copy_to_host(client->port, bytes, fetch->to, sizeof(bytes));
	page = &connection->peek.pages[fetch->page_index];
	for (uint32_t i = 0; i < HOT_PAGE_SLOTS; i++)
		page->tags[i] = num_get_le32(bytes + i * sizeof(uint32_t));
}

static struct peek_fetch *
fetch_free(struct peeks *peeks)
{
	for (uint32_t i = 0; i < PEEK_FETCHES_MAX; i++) {
		if (peeks->fetches[i].connection == NULL)
			return &peeks->fetches[i];
	}
	return NULL;
}

static bool
fetch_is_due(const struct peeks *peeks, const struct peek_page *page, uint64_t now_ns)
{
	return page->fetched_ns == 0 ||
	    (page->miss_count >= peeks->options.miss_max &&
		now_ns - page->fetched_ns >= peeks->options.again_ns);
}

/* A block was not in the tags of @page: they may be old. */
static void
page_missed(struct connection *connection, struct peek_page *page)
{
	struct peeks *peeks = connection->volume->peeks;
	struct peek_fetch *fetch = fetch_free(peeks);
	uint64_t now_ns = loop_now_ns(connection->volume->client->loop);
	struct dev_event *event;

	page->miss_count++;
	if (fetch == NULL || !fetch_is_due(peeks, page, now_ns))
		return;
	event = dev_read(connection->qp, fetch->to, HOT_PAGE_TAG_BYTES, &page->remote, 0);
	if (event == NULL)
		return; /* too much is under way: again, later */
	page->fetched_ns = now_ns;
	page->miss_count = 0;
	fetch->connection = connection;
	fetch->serial = connection->peek.serial;
	fetch->page_index = (uint32_t)(page - connection->peek.pages);
	dev_event_on(event, fetch_on_read, fetch);
}

/* ---- where a block may be ---- */

static struct peek_place
place_of(const struct message *message)
{
	const struct cleave_volume *volume = message->volume;
	struct peek_place place = {
		.segment = volume->info.segment_base + message->offset_bytes / CLEAVE_SEGMENT_BYTES,
		.block =
		    (uint32_t)(message->offset_bytes % CLEAVE_SEGMENT_BYTES / CLEAVE_BLOCK_BYTES),
		.shard = volume_shard_of(volume, message->offset_bytes),
	};

	place.hash = wire_hot_hash(place.segment, place.block);
	return place;
}

/* @place's page, and its slot there, as @connection knows them, which has pages. */
static void
place_find(struct connection *connection, struct peek_place *place)
{
	uint32_t set = wire_hot_set(place->hash, connection->peek.page_count * HOT_PAGE_SETS);
	uint32_t tag = wire_hot_tag(place->hash), at = set % HOT_PAGE_SETS * HOT_WAYS;

	assert(connection->peek.page_count > 0);
	place->page = &connection->peek.pages[set / HOT_PAGE_SETS];
	place->tag = NULL;
	for (uint32_t i = at; i < at + HOT_WAYS && place->tag == NULL; i++) {
		if (place->page->tags[i] == tag)
			place->tag = &place->page->tags[i];
	}
}

/* ---- a read ---- */

enum peek_verdict {
	PEEK_GOOD,
	PEEK_ELSEWHERE, /* the slot is hidden, or another block's */
	PEEK_TORN,      /* bytes of several moments */
	PEEK_UNLEASED,  /* it may have changed */
};

/* Is there a lease on what an owner of @epoch shows, at this moment? */
static bool
peek_is_leased(const struct cleave_volume *volume, uint32_t shard, uint32_t epoch)
{
	if (MUTANT(hot_lease_unjudged))
		return true;
	return MUTANT(hot_epoch_ignored) ? leases_hold_any(volume, shard)
					 : leases_hold(volume, shard, epoch);
}

static bool
peek_is_named(const struct wire_hot_head *head, const struct cleave_volume *volume,
    const struct peek_place *place)
{
	return (head->volume == volume->info.id && head->segment == place->segment &&
		   head->block == place->block && head->shard == place->shard) ||
	    MUTANT(hot_name_ignored);
}

/* Is it right, what has come into @message's memory? The lease is the last thing that is looked at. */
static enum peek_verdict
peek_judge(const struct message *message, const struct peek_place *place)
{
	const struct cleave_client *client = message->client;
	uint8_t bytes[HOT_HEAD_BYTES];
	struct wire_hot_head head;

	dev_copy_to_host(client->port, bytes, message->staging, sizeof(bytes));
	if (wire_hot_head_decode(bytes, &head) != 0)
		return (bytes[0] & 1) == 0 ? PEEK_ELSEWHERE : PEEK_TORN;
	if (!peek_is_named(&head, message->volume, place))
		return PEEK_ELSEWHERE;
	if (!cleave_payload_is(message, dev_ptr_add(message->staging, HOT_HEAD_BYTES),
		head.block_crc) &&
	    !MUTANT(hot_torn_accepted))
		return PEEK_TORN;
	return peek_is_leased(message->volume, place->shard, head.epoch) ? PEEK_GOOD
									 : PEEK_UNLEASED;
}

static void
peek_fall_back(struct message *message)
{
	CLIENT_STAT(message->client, hot_fallbacks, 1);
	message->connection = NULL;
	if (direct_start(message))
		sm_move(&message->sm, MESSAGE_DIRECT);
	else
		message_route(message);
}

static void
peek_finish(struct message *message)
{
	struct connection *connection = message->connection;
	struct peek_place place = place_of(message);
	enum peek_verdict verdict = peek_judge(message, &place);

	if (verdict == PEEK_GOOD) {
		CLIENT_STAT(message->client, hot_reads, 1);
		connection->peek.untold_count++;
		cleave_payload_peeked(message, dev_ptr_add(message->staging, HOT_HEAD_BYTES));
		message_on_direct(message);
		return;
	}
	CLIENT_STAT(message->client, hot_torn, verdict == PEEK_TORN);
	if (verdict == PEEK_ELSEWHERE && connection->peek.page_count > 0) {
		/* The next one that wants the block asks the gateway at once. */
		place_find(connection, &place);
		if (place.tag != NULL)
			*place.tag = 0;
		page_missed(connection, place.page);
	}
	peek_fall_back(message);
}

static void
peek_on_read(const struct dev_completion *completion, void *arg)
{
	struct message *message = arg;

	CHECK_OBJ(message, MESSAGE_MAGIC);
	assert(message->sm.state == MESSAGE_PEEKING && message->is_peeking);
	if (message->client->is_destroying)
		return;
	message->is_peeking = false;
	list_remove(&message->queue_link);
	if (message->is_given_up) {
		message_give_up(message, message->rc);
		return;
	}
	if (completion->rc == 0) {
		peek_finish(message);
		return;
	}
	if (completion->rc == -EKEYREVOKED)
		peeks_forget(message->connection);
	peek_fall_back(message);
}

/* A sample goes to the gateway. */
static bool
peek_is_a_sample(struct connection *connection)
{
	struct connection_peek *peek = &connection->peek;

	if (peek->until_told > 0) {
		peek->until_told--;
		return false;
	}
	peek->until_told = HOT_TELL_PART - 1;
	return true;
}

/* The connection that has pages for a lease on @shard; NULL: there is none, or it is no time to use it. */
static struct connection *
peek_connection(struct cleave_volume *volume, uint32_t shard)
{
	struct connection *connection = volume_connection_of(volume, shard);

	if (connection == NULL || connection->sm.state != CONNECTION_UP ||
	    connection->peek.page_count == 0)
		return NULL;
	return leases_hold_any(volume, shard) || MUTANT(hot_lease_unjudged) ? connection : NULL;
}

bool
peek_start(struct message *message)
{
	struct cleave_volume *volume = message->volume;
	struct connection *connection;
	struct peek_place place;
	struct dev_event *event;

	if (volume->peeks == NULL || message->io->op != CLEAVE_READ ||
	    message->length_bytes != CLEAVE_BLOCK_BYTES)
		return false;
	leases_use(volume);
	if (overlap_meets(&volume->overlap, message) && !MUTANT(hot_change_ignored))
		return false;
	place = place_of(message);
	connection = peek_connection(volume, place.shard);
	if (connection == NULL)
		return false;
	place_find(connection, &place);
	if (place.tag == NULL) {
		CLIENT_STAT(message->client, hot_misses, 1);
		page_missed(connection, place.page);
		return false;
	}
	if (peek_is_a_sample(connection))
		return false;
	event = dev_read(connection->qp, message->staging, HOT_SLOT_BYTES, &place.page->remote,
	    wire_hot_at((uint32_t)(place.tag - place.page->tags)));
	if (event == NULL)
		return false;
	message->connection = connection;
	message->is_peeking = true;
	message->sent_ns = loop_now_ns(message->client->loop);
	list_push_back(&connection->peek.out, &message->queue_link);
	connection_watch(connection);
	dev_event_on(event, peek_on_read, message);
	return true;
}

uint64_t
peek_oldest_ns(struct connection *connection)
{
	struct loop_link *link = list_first(&connection->peek.out);

	return link == NULL ? UINT64_MAX : LIST_ENTRY(link, struct message, queue_link)->sent_ns;
}

/* ---- pages ---- */

void
peeks_forget(struct connection *connection)
{
	free(connection->peek.pages);
	connection->peek.pages = NULL;
	connection->peek.serial++;
	connection->peek.page_count = 0;
	connection->peek.generation = 0;
}

bool
peeks_take(struct connection *connection, const struct wire_lease_head *head, const uint8_t *bytes)
{
	struct connection_peek *peek = &connection->peek;
	struct peek_page *pages;
	const char *field;

	if (head->page_count == 0) {
		/* The same as ever; or there is none. */
		if (head->generation != peek->generation)
			peeks_forget(connection);
		return true;
	}
	if (connection->volume->peeks == NULL)
		return false;
	peeks_forget(connection);
	pages = client_calloc(head->page_count, sizeof(*pages));
	if (pages == NULL)
		return true;
	for (uint32_t i = 0; i < head->page_count; i++) {
		if (wire_hot_page_decode(bytes + i * DEV_REMOTE_BYTES, &pages[i].remote, &field) !=
		    0) {
			free(pages);
			return false;
		}
	}
	peek->pages = pages;
	peek->page_count = head->page_count;
	peek->generation = head->generation;
	return true;
}

/* ---- a volume's ---- */

static struct peeks *
peeks_create(struct cleave_volume *volume)
{
	struct peeks *peeks = client_calloc(1, sizeof(*peeks));

	if (peeks == NULL)
		return NULL;
	peeks->volume = volume;
	peeks->memory =
	    dev_alloc(volume->client->port, (size_t)PEEK_FETCHES_MAX * HOT_PAGE_TAG_BYTES);
	if (dev_ptr_is_null(peeks->memory)) {
		free(peeks);
		return NULL;
	}
	for (uint32_t i = 0; i < PEEK_FETCHES_MAX; i++)
		peeks->fetches[i] = (struct peek_fetch){ .peeks = peeks,
			.to = dev_ptr_add(peeks->memory, (uint64_t)i * HOT_PAGE_TAG_BYTES) };
	return peeks;
}

int
peeks_want(struct cleave_volume *volume, const struct peeks_options *options)
{
	assert(volume->sm.state == VOLUME_OPEN);
	if (leases_want(volume, true) != 0)
		return -ENOMEM;
	if (volume->peeks == NULL)
		volume->peeks = peeks_create(volume);
	if (volume->peeks == NULL)
		return -ENOMEM;
	volume->peeks->options = *options;
	num_default_u64(&volume->peeks->options.again_ns, PEEK_AGAIN_NS);
	num_default_u32(&volume->peeks->options.miss_max, PEEK_MISSES_MAX);
	return 0;
}

void
peeks_fini(struct cleave_volume *volume)
{
	struct peeks *peeks = volume->peeks;

	if (peeks == NULL)
		return;
	if (!volume->client->is_destroying) /* its port is gone, then */
		dev_free(volume->client->port, peeks->memory);
	free(peeks);
	volume->peeks = NULL;
}
