/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heat.h -- how often what is in a run is read: whether its frames are stored for space, or for who reads them
 *
 * A run's *heat* is how often each of its stored bytes was decompressed in the last minutes, in the mean; it halves every
 * HEAT_HALF_S seconds. To read a block costs its whole frame, so 16 random reads of a frame's blocks are a heat of 16.
 *
 *	below HEAT_COLD     a compaction stores what was stored for readers for space again
 *	from HEAT_MERGED    a merge that is done anyway stores for readers
 *	from HEAT_ALONE     a merge is done for the readers alone: what they have paid by then is what it costs
 *
 * Whether reads wanted a frame's blocks one by one, or all of them, is known of the last ones, a dozen or two: mt_heat_is_small.
 *
 * Nothing of it is kept anywhere: who takes a shard over begins at 0. merge/HEAT.md has the figures behind it.
 */
#ifndef CLEAVE_MIDDLETIER_INDEX_HEAT_H
#define CLEAVE_MIDDLETIER_INDEX_HEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"

struct mt_chunk;
struct mt_index;
struct mt_location;
struct mt_run;

#define HEAT_COLD 2u
#define HEAT_MERGED 8u
#define HEAT_ALONE 16u
#define HEAT_MAX 64u        /* no run gets hotter */
#define HEAT_UNIT_BYTES 64u /* so that a run's count fits its struct: there are millions */
#define HEAT_HALF_S 600u
#define HEAT_RUN_BYTES_MIN NUM_KIB(64) /* a shorter one gets no merge for its readers alone */
#define HEAT_SHARE_READS 64u /* what was before so many has no part in a run's small_share */

/*
 * mt_heat_on_read -- a client's read decompresses the record at @location, which is in @run
 *
 * @is_small: the read as a whole wants less than what frames usually have.
 * Threads: the port's, as all of these.
 */
void mt_heat_on_read(struct mt_run *run, const struct mt_location *location, bool is_small);
/* mt_heat_on_more -- the same read decompresses one more: it is no further read that was small, or was not. */
void mt_heat_on_more(struct mt_run *run, const struct mt_location *location);
/* mt_heat_on_reads -- so many reads, elsewhere, have decompressed @bytes of @run, of which some were small. */
struct mt_heat_reads {
	uint64_t bytes;
	uint32_t read_count,
	    small_count; /* of those that are known of: a part of what has @bytes */
	uint8_t codec_id;
};
void mt_heat_on_reads(struct mt_run *run, const struct mt_heat_reads *reads);
/* mt_heat_half -- HEAT_HALF_S have passed. */
void mt_heat_half(struct mt_index *index);
/* mt_heat_of_run, mt_heat_of_chunk -- the heat of a run; of all runs of a chunk, 0 where it has none. */
uint32_t mt_heat_of_run(const struct mt_run *run);
uint32_t mt_heat_of_chunk(const struct mt_chunk *chunk);
/* mt_heat_of_runs -- of those of a chunk from @newest to @oldest, in the mean. */
uint32_t mt_heat_of_runs(const struct mt_run *newest, const struct mt_run *oldest);
/* mt_heat_is_cold -- what is in @chunk's runs is hardly read; false where the shard has not been served for HEAT_HALF_S. */
bool mt_heat_is_cold(const struct mt_chunk *chunk);
/* mt_heat_is_small -- most of what makes the runs from @newest to @oldest hot were small reads. */
bool mt_heat_is_small(const struct mt_run *newest, const struct mt_run *oldest);
/* mt_heat_leave -- @run, which a merge has just made of runs of this @heat, has half of it. Its last reads were theirs. */
void mt_heat_leave(struct mt_run *run, uint32_t heat, bool is_small);
/*
 * mt_heat_hottest -- a run that has become worth a merge for its readers, and holds frames that are dear to read
 *
 * NULL: there is none. One is remembered at a time: the first that came to HEAT_ALONE. It is forgotten when it goes, and
 * when it is asked for and has cooled.
 */
struct mt_run *mt_heat_hottest(struct mt_index *index);
/* mt_heat_forget -- @run is not asked about any more: it goes, or no merge will have it. */
void mt_heat_forget(struct mt_run *run);

#endif /* CLEAVE_MIDDLETIER_INDEX_HEAT_H */
