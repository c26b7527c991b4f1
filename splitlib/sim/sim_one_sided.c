/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_one_sided.c -- see sim_one_sided.h
 *
 *	process --SIM_PACKET_READ--> the peer's device: bytes of the region, as they are now --SIM_PACKET_READ_DONE--> process
 *	                                  '--one in SIM_TORN_PART: a part now, the rest a while later--'
 *
 * What a device does happens in the world's nature, so it goes on while the process stands; only a kill, or the end of
 * the queue pair or of the region, ends it. Reads alone: nobody writes to regions there.
 */
#include "sim_one_sided.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/num.h"
#include "core/alloc.h"
#include "core/dev_ptr_raw.h"
#include "core/event.h"
#include "core/one_sided.h"
#include "core/port.h"
#include "core/qp.h"
#include "core/region.h"
#include "sim_conn.h"
#include "sim_state.h"

#define SIM_TORN_PART 4u
#define SIM_TORN_NS NUM_US(2)
#define SIM_TORN_SHIFTS 21u /* up to some seconds: a block may be written and be hot again */

/* SIM_PACKET_READ's data; SIM_PACKET_READ_DONE's begins with a struct sim_read_done. */
struct sim_read {
	struct dev_remote remote;
	uint64_t offset_bytes;
	uint32_t bytes, index, sequence;
};

struct sim_read_done {
	int32_t rc;
	uint32_t bytes, index, sequence;
};

/* A read of which a part has been read. */
struct sim_torn {
	struct loop_link link; /* in end->torn */
	struct sim_end *end;   /* whose memory it is */
	struct loop_timer timer;
	struct sim_read read;
	uint32_t from_bytes, to_bytes; /* that are left */
	struct sim_packet *answer;
};

/* ---- who reads ---- */

void
sim_one_sided_kick(struct split_qp *qp)
{
	struct sim_end *end = qp->transport;
	struct one_sided_piece *piece;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	while (end != NULL && (piece = one_sided_take(qp)) != NULL) {
		struct sim_packet *packet =
		    sim_packet_create(SIM_PACKET_READ, sizeof(struct sim_read));
		const struct sim_read read = { .remote = piece->event->remote,
			.offset_bytes = piece->event->remote_offset_bytes + piece->offset_bytes,
			.bytes = piece->bytes,
			.index = (uint32_t)(piece - qp->one_sided->pieces),
			.sequence = piece->sequence };

		if (packet == NULL || piece->event->is_write) {
			one_sided_end(qp, piece, packet == NULL ? -ENOMEM : -ENOTSUP);
			split_free(packet);
			continue;
		}
		memcpy(packet->data, &read, sizeof(read));
		sim_packet_send(end, packet);
	}
}

void
sim_one_sided_done(struct split_qp *qp, const struct sim_packet *packet)
{
	struct one_sided_piece *piece;
	struct sim_read_done done;

	assert(packet->kind == SIM_PACKET_READ_DONE && packet->bytes >= sizeof(done));
	memcpy(&done, packet->data, sizeof(done));
	assert(done.index < ONE_SIDED_PIECES);
	if (qp->one_sided == NULL)
		return;
	piece = &qp->one_sided->pieces[done.index];
	if (piece->event == NULL || piece->sequence != done.sequence)
		return;
	if (done.rc == 0) {
		assert(done.bytes == piece->bytes && packet->bytes == sizeof(done) + done.bytes);
		guard_enter();
		memcpy(dev_ptr_raw(dev_ptr_add(piece->event->device, piece->offset_bytes)),
		    packet->data + sizeof(done), done.bytes);
		guard_leave();
	}
	one_sided_end(qp, piece, done.rc);
	if (one_sided_is_wanted(qp))
		sim_one_sided_kick(qp);
}

/* ---- whose memory it is ---- */

/* Bytes @from to @to of what is read, as they are now. */
static int
read_part(struct sim_end *end, const struct sim_read *read, struct sim_packet *answer,
    uint32_t from, uint32_t to)
{
	const struct dev_region *region = end->qp == NULL
	    ? NULL
	    : region_at(end->qp->port, &read->remote, DEV_REGION_READ, read->offset_bytes,
		  read->bytes);

	if (region == NULL)
		return -EKEYREVOKED;
	guard_enter();
	memcpy(answer->data + sizeof(struct sim_read_done) + from,
	    dev_ptr_raw(dev_ptr_add(region->memory, read->offset_bytes + from)), to - from);
	guard_leave();
	return 0;
}

static void
read_answer(struct sim_end *end, const struct sim_read *read, struct sim_packet *answer, int rc)
{
	const struct sim_read_done done = { rc, read->bytes, read->index, read->sequence };

	memcpy(answer->data, &done, sizeof(done));
	if (end->qp == NULL)
		split_free(answer); /* its peer hears of the end */
	else
		sim_packet_send(end, answer);
}

static void
torn_on_timer(struct loop_timer *timer, void *arg)
{
	struct sim_torn *torn = arg;
	struct sim_end *end = torn->end;

	assert(timer == &torn->timer);
	(void)timer;
	list_remove(&torn->link);
	read_answer(end, &torn->read, torn->answer,
	    read_part(end, &torn->read, torn->answer, torn->from_bytes, torn->to_bytes));
	split_free(torn);
	sim_conn_try_free(end->conn);
}

/* True: a part of it was read, and the rest will be. */
static bool
read_tear(struct sim_end *end, const struct sim_read *read, struct sim_packet *answer)
{
	struct sim_world *world = end->conn->net->world;
	struct sim_torn *torn;
	uint32_t cut;
	bool is_end_first;

	if (sim_world_random_below(world, SIM_TORN_PART) != 0)
		return false;
	torn = split_calloc(1, sizeof(*torn));
	if (torn == NULL)
		return false;
	cut = (uint32_t)sim_world_random_below(world, read->bytes);
	is_end_first = sim_world_random_below(world, 2) == 0;
	torn->end = end;
	torn->read = *read;
	torn->answer = answer;
	torn->from_bytes = is_end_first ? 0 : cut;
	torn->to_bytes = is_end_first ? cut : read->bytes;
	(void)read_part(end, read, answer, is_end_first ? cut : 0,
	    is_end_first ? read->bytes : cut);
	loop_timer_init(&torn->timer, torn_on_timer, torn);
	list_push_back(&end->torn, &torn->link);
	loop_timer_start(end->conn->net->nature, &torn->timer,
	    sim_world_random_below(world,
		SIM_TORN_NS << sim_world_random_below(world, SIM_TORN_SHIFTS)));
	return true;
}

void
sim_one_sided_serve(struct sim_end *end, const struct sim_packet *packet)
{
	struct sim_packet *answer;
	struct sim_read read;

	assert(packet->kind == SIM_PACKET_READ && packet->bytes == sizeof(read));
	assert(end->qp != NULL);
	memcpy(&read, packet->data, sizeof(read));
	answer = sim_packet_create(SIM_PACKET_READ_DONE,
	    (uint32_t)sizeof(struct sim_read_done) + read.bytes);
	if (answer == NULL)
		return; /* a test that lets memory run out has no such reads */
	if (!read_tear(end, &read, answer))
		read_answer(end, &read, answer, read_part(end, &read, answer, 0, read.bytes));
}

void
sim_one_sided_forget(struct sim_end *end)
{
	struct loop_link *link;

	while ((link = list_pop_front(&end->torn)) != NULL) {
		struct sim_torn *torn = LIST_ENTRY(link, struct sim_torn, link);

		loop_timer_stop(end->conn->net->nature, &torn->timer);
		split_free(torn->answer);
		split_free(torn);
	}
}
