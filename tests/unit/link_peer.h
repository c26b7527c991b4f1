/* SPDX-License-Identifier: Apache-2.0 */
/* link_peer.h -- a gateway with three real nodes, and in the place of the fourth a peer that answers as it is told */
#ifndef CLEAVE_TESTS_LINK_PEER_H
#define CLEAVE_TESTS_LINK_PEER_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "cleave/dev_ptr.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"
#include "middletier/extent/node_link.h"
#include "splitlib/sim/loop_sim.h"
#include "support/mt_rig.h"

static struct mt_rig *rig;

/* ---- a peer that answers as it is told ---- */

enum peer_answer {
	PEER_RIGHT,
	PEER_SILENT,
	PEER_WRONG_ID,
	PEER_WRONG_OPCODE,
	PEER_NO_JSON,
	PEER_LACKING_JSON,
	PEER_WRONG_JSON,
	PEER_SLOTS_WRAP, /* slots_total * slot_bytes is 2^64 */
	PEER_SLOTS_MANY,
	PEER_SLOTS_SMALL,
	PEER_CLOCK,      /* tells a clock on the wall */
	PEER_CLOCK_TEXT, /* tells what is no clock */
	PEER_ERROR_STATUS,
	PEER_OTHER_OWNER,   /* says that another gateway has the epoch */
	PEER_REQUEST,       /* answers with a request */
	PEER_ADVERTISES,    /* peer.advertises is its status */
	PEER_NO_KEY,        /* says that it takes clients, and tells a key of no bytes */
	PEER_LIST_NO_SHARD, /* lists an extent of a shard that there cannot be */
	PEER_LIST_NO_END,   /* lists a page that leads to itself */
};

static struct peer {
	struct sim_host *host;
	struct loop *loop;
	struct split_port *port;
	struct wire_hello hello;
	enum peer_answer answer;
	uint32_t accept_count, request_count;
	uint8_t offered;        /* level, in the last hello */
	const char *advertises; /* PEER_ADVERTISES: its status */
	bool is_old;            /* refuses every hello but of level 1 */
	dev_ptr text;
	struct peer_extra {
		struct split_send send;
		struct wire_header header;
		struct dev_piece piece;
	} extras[64];
} peer;

static inline void
peer_on_sent(struct split_send *send, int rc, void *arg)
{
	(void)send;
	(void)rc;
	(void)arg;
}

static inline const char *
peer_text(void)
{
	switch (peer.answer) {
	case PEER_NO_JSON:
		return "{\"slots_total\":";
	case PEER_LACKING_JSON:
		return "{\"slots_total\":10,\"slots_free\":5}";
	case PEER_WRONG_JSON:
		return "{\"slots_total\":10,\"slots_free\":11,\"slot_bytes\":65536}";
	case PEER_SLOTS_WRAP:
		return "{\"slots_total\":1048576,\"slots_free\":5,\"slot_bytes\":17592186044416}";
	case PEER_SLOTS_MANY:
		return "{\"slots_total\":1048577,\"slots_free\":5,\"slot_bytes\":65536}";
	case PEER_CLOCK:
		return "{\"slots_total\":10,\"slots_free\":5,\"slot_bytes\":65536,"
		       "\"wall_ms\":1000000}";
	case PEER_CLOCK_TEXT:
		return "{\"slots_total\":10,\"slots_free\":5,\"slot_bytes\":65536,"
		       "\"wall_ms\":\"noon\"}";
	case PEER_ADVERTISES:
		return peer.advertises;
	case PEER_NO_KEY:
		return "{\"slots_total\":10,\"slots_free\":5,\"slot_bytes\":65536,\"direct\":\"on\"}";
	case PEER_SLOTS_SMALL:
		return "{\"slots_total\":10,\"slots_free\":5,\"slot_bytes\":65535}";
	default:
		return "{\"slots_total\":10,\"slots_free\":5,\"slot_bytes\":65536,\"more\":[]}";
	}
}

static inline void
peer_answer_with(struct split_msg *msg, struct wire_header *header)
{
	const char *text = peer_text();
	bool has_text = header->opcode == (WIRE_CONTROL | WIRE_REPLY);
	struct dev_piece piece = { peer.text, (uint32_t)strlen(text) };

	if (header->opcode == (WIRE_EXTENT_LIST | WIRE_REPLY) &&
	    peer.answer >= PEER_LIST_NO_SHARD) {
		struct wire_extent_entry entry = { .extent = UINT64_C(1) << 26,
			.kind = EXTENT_LOG,
			.state = WIRE_EXTENT_OPEN };

		if (peer.answer == PEER_LIST_NO_SHARD)
			entry.extent |= UINT64_C(4096) << 50;
		else
			header->offset_bytes = num_max(msg->header->offset_bytes, 1);
		header->length_bytes = sizeof(entry);
		piece.bytes = sizeof(entry);
		dev_copy_from_host(peer.port, peer.text, &entry, sizeof(entry));
		split_msg_reply(msg, header, &piece, 1, NULL, NULL);
		return;
	}
	dev_copy_from_host(peer.port, peer.text, text, strlen(text));
	split_msg_reply(msg, header, &piece, has_text ? 1 : 0, NULL, NULL);
}

static inline void
peer_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < count; i++) {
		struct wire_header header = { .opcode = msgs[i]->header->opcode | WIRE_REPLY,
			.request_id = msgs[i]->header->request_id };

		peer.request_count++;
		if (peer.answer == PEER_SILENT) {
			split_msg_release(msgs[i]);
			continue;
		}
		if (peer.answer == PEER_WRONG_ID)
			header.request_id += 1000;
		if (peer.answer == PEER_WRONG_OPCODE)
			header.opcode = WIRE_EXTENT_TRUNCATE | WIRE_REPLY;
		if (peer.answer == PEER_ERROR_STATUS)
			header.status = CLEAVE_STATUS_NO_MEMORY;
		if (peer.answer == PEER_OTHER_OWNER)
			header.status = CLEAVE_STATUS_RIGHT;
		if (peer.answer == PEER_REQUEST) {
			struct peer_extra *extra =
			    &peer.extras[peer.request_count % NUM_COUNT(peer.extras)];

			extra->header = header;
			extra->header.opcode = WIRE_CONTROL;
			extra->piece =
			    (struct dev_piece){ peer.text, (uint32_t)strlen(peer_text()) };
			extra->send = (struct split_send){ .header = &extra->header,
				.header_bytes = WIRE_HEADER_BYTES,
				.pieces = &extra->piece,
				.piece_count = 1,
				.fn = peer_on_sent };
			(void)split_send(qp, &extra->send);
		}
		peer_answer_with(msgs[i], &header);
	}
}

static inline void
peer_on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	(void)qp;
	(void)rc;
	(void)reason;
	(void)arg;
}

static const struct split_qp_ops peer_ops = { .on_messages = peer_on_messages,
	.on_closed = peer_on_closed };

static inline void
peer_on_accept(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	uint8_t bytes[WIRE_HELLO_BYTES];
	struct wire_hello theirs;
	const char *field;

	(void)arg;
	cr_assert_eq(wire_hello_decode(hello, hello_bytes, &theirs, &field), 0);
	cr_assert_eq(theirs.role, WIRE_ROLE_GATEWAY);
	cr_assert_eq(theirs.cluster_id, MT_RIG_CLUSTER_ID);
	peer.accept_count++;
	peer.offered = theirs.level;
	if (peer.is_old && theirs.level != CLEAVE_LEVEL_MIN) {
		split_qp_reject(qp, -EPROTONOSUPPORT);
		return;
	}
	wire_hello_encode(bytes, &peer.hello);
	split_qp_accept(qp, &peer_ops, NULL, bytes, sizeof(bytes));
}

/* In the place of node 4, with which the rig was made and which does not run. */
static inline void
peer_start(enum peer_answer answer)
{
	struct split_port_options options = { .sim_host = rig->nodes[3].host, .receive_count = 64 };

	peer = (struct peer){ .host = rig->nodes[3].host, .answer = answer };
	peer.hello = (struct wire_hello){ .role = WIRE_ROLE_NODE,
		.node_id = 4,
		.cluster_id = MT_RIG_CLUSTER_ID };
	peer.loop = sim_loop_create(rig->world, "peer");
	options.loop = peer.loop;
	peer.port = open_roce_instance(&options);
	cr_assert_not_null(peer.port);
	peer.text = dev_alloc(peer.port, 4096);
	cr_assert_eq(split_listen(peer.port, rig->nodes[3].address, peer_on_accept, NULL, NULL), 0);
}

static inline void
peer_stop(void)
{
	sim_host_kill(peer.host, SIM_DEATH_RESET);
	loop_destroy(peer.loop);
	peer.port = NULL;
}

/* ---- the rig ---- */

static uint64_t wall_now_ms;

/* The gateway's clock on the wall. */
static inline uint64_t
wall_ms(void)
{
	return wall_now_ms;
}

static inline void
link_setup(void)
{
	rig = mt_rig_create(&(struct mt_rig_options){ .node_count = 4 });
	rig->gateway_options.wall_ms = wall_ms;
	wall_now_ms = 1;
	mt_rig_log_start(rig);
	for (uint32_t i = 0; i < 3; i++)
		mt_rig_node_start(rig, i);
	mt_rig_gateway_start(rig);
	cr_assert(mt_rig_wait_ready(rig));
	mt_rig_run(rig, NUM_S(1));
}

static inline void
link_teardown(void)
{
	if (peer.port != NULL)
		peer_stop();
	mt_rig_destroy(rig);
}

/* ---- waiting ---- */

struct link_wait {
	uint32_t index;
	bool is_up;
};

static inline bool
link_is(void *arg)
{
	const struct link_wait *wait = arg;

	return mt_link_is_up(mt_rig_link(rig, wait->index)) == wait->is_up;
}

static inline void
wait_link(uint32_t index, bool is_up)
{
	struct link_wait wait = { index, is_up };

	cr_assert(mt_rig_run_until(rig, link_is, &wait));
}

/* The peer is refused for that, and tried again. */
static inline void
expect_refused(const char *text)
{
	mt_rig_log_clear(rig);
	mt_rig_run(rig, NUM_S(20));
	cr_assert_not(mt_link_is_up(mt_rig_link(rig, 3)));
	cr_assert(mt_rig_logged(rig, text), "%s", text);
	cr_assert_geq(peer.accept_count, 2, "not tried again");
}

#endif /* CLEAVE_TESTS_LINK_PEER_H */
