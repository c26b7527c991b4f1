/* SPDX-License-Identifier: Apache-2.0 */
/* run_pages.h -- a run of four pages, of fake_runs.h, whose directory alone is known, and heads with a CRC that is forged */
#ifndef CLEAVE_TESTS_RUN_PAGES_H
#define CLEAVE_TESTS_RUN_PAGES_H

#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/batch.h"
#include "middletier/index/index.h"
#include "middletier/index/run_dir.h"
#include "middletier/index/run_index.h"
#include "middletier/index/run_load.h"
#include "unit/fake_runs.h"
#include "unit/run_waiters.h"

#define CHUNK mt_chunk_number(FAKE_SEGMENT, 0)

static inline int
load_block(struct mt_run *run, uint32_t block)
{
	mt_run_load_block(run, block, waiter_of(0));
	return wait_told();
}

/* Four batches of ten frames each: 2 blocks, a gap of 1, from block 100 * batch on. */
static inline struct mt_run *
sample(void)
{
	for (uint32_t batch = 1; batch <= 4; batch++) {
		fake_runs_batch(CHUNK, 77, 3);
		for (uint32_t i = 0; i < 10; i++)
			fake_runs_frame(i == 9 ? RECORD_DISCARD : RECORD_WRITE, 100 * batch + 3 * i,
			    2, 1);
		fake_runs_batch_end();
	}
	return fake_runs_end();
}

static inline struct mt_run *
evicted(void)
{
	struct mt_run *run = sample();

	cr_assert_eq(load(run), 0);
	mt_run_cache_evict(run);
	cr_assert_null(run->index);
	cr_assert_not_null(run->dir);
	return run;
}

static inline uint32_t
head_crc(const uint8_t *head)
{
	return crc32c(crc32c(0, head, 124), head + BATCH_HEADER_BYTES, num_get_le32(head + 64));
}

/* Gives the changed @head the CRC that it names, by the request id of its first record: 64 bits that say nothing. */
static inline void
forge(uint8_t *head)
{
	uint8_t *id = head + BATCH_HEADER_BYTES + 32;
	uint32_t wanted = num_get_le32(head + 124), base, diffs[32];
	uint64_t flips[32], flip = 0;

	num_put_le64(id, 0);
	base = head_crc(head);
	memset(diffs, 0, sizeof(diffs));
	for (uint32_t i = 0; i < 64; i++) {
		uint64_t bits = UINT64_C(1) << i;
		uint32_t diff;

		num_put_le64(id, bits);
		diff = head_crc(head) ^ base;
		for (uint32_t k = 0; k < 32 && diff != 0; k++) {
			if ((diff >> k & 1) == 0)
				continue;
			if (diffs[k] == 0) {
				diffs[k] = diff;
				flips[k] = bits;
				break;
			}
			diff ^= diffs[k];
			bits ^= flips[k];
		}
	}
	base ^= wanted;
	for (uint32_t k = 0; k < 32; k++) {
		if ((base >> k & 1) == 0)
			continue;
		base ^= diffs[k];
		flip ^= flips[k];
	}
	num_put_le64(id, flip);
	cr_assert_eq(head_crc(head), wanted);
}

/* Record @nth of a batch: its first block in the segment, and how many they are. */
struct lie {
	uint32_t nth, block, block_count;
};

#endif /* CLEAVE_TESTS_RUN_PAGES_H */
