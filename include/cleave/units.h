/* SPDX-License-Identifier: Apache-2.0 */
/*
 * units.h -- the sizes and classes of volumes that clients, gateways and nodes agree on
 *
 * A *block* is the unit of reading, writing and atomicity. A *chunk* is what one shard owns of a
 * volume; no message spans two. A *segment* is the unit in which volumes are given room.
 */
#ifndef CLEAVE_UNITS_H
#define CLEAVE_UNITS_H

#include <stdint.h>

#define CLEAVE_BLOCK_BYTES 4096u
#define CLEAVE_CHUNK_BYTES (UINT64_C(64) << 20)
#define CLEAVE_SEGMENT_BYTES (UINT64_C(32) << 30)
#define CLEAVE_VOLUME_BYTES_MAX (UINT64_C(64) << 40)
#define CLEAVE_VOLUME_NAME_BYTES_MAX 63u

/* How a volume's writes are treated. Stored and sent: never reuse a value. */
enum cleave_service_class {
	CLEAVE_SERVICE_STANDARD = 0, /* compressed */
	CLEAVE_SERVICE_LATENCY = 1,  /* not compressed, ahead of queued engine work */
	CLEAVE_SERVICE_CAPACITY = 2, /* compressed harder */
};

#endif /* CLEAVE_UNITS_H */
