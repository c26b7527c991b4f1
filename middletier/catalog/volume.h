/* SPDX-License-Identifier: Apache-2.0 */
/* volume.h -- a volume, as main tells ports about it; volume_table.h has all of them */
#ifndef CLEAVE_MIDDLETIER_CATALOG_VOLUME_H
#define CLEAVE_MIDDLETIER_CATALOG_VOLUME_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/scope.h"
#include "cleave/loop.h"
#include "cleave/units.h"
#include "cleave/wire.h"

#define MT_NAME_BYTES (CLEAVE_VOLUME_NAME_BYTES_MAX + 1)
#define MT_VOLUME_PREFIX "volumes/"
#define MT_VOLUME_KEY_BYTES (sizeof(MT_VOLUME_PREFIX) + MT_NAME_BYTES)

#define MT_HOLDER_CLIENT_BYTES 64u
#define MT_HOLDER_ADDRESS_BYTES 64u /* longer ones are cut: they are for people */

/* The writer of a volume, for people. Kept in the volume's key with its attach number: nothing is decided by it. */
struct mt_holder {
	char client[MT_HOLDER_CLIENT_BYTES];   /* what it calls itself */
	char address[MT_HOLDER_ADDRESS_BYTES]; /* from where it asked */
	char gateway[MT_HOLDER_ADDRESS_BYTES]; /* the port that it asked at */
	uint64_t since_s;                      /* wall clock; 0: not known */
};

/*
 * A volume in the trash: its key is "volumes/trash/ID", and its name in the tables "trash/ID" (trash.h). What is on it
 * stays as it is. SNAPSHOTS.md argues the times.
 */
struct mt_trash {
	char name[MT_NAME_BYTES]; /* that it had; "": the volume is not in the trash */
	char by
	    [MT_HOLDER_ADDRESS_BYTES]; /* who deleted it, as its key says, or from where: for people */
	uint64_t deleted_s;            /* wall clock, when: for people */
	uint64_t keep_ms;              /* how long it is kept */
	uint64_t left_ms; /* of that, when its key was written; 0: it is being purged */
};

/*
 * Where a volume's data may be read past its gateway, under a read lease (session/LEASES.md). Whatever changes it raises
 * the volume's attach number (control/control_reads.c).
 */
enum mt_reads {
	MT_READS_GATEWAY, /* nowhere: no leases */
	MT_READS_HOT,     /* in the gateway's memory */
	MT_READS_DIRECT,  /* at storage nodes */
	MT_READS_NR
};

struct mt_volume {
	uint64_t id;
	char name[MT_NAME_BYTES];
	uint64_t size_bytes;
	uint64_t segment_base;
	uint32_t segment_count;
	enum service_class service_class;
	uint8_t codec_id;
	int level;
	enum mt_reads reads;
	uint32_t replica_count;
	uint32_t key_id;         /* newest data key; 0: not encrypted */
	uint64_t attach;         /* number of the newest attach; 0: never */
	uint64_t session_id;     /* who made it, and may write; 0: nobody, it was closed */
	struct mt_holder holder; /* for people */
	uint64_t origin;         /* the snapshot that it is a clone of; 0: none */
	struct mt_trash trash;
	/* A session of VOLUME@OLD@NEW: the scope holds exactly the blocks that may differ. */
	bool is_difference;
	struct mt_scope scope;
	struct cleave_limits limits; /* none of a snapshot's sessions, nor a difference's */
};

static inline bool
mt_volume_is_trashed(const struct mt_volume *volume)
{
	return volume->trash.name[0] != '\0';
}

/* A roll-back to a snapshot that was flattened before it leaves a clone whose scope shows no origin, and one that counts it. */
static inline bool
mt_volume_is_clone(const struct mt_volume *volume)
{
	return volume->origin != 0 ||
	    mt_scope_tail(&volume->scope, volume->segment_base) < volume->scope.span_count;
}

typedef void (*mt_volume_fn)(int rc, const struct mt_volume *volume, void *arg);

/* Waits for a reading of the volumes that begins after it was asked for. */
struct mt_volumes_waiter {
	struct loop_link link;
	void (*fn)(int rc, void *arg);
	void *arg;
};

#endif /* CLEAVE_MIDDLETIER_CATALOG_VOLUME_H */
