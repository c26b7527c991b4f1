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
#define CLEAVE_GROUP_VOLUMES_MAX 32u /* whose snapshots are taken at one point in time */

/* How a volume's writes are treated. Stored and sent: never reuse a value. */
enum cleave_service_class {
	CLEAVE_SERVICE_STANDARD = 0, /* compressed */
	CLEAVE_SERVICE_LATENCY = 1,  /* not compressed, ahead of queued engine work */
	CLEAVE_SERVICE_CAPACITY = 2, /* compressed harder */
};

/*
 * X(member, least, most): the limits of a volume. 0 is none, or the default.
 *
 *	iops, bytes_s            of reads and writes together; a request of more than 16 KiB counts as one for each 16 KiB
 *	                         that it begins, one without data (a discard, a status) as one of no bytes
 *	read_..., write_...      of these alone, beside the limits of both together
 *	burst_ms                 after a pause, so much of a limit's time may be used at once [250]
 *
 * and its shares, which count where several volumes want more of a port than there is (middletier/port/shares.h):
 *
 *	min_iops                 while it has had less than so many operations a second, it goes before others
 *	weight                   of what is left it has a part by its weight [100, beside others that have one]
 */
#define CLEAVE_LIMIT_LIST(X)                                                                       \
	X(iops, 1, UINT64_C(10000000))                                                             \
	X(bytes_s, 65536, UINT64_C(1) << 40)                                                       \
	X(read_iops, 1, UINT64_C(10000000))                                                        \
	X(read_bytes_s, 65536, UINT64_C(1) << 40)                                                  \
	X(write_iops, 1, UINT64_C(10000000))                                                       \
	X(write_bytes_s, 65536, UINT64_C(1) << 40)                                                 \
	X(burst_ms, 10, 3600000)                                                                   \
	X(min_iops, 1, UINT64_C(10000000))                                                         \
	X(weight, 10, 1000)

/* Limits and shares of a volume: how much it may use of each second. A member that is 0 was not set. */
struct cleave_limits {
#define CLEAVE_LIMIT_MEMBER(name, least, most) uint64_t name;
	CLEAVE_LIMIT_LIST(CLEAVE_LIMIT_MEMBER)
#undef CLEAVE_LIMIT_MEMBER
};

#endif /* CLEAVE_UNITS_H */
