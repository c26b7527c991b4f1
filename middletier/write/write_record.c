/* SPDX-License-Identifier: Apache-2.0 */
/* write_record.c -- what the log says of a write, and which changes it need not tell of at all */
#include "write/write_record.h"
#include "base/check.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "common/shard.h"
#include "index/hole.h"
#include "session/session.h"
#include "write/write_path.h"

static void
write_fill_desc(const struct mt_write *write, struct record_desc *record)
{
	assert(write_block_count(write) >= 1);
	record->flags = 0;
	record->segment = write->io.segment;
	record->block = write_block(write);
	record->block_count = write_block_count(write);
	record->attach = (uint32_t)write->session->hello.attach;
	record->request_id = write->io.request_id;
}

void
mt_write_fill_tombstone(const struct mt_write *write, struct record_desc *record)
{
	write_fill_desc(write, record);
	record->kind = write->io.opcode == WIRE_DISCARD ? RECORD_DISCARD : RECORD_ZEROES;
	record->codec_id = ENGINE_NONE;
	record->stored_bytes = 0;
	record->stored_crc = 0;
}

void
mt_write_fill_record(const struct mt_write *write, const struct engine_job *job,
    struct record_desc *record)
{
	assert(job->rc == 0);
	assert(write_has_payload(write));
	if (job->is_zero) {
		mt_write_fill_tombstone(write, record);
		return;
	}
	write_fill_desc(write, record);
	record->kind = RECORD_WRITE;
	record->codec_id = job->ret_codec_id;
	record->stored_bytes = job->dst_bytes;
	record->stored_crc = job->stored_crc;
	assert(record->block_count <= NUM_COUNT(record->block_crcs));
	for (uint32_t i = 0; i < record->block_count; i++)
		record->block_crcs[i] = job->block_crcs[i];
}

bool
mt_write_is_needless(const struct mt_write_state *state, const struct mt_write *write)
{
	return !write_has_payload(write) &&
	    mt_chunk_is_hole(state->shard->block_index, &write->session->volume.scope,
		write->io.segment, write_block(write));
}
