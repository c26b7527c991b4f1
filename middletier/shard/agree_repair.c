/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agree_repair.c -- one batch from a replica that has it to one that lacks it
 *
 *	judge --> READING --> APPENDING --> judge
 *
 * The first read tells the batch's length, by its head, which is checked with the target's chain; the
 * rest is read beside it. The target checks the payload. Whose fault a failure is decides who is asked
 * again, or is damaged.
 */
#include <errno.h>

#include "base/check.h"
#include "base/num.h"
#include "base/sm.h"
#include "cleave/batch.h"
#include "cleave/dev_ptr.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "common/port.h"
#include "common/shard.h"
#include "shard/agree.h"
#include "shard/agree_repair.h"
#include "shard/agree_replica.h"

/* ---- repair: read ---- */

static void
repair_release(struct mt_agree_repair *repair)
{
	for (uint32_t i = 0; i < MT_AGREE_READS_MAX; i++) {
		if (repair->msgs[i] != NULL)
			split_msg_release(repair->msgs[i]);
		repair->msgs[i] = NULL;
	}
}

/* Back to asking, after @replica has failed in a repair. */
static void
repair_failed(struct mt_agree *agree, struct mt_agree_replica *replica, const char *why, int rc)
{
	assert(rc < 0);
	repair_release(&agree->repair);
	sm_move(&agree->sm, MT_AGREE_FREEZING);
	if (mt_agree_is_verdict(rc))
		mt_agree_damage(replica, why, rc);
	else
		sm_move(&replica->sm, MT_AGREE_UNASKED);
	/* A node that is not lost is asked again at leisure: else this could go round at full speed. */
	if (mt_agree_is_verdict(rc) || rc == -ECONNRESET || rc == -ENOTCONN)
		mt_agree_step(agree);
}

static void repair_append(struct mt_agree *agree);
static void repair_on_read(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg);

/* The @index-th piece of the batch. @bytes: of it. */
static int
repair_read_piece(struct mt_agree *agree, uint32_t index, uint32_t bytes)
{
	struct mt_agree_repair *repair = &agree->repair;
	struct mt_call *call = &repair->reads[index];
	uint64_t offset_bytes = agree->states[repair->to].length_bytes;
	int rc;

	assert(index < MT_AGREE_READS_MAX);
	assert(bytes > 0 && bytes <= MT_RECEIVE_BYTES);
	call->request = (struct wire_node){ .opcode = WIRE_EXTENT_READ,
		.offset_bytes = offset_bytes + (uint64_t)index * MT_RECEIVE_BYTES,
		.length_bytes = bytes };
	call->piece_count = 0;
	rc = mt_agree_call(agree, repair->from, call, repair_on_read, agree);
	if (rc == 0)
		repair->read_outstanding_count++;
	return rc;
}

/* The first piece is here: is it the batch that comes next, and how long is it? */
static int
repair_check_head(struct mt_agree *agree)
{
	struct mt_agree_repair *repair = &agree->repair;
	const struct mt_agree_replica *to = &agree->states[repair->to];
	struct batch_check check = { .id = agree->id,
		.kind = agree->kind,
		.offset_bytes = to->length_bytes,
		.prev_crc = to->chain_crc };
	uint32_t bytes = (uint32_t)num_min(repair->msgs[0]->payload_bytes, BATCH_HEAD_BYTES_MAX);
	int rc;

	dev_copy_to_host(agree->shard->port->split, agree->head, repair->msgs[0]->payload, bytes);
	rc = batch_head_check(agree->head, bytes, &check);
	if (rc != 0)
		return -EBADMSG;
	if (check.info.batch_bytes > agree->agreed_bytes - to->length_bytes)
		return -EBADMSG; /* it would end behind the agreed length */
	repair->info = check.info;
	return 0;
}

/* The pieces behind the first. Returns how the first that failed did. */
static int
repair_read_rest(struct mt_agree *agree)
{
	struct mt_agree_repair *repair = &agree->repair;
	uint32_t batch_bytes = repair->info.batch_bytes;
	int rc = 0;

	assert(batch_bytes <= MT_AGREE_READS_MAX * MT_RECEIVE_BYTES);
	repair->read_count = (batch_bytes + MT_RECEIVE_BYTES - 1) / MT_RECEIVE_BYTES;
	for (uint32_t i = 1; i < repair->read_count && rc == 0; i++)
		rc = repair_read_piece(agree, i,
		    (uint32_t)num_min(batch_bytes - i * MT_RECEIVE_BYTES, MT_RECEIVE_BYTES));
	return rc;
}

static void
repair_on_read(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_agree *agree = arg;
	struct mt_agree_repair *repair = &agree->repair;
	uint32_t index = (uint32_t)(call - repair->reads);

	(void)reply;
	assert(index < MT_AGREE_READS_MAX);
	assert(repair->read_outstanding_count > 0);
	repair->read_outstanding_count--;
	if (rc != 0 && msg != NULL)
		split_msg_release(msg);
	else
		repair->msgs[index] = msg;
	if ((agree->is_stopped || rc == -ESTALE) && repair->read_outstanding_count == 0)
		repair_release(repair);
	if (mt_agree_answered(agree, rc))
		return;
	assert(agree->sm.state == MT_AGREE_READING);
	if (rc == 0 && index == 0) {
		rc = repair_check_head(agree);
		if (rc == 0)
			rc = repair_read_rest(agree);
	}
	if (repair->read_rc == 0)
		repair->read_rc = rc;
	if (repair->read_outstanding_count > 0)
		return;
	if (repair->read_rc != 0)
		repair_failed(agree, &agree->states[repair->from], "a batch of it cannot be read",
		    repair->read_rc);
	else
		repair_append(agree);
}

void
mt_agree_repair(struct mt_agree *agree, uint32_t from, uint32_t to)
{
	struct mt_agree_repair *repair = &agree->repair;
	uint64_t left_bytes = agree->agreed_bytes - agree->states[to].length_bytes;
	int rc;

	assert(from < agree->replica_count && to < agree->replica_count && from != to);
	assert(left_bytes > 0);
	repair->from = from;
	repair->to = to;
	repair->read_rc = 0;
	repair->read_count = 1;
	sm_move(&agree->sm, MT_AGREE_READING);
	rc = repair_read_piece(agree, 0, (uint32_t)num_min(left_bytes, MT_RECEIVE_BYTES));
	if (rc != 0)
		repair_failed(agree, &agree->states[from], "", rc);
}

/* ---- repair: append ---- */

static void
repair_on_appended(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_agree *agree = arg;
	struct mt_agree_repair *repair = &agree->repair;
	struct mt_agree_replica *to = &agree->states[repair->to];

	(void)call;
	assert(msg == NULL);
	if (agree->is_stopped || rc == -ESTALE)
		repair_release(repair);
	if (mt_agree_answered(agree, rc))
		return;
	assert(agree->sm.state == MT_AGREE_APPENDING);
	if (rc == 0 && reply->offset_bytes != to->length_bytes + repair->info.batch_bytes)
		rc = -EBUSY; /* not where we believed it to be: ask again */
	if (rc == -EBADMSG) {
		/* The head has passed here, so it is the payload, which came from there. */
		repair_failed(agree, &agree->states[repair->from],
		    "a batch of it does not pass its check", rc);
		return;
	}
	if (rc != 0) {
		repair_failed(agree, to, "its node cannot take what it lacks", rc);
		return;
	}
	repair_release(repair);
	to->length_bytes += repair->info.batch_bytes;
	to->chain_crc = repair->info.batch_crc;
	sm_move(&agree->sm, MT_AGREE_FREEZING);
	mt_agree_step(agree);
}

static void
repair_append(struct mt_agree *agree)
{
	struct mt_agree_repair *repair = &agree->repair;
	struct mt_agree_replica *to = &agree->states[repair->to];
	uint32_t batch_bytes = repair->info.batch_bytes;
	int rc;

	assert(repair->read_count > 0 && repair->read_count <= MT_AGREE_READS_MAX);
	to->call.request = (struct wire_node){ .opcode = WIRE_EXTENT_APPEND,
		.offset_bytes = to->length_bytes,
		.length_bytes = batch_bytes,
		.flags = WIRE_FLAG_RECOVERY };
	to->call.piece_count = repair->read_count;
	for (uint32_t i = 0; i < repair->read_count; i++)
		to->call.pieces[i] = (struct dev_piece){ repair->msgs[i]->payload,
			(uint32_t)num_min(batch_bytes - i * MT_RECEIVE_BYTES, MT_RECEIVE_BYTES) };
	sm_move(&agree->sm, MT_AGREE_APPENDING);
	rc = mt_agree_call(agree, repair->to, &to->call, repair_on_appended, agree);
	if (rc != 0)
		repair_failed(agree, to, "", rc);
}
