/* SPDX-License-Identifier: Apache-2.0 */
/* load_expect.h -- what a block may hold when a run reads it */
#ifndef CLEAVE_VM_CLIENT_LOAD_EXPECT_H
#define CLEAVE_VM_CLIENT_LOAD_EXPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "source.h"

#define LOAD_EXPECT_TEXT_BYTES 160u

/* A block, and what the run that reads it has done to it, as sequences; 0: nothing. */
struct load_expected {
	uint64_t writer, volume_id;
	uint64_t block;        /* of the volume */
	uint32_t acknowledged; /* before the read was submitted */
	uint32_t issued;       /* when it completed */
	uint32_t discarded;    /* the newest discard among those */
};

/*
 * load_expect_stamped -- may a read have returned the block @data, which is stamped?
 *
 * Where nothing was acknowledged it may also hold what was there before the run. False: it may not, and @ret_text says
 * what it is.
 */
bool load_expect_stamped(const struct load_expected *expected, const uint8_t *data,
    char ret_text[LOAD_EXPECT_TEXT_BYTES]);
/* load_expect_exact -- the same of blocks that are @source's, byte for byte. */
bool load_expect_exact(const struct load_expected *expected, const struct source *source,
    const uint8_t *data, char ret_text[LOAD_EXPECT_TEXT_BYTES]);

#endif /* CLEAVE_VM_CLIENT_LOAD_EXPECT_H */
