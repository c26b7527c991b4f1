/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.c -- read leases of a volume's session: until when it may read a shard's blocks by itself
 *
 *	request sent ............................ its answer, LEASED
 *	|-- 7/8 of what a lease lasts: it may read by itself -->|
 *
 * A lease is of a shard under one epoch. It counts from when its request was sent: the gateway cannot have granted
 * it before that, and whoever waits for its end counts from the answer. An eighth is kept for clocks that drift apart.
 * The clock is the host's since it booted, which goes on while it is suspended.
 *
 * LEASE goes out first on each connection, so that answers carry leases (and asks for pages, where peek.c reads them); later ones go out twice in a lease, for
 * connections on which nothing else is said: as long as the volume is open, or, where reads are what uses them
 * (leases_use), until LEASE_USED_NS after the last of these. All of it happens only for a volume that leases_want was
 * called for.
 *
 * A volume that is closed returns its leases, and waits for the answers, or until they would be over: the next session
 * is then let in at once.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/mutant.h"
#include "internal.h"

#define LEASE_DRIFT_PART 8u
#define LEASE_USED_NS NUM_S(2)

struct lease {
	uint32_t epoch;    /* 0: there has been none */
	uint64_t until_ns; /* of loop_now_boot_ns */
};

struct leases {
	struct cleave_volume *volume;
	uint64_t length_ns;   /* as gateways say it; 0: none has */
	bool is_returning;    /* nothing is read by leases any more, and none is taken */
	bool is_parting_over; /* ... and the answers were waited for */
	bool is_kept;         /* they are renewed whether they are used or not */
	uint64_t used_ns;     /* of the loop's clock */
	struct loop_timer timer;
	uint32_t shard_count;
	struct lease of[]; /* by shard */
};

/* ---- what it has ---- */

static void
lease_take(struct leases *leases, uint32_t shard, uint32_t epoch, uint64_t sent_boot_ns)
{
	struct lease *lease = &leases->of[shard];
	uint64_t until_ns = sent_boot_ns + leases->length_ns - leases->length_ns / LEASE_DRIFT_PART;

	assert(shard < leases->shard_count);
	if (leases->is_returning || epoch < lease->epoch)
		return;
	if (epoch > lease->epoch)
		*lease = (struct lease){ .epoch = epoch };
	lease->until_ns = num_max(lease->until_ns, until_ns);
}

uint64_t
leases_now_ns(const struct cleave_volume *volume)
{
	return volume->leases == NULL ? 0 : loop_now_boot_ns(volume->client->loop);
}

bool
leases_hold(const struct cleave_volume *volume, uint32_t shard, uint32_t epoch)
{
	const struct leases *leases = volume->leases;

	if (leases == NULL || shard >= leases->shard_count)
		return false;
	return leases->of[shard].epoch == epoch &&
	    leases_now_ns(volume) < leases->of[shard].until_ns;
}

bool
leases_hold_any(const struct cleave_volume *volume, uint32_t shard)
{
	return volume->leases != NULL && shard < volume->leases->shard_count &&
	    leases_hold(volume, shard, volume->leases->of[shard].epoch);
}

/* Owners before do not show what a newer one did: their leases are no use any more. */
static void
lease_end_older(struct leases *leases, uint32_t shard, const struct wire_io_reply *reply)
{
	struct lease *lease = &leases->of[shard];

	if (reply->rc == 0 && reply->epoch > lease->epoch)
		*lease = (struct lease){ .epoch = reply->epoch };
}

void
leases_on_reply(struct cleave_volume *volume, uint32_t shard, const struct wire_io_reply *reply,
    uint64_t sent_boot_ns)
{
	struct leases *leases = volume->leases;

	if (leases == NULL || shard >= leases->shard_count)
		return;
	if (reply->is_leased && leases->length_ns != 0)
		lease_take(leases, shard, reply->epoch,
		    MUTANT(read_lease_from_answer) ? leases_now_ns(volume) : sent_boot_ns);
	else
		lease_end_older(leases, shard, reply);
}

/* ---- LEASE ---- */

static void lease_ask(struct connection *connection, bool is_return);

static void
lease_on_send(struct split_send *send, int rc, void *arg)
{
	struct connection *connection = arg;

	(void)send;
	(void)rc; /* a failure is followed by the connection's end */
	assert(connection->lease.is_sending);
	connection->lease.is_sending = false;
	if (connection->lease.must_return && !connection->volume->client->is_destroying) {
		connection->lease.must_return = false;
		lease_ask(connection, true);
	}
}

/* A connection has one under way: what goes unanswered ends with the connection. */
static void
lease_ask(struct connection *connection, bool is_return)
{
	struct connection_lease *lease = &connection->lease;
	struct cleave_volume *volume = connection->volume;
	struct wire_lease request = { .is_return = is_return };
	struct wire_header *header;

	CHECK_OBJ(connection, CONNECTION_MAGIC);
	if (connection->sm.state != CONNECTION_UP ||
	    connection->agreed_level < CLEAVE_LEVEL_READS || (lease->is_out && !is_return))
		return;
	if (lease->is_sending) {
		lease->must_return = is_return;
		return;
	}
	lease->request_id = ++volume->send_count << REQUEST_INDEX_BITS;
	request.request_id = lease->request_id;
	if (!is_return && volume->peeks != NULL) {
		request.wants_hot = true;
		request.generation = connection->peek.generation;
		request.peeked_count = connection->peek.untold_count;
	}
	direct_tell(connection, &request);
	header = request.payload_bytes > 0 ? &lease->message->header : &lease->header;
	wire_lease_encode(header, &request);
	lease->send = (struct split_send){
		.header = header,
		.header_bytes = WIRE_HEADER_BYTES + request.payload_bytes,
		.fn = lease_on_send,
		.arg = connection,
	};
	lease->sent_boot_ns = leases_now_ns(volume);
	if (split_send(connection->qp, &lease->send) != 0)
		return; /* a full queue: again, later */
	connection->peek.untold_count = 0;
	lease->is_sending = lease->is_out = true;
	direct_told(connection, &request);
}

void
leases_on_ready(struct connection *connection)
{
	struct leases *leases = connection->volume->leases;

	if (leases != NULL && !leases->is_returning)
		lease_ask(connection, false);
}

void
leases_on_closed(struct connection *connection)
{
	assert(!connection->lease.is_sending);
	connection->lease.is_out = connection->lease.must_return = false;
}

void
leases_forget(struct connection *connection)
{
	assert(connection->volume->client->is_destroying || !connection->lease.is_sending);
	free(connection->lease.message);
	connection->lease.message = NULL;
}

/* The shards and pages of an answer, which is in @bytes. False: it breaks the protocol. */
static bool
lease_take_all(struct connection *connection, const uint8_t *bytes, uint32_t count)
{
	struct leases *leases = connection->volume->leases;
	struct wire_lease_head head;
	struct wire_lease_entry entry;
	const char *field;
	uint32_t from = 0;

	if (wire_lease_head_decode(bytes, count, &head, &field) != 0)
		return false;
	leases->length_ns = NUM_MS(head.lease_ms);
	bytes += WIRE_LEASE_HEAD_BYTES;
	for (uint32_t i = 0; i < head.shard_count; i++, bytes += WIRE_LEASE_ENTRY_BYTES) {
		if (wire_lease_entry_decode(bytes, from, leases->shard_count, &entry, &field) != 0)
			return false;
		from = entry.shard + 1;
		lease_take(leases, entry.shard, entry.epoch, connection->lease.sent_boot_ns);
	}
	return peeks_take(connection, &head, bytes);
}

bool
leases_on_message(struct connection *connection, struct split_msg *msg)
{
	struct cleave_client *client = connection->volume->client;
	struct leases *leases = connection->volume->leases;
	struct wire_lease answer;
	const char *field;

	if (wire_lease_decode(msg->header, &answer, &field) != 0 || !answer.is_reply ||
	    leases == NULL || !connection->lease.is_out)
		return false;
	if (answer.request_id != connection->lease.request_id)
		return leases->is_returning; /* it was asked for before they were returned */
	connection->lease.is_out = false;
	if (leases->is_returning)
		volume_wake(connection->volume);
	if (answer.rc != 0)
		return true;
	dev_copy_to_host(client->port, client->status, msg->payload, answer.payload_bytes);
	if (crc32c(0, client->status, answer.payload_bytes) != answer.payload_crc) {
		CLIENT_STAT(client, checksum_errors, 1);
		return true;
	}
	return lease_take_all(connection, client->status, answer.payload_bytes);
}

/* ---- a volume's ---- */

static void
leases_ask_all(struct leases *leases, bool is_return)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&leases->volume->connections, link, next)
		lease_ask(LIST_ENTRY(link, struct connection, link), is_return);
}

static uint64_t
leases_length_ns(const struct leases *leases)
{
	return leases->length_ns != 0 ? leases->length_ns : NUM_MS(WIRE_READ_LEASE_MS);
}

static void
leases_on_timer(struct loop_timer *timer, void *arg)
{
	struct leases *leases = arg;

	assert(timer == &leases->timer);
	if (leases->is_returning) {
		leases->is_parting_over = true;
		volume_wake(leases->volume);
		return;
	}
	if (!volume_is_live(leases->volume) ||
	    (!leases->is_kept &&
		loop_now_ns(leases->volume->client->loop) - leases->used_ns > LEASE_USED_NS))
		return;
	leases_ask_all(leases, false);
	loop_timer_start(leases->volume->client->loop, timer, leases_length_ns(leases) / 2);
}

void
leases_use(struct cleave_volume *volume)
{
	struct leases *leases = volume->leases;

	assert(leases != NULL);
	leases->used_ns = loop_now_ns(volume->client->loop);
	if (!leases->is_returning && !leases->timer.is_active)
		loop_timer_start(volume->client->loop, &leases->timer,
		    leases_length_ns(leases) / 2);
}

int
leases_want(struct cleave_volume *volume, bool while_used)
{
	uint32_t shard_count;

	assert(volume->sm.state == VOLUME_OPEN && volume->client->map != NULL);
	if (volume->leases != NULL) {
		volume->leases->is_kept |= !while_used;
		leases_use(volume);
		return 0;
	}
	shard_count = volume->client->map->shard_count;
	volume->leases =
	    client_calloc(1, sizeof(*volume->leases) + shard_count * sizeof(struct lease));
	if (volume->leases == NULL)
		return -ENOMEM;
	volume->leases->volume = volume;
	volume->leases->is_kept = !while_used;
	volume->leases->used_ns = loop_now_ns(volume->client->loop);
	volume->leases->shard_count = shard_count;
	loop_timer_init(&volume->leases->timer, leases_on_timer, volume->leases);
	leases_on_timer(&volume->leases->timer, volume->leases);
	return 0;
}

bool
leases_return(struct cleave_volume *volume)
{
	struct leases *leases = volume->leases;
	struct loop_link *link, *next;

	if (leases == NULL)
		return false;
	if (!leases->is_returning) {
		leases->is_returning = true;
		for (uint32_t i = 0; i < leases->shard_count; i++)
			leases->of[i].until_ns = 0;
		leases_ask_all(leases, true);
		loop_timer_start(volume->client->loop, &leases->timer, leases_length_ns(leases));
	}
	if (leases->is_parting_over)
		return false;
	LIST_FOREACH_SAFE(&volume->connections, link, next) {
		const struct connection *connection = LIST_ENTRY(link, struct connection, link);

		if (connection->lease.is_out || connection->lease.must_return)
			return true;
	}
	return false;
}

void
leases_fini(struct cleave_volume *volume)
{
	if (volume->leases == NULL)
		return;
	loop_timer_stop(volume->client->loop, &volume->leases->timer);
	free(volume->leases);
	volume->leases = NULL;
}
