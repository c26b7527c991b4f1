/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge_readback.c -- runs that somebody has made are read back: from nodes, as far as they say what is in them
 *
 *	     the parts are told               the last head has passed       every replica has that batch
 *	IDLE ---------> [HINT] -----> HEADS ---------------------------> LAST ---------------------------> the next part
 *	 ^                              |                                 |                                or IDLE: done
 *	 +------- no copy passes -------+------ one has it not, ----------+
 *	                                        or does not answer in time
 *
 * Nothing of it is believed that has been said, but where parts lie. Heads are read one behind the other from whichever
 * replica passes (run_heads.c), so the chain of batches ends where the part does. A part's directory is its last batch, and
 * has to be what the heads before it come to. It is read first of all, too, for it says where these are: so they come
 * several in a message (readback_hint.h). A node serves what is durable alone,
 * takes a batch behind its predecessor alone, and each has the CRC of that. So who has the last batch, byte for byte its
 * header, has all of the part: it is asked of every replica, for a run is named when all have it (I13).
 */
#include "merge/merge_readback.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/mutant.h"
#include "base/num.h"
#include "cleave/gather.h"
#include "cleave/level.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/settings.h"
#include "common/shard.h"
#include "extent/extent.h"
#include "extent/extent_copies.h"
#include "extent/extent_table.h"
#include "extent/node_error.h"
#include "extent/node_link.h"
#include "index/index.h"
#include "index/run_dir.h"
#include "index/run_index.h"
#include "merge/merge_result.h"
#include "merge/merge_step.h"

#define READBACK_RETRY_NS NUM_MS(50)

static const struct sm_state readback_table[READBACK_STATE_NR] = {
	[READBACK_IDLE] = { "idle", SM_TO(READBACK_HINT) | SM_TO(READBACK_HEADS), SM_INITIAL },
	[READBACK_HINT] = { "hint", SM_TO(READBACK_HEADS) | SM_TO(READBACK_IDLE), 0 },
	[READBACK_HEADS] = { "heads", SM_TO(READBACK_LAST) | SM_TO(READBACK_IDLE), 0 },
	[READBACK_LAST] = { "last",
	    SM_TO(READBACK_HINT) | SM_TO(READBACK_HEADS) | SM_TO(READBACK_IDLE), 0 },
};

void
mt_merge_readback_init(struct merge_readback *readback, void (*tell)(void *arg), void *arg)
{
	assert(tell != NULL);
	*readback = (struct merge_readback){ .tell = tell, .arg = arg };
	sm_init(&readback->sm, "merge_readback", readback_table, READBACK_IDLE, 0);
}

static void
readback_defer(struct merge_readback *readback)
{
	const struct mt_port *port = readback->shard->port;

	readback->deadline_ns = loop_now_ns(port->loop) + port->settings->node_timeout_ns;
}

static const struct run_part *
readback_part(const struct merge_readback *readback)
{
	return &readback->result->parts[readback->part_at];
}

/* The part at hand, as a run of @chunk. */
static struct mt_run
part_run(const struct merge_readback *readback, struct mt_chunk *chunk)
{
	const struct run_part *part = readback_part(readback);

	return (struct mt_run){ .chunk = chunk,
		.extent_index = part->extent_index,
		.offset_bytes = part->offset_bytes,
		.length_bytes = part->length_bytes,
		.directory_bytes = part->directory_bytes,
		.directory_crc = part->directory_crc,
		.flushed_sequence = readback->result->flushed_sequence };
}

static void
part_begin(struct merge_readback *readback)
{
	struct mt_chunk chunk = { .number = readback->chunk };
	struct mt_run run = part_run(readback, &chunk);

	assert(run.length_bytes > run.directory_bytes);
	mt_readback_hint_drop(&readback->hint);
	sm_move(&readback->sm,
	    run.directory_bytes > 0 && run.directory_bytes <= sizeof(readback->hint.bytes)
		? READBACK_HINT
		: READBACK_HEADS);
	mt_run_heads_init(&readback->heads, &run);
	mt_chooser_reset(&readback->chooser);
	readback_defer(readback);
}

void
mt_merge_readback_begin(struct merge_readback *readback, struct mt_shard *shard, uint64_t chunk,
    struct merge_result *result)
{
	assert(readback->sm.state == READBACK_IDLE);
	assert(!readback->is_out);
	readback->shard = shard;
	readback->chunk = chunk;
	readback->result = result;
	readback->part_at = 0;
	readback->rc = 0;
	if (result->part_count > 0)
		part_begin(readback);
}

static void
readback_end(struct merge_readback *readback)
{
	if (readback->sm.state == READBACK_IDLE)
		return;
	mt_run_heads_fini(&readback->heads);
	mt_readback_hint_drop(&readback->hint);
	sm_move(&readback->sm, READBACK_IDLE);
}

static struct mt_extent *
readback_extent(const struct merge_readback *readback)
{
	return mt_shard_extent(readback->shard,
	    readback->result->parts[readback->part_at].extent_index);
}

/* ---- answers ---- */

/* The directory goes on with the chain behind the other heads. */
static void
directory_begin(struct merge_readback *readback)
{
	struct mt_chunk chunk = { .number = readback->chunk };
	struct mt_run run = part_run(readback, &chunk);
	uint32_t prev_crc = readback->heads.prev_crc;

	mt_run_heads_fini(&readback->heads);
	mt_run_heads_init_directory(&readback->heads, &run);
	readback->heads.prev_crc = prev_crc;
	readback->heads.has_prev = true;
}

/* Is the directory what the heads come to? Else blocks would not be found by it. */
static int
directory_end(struct merge_readback *readback)
{
	struct mt_run_dir *said = mt_run_heads_end_directory(&readback->heads);
	struct mt_run_dir *seen = mt_run_dir_create(readback->result->indexes[readback->part_at]);
	int rc = seen == NULL ? -ENOMEM : mt_run_dir_is_same(said, seen) ? 0 : -EBADMSG;

	mt_run_dir_free(said);
	mt_run_dir_free(seen);
	return rc;
}

/* All heads of the part have passed. */
static int
index_end(struct merge_readback *readback)
{
	struct mt_run_index **index = &readback->result->indexes[readback->part_at];

	mt_run_index_free(*index);
	*index = mt_run_heads_end(&readback->heads);
	return *index == NULL ? -ENOMEM : 0;
}

/* The head at at_bytes has passed, and is the last one so far. */
static void
head_keep(struct merge_readback *readback, uint32_t at_bytes, const uint8_t *head)
{
	readback->head_at_bytes = at_bytes;
	memcpy(readback->head, head, sizeof(readback->head));
	mt_chooser_reset(&readback->chooser);
	readback_defer(readback);
}

static int heads_end(struct merge_readback *readback, const struct mt_extent *extent);

/* The directory is the next head, and was read already: it is asked for anew only where it does not pass now. */
static int
directory_take_hint(struct merge_readback *readback, const struct mt_extent *extent)
{
	const struct readback_hint *hint = &readback->hint;
	uint32_t at_bytes = readback->heads.at_bytes;
	int rc = hint->dir == NULL
	    ? -EAGAIN
	    : mt_run_heads_take(&readback->heads, &extent->id, hint->bytes, hint->length_bytes);

	if (rc != 0)
		return rc == -ENOMEM ? rc : 0;
	head_keep(readback, at_bytes, hint->bytes);
	return heads_end(readback, extent);
}

static int
heads_end(struct merge_readback *readback, const struct mt_extent *extent)
{
	bool is_directory = readback->heads.is_directory;
	int rc = is_directory ? directory_end(readback) : index_end(readback);

	if (rc != 0)
		return rc;
	if (!is_directory && readback_part(readback)->directory_bytes > 0) {
		directory_begin(readback);
		return directory_take_hint(readback, extent);
	}
	mt_run_heads_fini(&readback->heads);
	sm_move(&readback->sm, READBACK_LAST);
	readback->replica_at = 0;
	readback_defer(readback);
	return 0;
}

/* The head of a batch, as replica number replica_index has it. Negative ends it all. */
static int
heads_take(struct merge_readback *readback, const struct mt_extent *extent, uint32_t bytes)
{
	uint32_t at_bytes = readback->heads.at_bytes;
	int rc = mt_run_heads_take(&readback->heads, &extent->id, readback->buffer, bytes);

	if (rc == -EAGAIN)
		return 0; /* more of it is asked for */
	if (rc == -EBADMSG) {
		mt_chooser_note_bad(&readback->chooser, readback->replica_index);
		mt_run_heads_distrust(&readback->heads);
		return 0;
	}
	if (rc != 0)
		return rc;
	head_keep(readback, at_bytes, readback->buffer);
	return mt_run_heads_are_over(&readback->heads) ? heads_end(readback, extent) : 0;
}

/* @bytes of the answer, from @at on, are in the buffer. */
static void
answer_copy(struct merge_readback *readback, const struct split_msg *msg, uint32_t at,
    uint32_t bytes)
{
	assert(bytes <= sizeof(readback->buffer));
	dev_copy_to_host(readback->shard->port->split, readback->buffer,
	    dev_ptr_add(msg->payload, at), bytes);
}

/* Several heads, as far as each goes on where the one before it ends. */
static int
heads_take_all(struct merge_readback *readback, const struct mt_extent *extent,
    const struct split_msg *msg)
{
	uint32_t at = 0;
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < readback->stretch_count; i++) {
		const struct wire_stretch *stretch = &readback->stretches[i];

		if (readback->sm.state != READBACK_HEADS || readback->heads.is_directory ||
		    readback->heads.at_bytes != stretch->offset_bytes) {
			mt_readback_hint_spend(&readback->hint);
			break;
		}
		answer_copy(readback, msg, at, stretch->length_bytes);
		rc = heads_take(readback, extent, stretch->length_bytes);
		at += stretch->length_bytes;
	}
	/* The last one is longer than was said, or of another batch. */
	if (rc == 0 && readback->sm.state == READBACK_HEADS && !readback->heads.is_directory &&
	    readback->heads.at_bytes <= readback->stretches[0].offset_bytes)
		mt_readback_hint_spend(&readback->hint);
	return rc;
}

/* The part's directory, as some replica has it. */
static void
hint_take(struct merge_readback *readback, const struct mt_extent *extent,
    const struct split_msg *msg)
{
	struct mt_chunk chunk = { .number = readback->chunk };
	struct mt_run run = part_run(readback, &chunk);

	dev_copy_to_host(readback->shard->port->split, readback->hint.bytes, msg->payload,
	    readback->bytes);
	mt_readback_hint_take(&readback->hint, &run, &extent->id, readback->bytes);
}

/* The header of the last batch, as replica number replica_at has it. */
static int
last_take(struct merge_readback *readback)
{
	assert(readback->bytes == sizeof(readback->head));
	if (memcmp(readback->head, readback->buffer, sizeof(readback->head)) != 0)
		return -EBADMSG;
	readback->replica_at++;
	readback_defer(readback);
	return 0;
}

/* No bytes, but @rc. */
static int
readback_note_error(struct merge_readback *readback, int rc)
{
	if (readback->sm.state == READBACK_LAST) {
		readback->is_refused = true;
		return mt_is_copy_bad(rc) ? -EBADMSG : 0;
	}
	if (mt_is_copy_bad(rc))
		mt_chooser_note_bad(&readback->chooser, readback->replica_index);
	else
		mt_chooser_note_failed(&readback->chooser, readback->replica_index);
	return 0;
}

static int
readback_take(struct merge_readback *readback, const struct split_msg *msg, int rc)
{
	const struct mt_extent *extent = readback_extent(readback);
	uint32_t bytes = readback->bytes;

	if (rc == 0 && (msg == NULL || msg->payload_bytes != bytes))
		rc = -EMSGSIZE;
	if (extent == NULL)
		return -ESTALE;
	if (readback->sm.state == READBACK_HINT) {
		if (rc == 0)
			hint_take(readback, extent, msg);
		sm_move(&readback->sm, READBACK_HEADS);
		return 0;
	}
	if (rc != 0)
		return readback_note_error(readback, rc);
	if (readback->stretch_count > 0)
		return heads_take_all(readback, extent, msg);
	bytes = (uint32_t)num_min(bytes, sizeof(readback->buffer));
	answer_copy(readback, msg, 0, bytes);
	return readback->sm.state == READBACK_HEADS ? heads_take(readback, extent, bytes)
						    : last_take(readback);
}

static void
readback_on_answer(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct merge_readback *readback = arg;

	(void)reply;
	assert(call == &readback->call && readback->is_out);
	readback->is_out = false;
	if (readback->sm.state != READBACK_IDLE && readback->rc == 0)
		readback->rc = readback_take(readback, msg, rc);
	if (msg != NULL)
		split_msg_release(msg);
	readback->tell(readback->arg);
}

/* ---- questions ---- */

static bool
readback_send(struct merge_readback *readback, const struct mt_extent *extent, struct mt_link *node,
    uint32_t offset_bytes)
{
	readback->call.request = (struct wire_node){ .opcode = WIRE_EXTENT_READ,
		.id = extent->id,
		.offset_bytes = offset_bytes,
		.length_bytes = readback->bytes,
		.epoch = readback->shard->epoch };
	readback->call.host = NULL;
	readback->call.head_bytes = 0;
	if (readback->stretch_count > 0) {
		readback->call.request.opcode = WIRE_EXTENT_GATHER;
		readback->call.request.offset_bytes = 0;
		readback->call.request.stretch_count = (uint16_t)readback->stretch_count;
		readback->call.host = readback->host;
		readback->call.head_bytes = readback->stretch_count * WIRE_STRETCH_BYTES;
		wire_gather_encode(readback->host + WIRE_HEADER_BYTES, readback->stretches,
		    readback->stretch_count);
	}
	readback->call.fn = readback_on_answer;
	readback->call.arg = readback;
	readback->is_out = mt_link_call(node, &readback->call) == 0;
	return readback->is_out;
}

/* Nobody can be asked now. */
static int
readback_wait(struct merge_readback *readback, struct merge_turn *turn)
{
	if (loop_now_ns(readback->shard->port->loop) >= readback->deadline_ns)
		return -EHOSTDOWN;
	mt_chooser_retry(&readback->chooser);
	turn_again(turn, READBACK_RETRY_NS);
	return STEP_AGAIN;
}

/* The next question to @node: for several heads, whose places are known, or for one. */
static void
heads_request(struct merge_readback *readback, const struct mt_link *node)
{
	bool may_gather = readback->chooser.tried == 0 && !readback->heads.is_directory &&
	    node->agreed_level >= CLEAVE_LEVEL_GATHER;

	readback->stretch_count = may_gather
	    ? mt_readback_hint_stretches(&readback->hint, readback->heads.at_bytes,
		  readback->heads.end_bytes, readback->stretches)
	    : 0;
	readback->bytes = mt_run_heads_ask_bytes(&readback->heads);
	if (readback->stretch_count == 0)
		return;
	readback->bytes = 0;
	for (uint32_t i = 0; i < readback->stretch_count; i++)
		readback->bytes += readback->stretches[i].length_bytes;
}

/* The directory, once, of any replica: without it heads are asked for one by one. */
static bool
hint_ask(struct merge_readback *readback, struct mt_extent *extent)
{
	const struct run_part *part = readback_part(readback);
	struct mt_copies copies = mt_extent_copies(extent);
	struct mt_link *node;

	readback->stretch_count = 0;
	readback->bytes = part->directory_bytes;
	if (mt_chooser_pick(&readback->chooser, readback->shard->port, &copies, &node) >= 0 &&
	    readback_send(readback, extent, node,
		part->offset_bytes + part->length_bytes - part->directory_bytes))
		return true;
	sm_move(&readback->sm, READBACK_HEADS);
	return false;
}

static int
heads_ask(struct merge_readback *readback, struct mt_extent *extent, struct merge_turn *turn)
{
	struct mt_copies copies = mt_extent_copies(extent);
	struct mt_link *node;
	int index;

	while ((index = mt_chooser_pick(&readback->chooser, readback->shard->port, &copies,
		    &node)) >= 0) {
		readback->replica_index = (uint8_t)index;
		heads_request(readback, node);
		if (readback_send(readback, extent, node, readback->heads.at_bytes))
			return STEP_AGAIN;
		mt_chooser_note_failed(&readback->chooser, (uint32_t)index);
	}
	if (mt_chooser_is_hopeless(&readback->chooser, extent->replica_count))
		return -EBADMSG;
	return readback_wait(readback, turn);
}

/* STEP_DONE: every replica has it. */
static int
last_ask(struct merge_readback *readback, const struct mt_extent *extent, struct merge_turn *turn)
{
	bool is_refused = readback->is_refused;
	struct mt_link *node;

	readback->is_refused = false;
	if (readback->replica_at >= extent->replica_count || MUTANT(part_unverified))
		return STEP_DONE;
	node = mt_port_link(readback->shard->port, extent->replicas[readback->replica_at].node_id);
	readback->bytes = sizeof(readback->head);
	readback->stretch_count = 0;
	if (!is_refused && node != NULL && mt_link_is_up(node) &&
	    readback_send(readback, extent, node, readback->head_at_bytes))
		return STEP_AGAIN;
	return readback_wait(readback, turn);
}

/* STEP_DONE: of all parts. */
static int
readback_go_on(struct merge_readback *readback, struct merge_turn *turn)
{
	while (readback->sm.state != READBACK_IDLE) {
		struct mt_extent *extent = readback_extent(readback);
		int rc;

		if (extent == NULL)
			return -ESTALE;
		if (readback->sm.state == READBACK_HINT && hint_ask(readback, extent))
			return STEP_AGAIN;
		rc = readback->sm.state == READBACK_HEADS ? heads_ask(readback, extent, turn)
							  : last_ask(readback, extent, turn);
		if (rc != STEP_DONE)
			return rc;
		if (++readback->part_at == readback->result->part_count)
			break;
		part_begin(readback);
	}
	return STEP_DONE;
}

int
mt_merge_readback_step(struct merge_readback *readback, struct merge_turn *turn)
{
	int rc = readback->rc;

	if (rc == 0 && readback->is_out)
		return STEP_AGAIN;
	if (rc == 0)
		rc = readback_go_on(readback, turn);
	if (rc != STEP_AGAIN)
		readback_end(readback);
	return rc;
}

uint32_t
mt_merge_readback_chain(const struct merge_readback *readback)
{
	assert(readback->sm.state == READBACK_IDLE && readback->rc == 0);
	return readback->heads.prev_crc;
}

/* ---- ends ---- */

void
mt_merge_readback_cancel(struct merge_readback *readback)
{
	readback_end(readback);
}

bool
mt_merge_readback_is_quiet(const struct merge_readback *readback)
{
	return !readback->is_out;
}

void
mt_merge_readback_fini(struct merge_readback *readback)
{
	readback_end(readback);
}
