/* SPDX-License-Identifier: Apache-2.0 */
/*
 * envelope.h -- who encrypts draws a salt and a counter for each record: never the same two under one key
 *
 * A writer has one salt, 96 random bits, and counts its records from 0. It draws another salt when it begins and
 * when the counter would wrap. A million beginnings meet with a probability of 2^-57. All that one port encrypts,
 * writes and merges, draws from one writer; a job that is submitted again draws again.
 */
#ifndef CLEAVE_ENVELOPE_H
#define CLEAVE_ENVELOPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/engine.h"

struct envelope_writer {
	/* Fills @out; 0 or -EIO. NULL: the system's random bytes. For a simulator, whose bytes come from a seed. */
	int (*fill)(void *arg, uint8_t *out, size_t bytes);
	void *arg;
	uint64_t next; /* counter; ENVELOPE_COUNTERS: a salt is drawn first */
	uint8_t salt[ENGINE_SALT_BYTES];
};

#define ENVELOPE_COUNTERS (UINT64_C(1) << 32) /* records under one salt */

/* envelope_writer_init -- the first draw gets a salt, by @fill (above). */
void envelope_writer_init(struct envelope_writer *writer,
    int (*fill)(void *arg, uint8_t *out, size_t bytes), void *arg);
/*
 * envelope_draw -- a salt and a counter that no other record has, into @ret_envelope
 *
 * Returns 0; -EIO: there are no random bytes, and @ret_envelope has nothing. Threads: the writer's owner.
 */
int envelope_draw(struct envelope_writer *writer, struct engine_envelope *ret_envelope);

#endif /* CLEAVE_ENVELOPE_H */
