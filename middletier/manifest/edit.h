/* SPDX-License-Identifier: Apache-2.0 */
/* edit.h -- an edit of a manifest, and its bytes */
#ifndef CLEAVE_MIDDLETIER_MANIFEST_EDIT_H
#define CLEAVE_MIDDLETIER_MANIFEST_EDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/data_key.h"
#include "catalog/sealed_name.h"
#include "catalog/snapshot.h"
#include "catalog/volume.h"
#include "cleave/batch.h"
#include "common/replica.h"

enum mt_edit_kind {
	MT_EDIT_EPOCH = 1,
	MT_EDIT_EXTENT_OPENED = 2,
	MT_EDIT_EXTENT_SEALED = 3,
	MT_EDIT_EXTENT_DELETED = 4,
	MT_EDIT_RUN_ADDED = 5,
	MT_EDIT_RUN_REMOVED = 6,
	MT_EDIT_CUT = 7,
	MT_EDIT_CHECKPOINT_END = 8,
	MT_EDIT_SUCCESSOR = 9,
	MT_EDIT_VOLUME = 10,  /* shard 0's manifest mirrors the volumes, for `cleave recover` ... */
	MT_EDIT_CLUSTER = 11, /* ... and the key "cluster" */
	MT_EDIT_EXTENT_REPLICAS = 12, /* of a sealed extent: these from now on */
	MT_EDIT_CUT_DROPPED = 13,     /* it matters to no chunk any more */
	MT_EDIT_SNAPSHOT = 14,        /* shard 0's: beside the volumes */
	MT_EDIT_PART = 15,            /* a manifest extent that is read before this one */
	MT_EDIT_DATA_KEY = 16,        /* shard 0's: a wrapped data key */
	MT_EDIT_NAME = 17, /* shard 0's: what an encrypted volume, or a snapshot of it, is called */
};

struct mt_edit {
	enum mt_edit_kind kind;
	struct extent_id id; /* EXTENT_*, SUCCESSOR, PART; RUN_*: where the run lies */
	enum extent_kind extent_kind;
	struct mt_replica replicas[MT_REPLICAS_MAX];
	uint32_t replica_count;
	uint64_t length_bytes;     /* SEALED, PART; RUN_ADDED: of the run */
	uint64_t offset_bytes;     /* RUN_*: in the extent */
	uint32_t epoch;            /* EPOCH */
	uint64_t chunk;            /* RUN_* */
	uint64_t flushed_sequence; /* RUN_ADDED */
	uint64_t cut;              /* CUT, CUT_DROPPED, RUN_ADDED */
	/* RUN_ADDED: of its last bytes, which are a batch with its directory, and that one's CRC; 0: it has none. */
	uint32_t directory_bytes, directory_crc;
	uint64_t sequence;      /* CUT; CHECKPOINT_END: next sequence seen */
	uint64_t segment_base;  /* CUT: the segments that it matters to */
	uint32_t segment_count; /* CUT; 0: to none any more, it is but a number */
	union {
		struct mt_volume volume;     /* VOLUME */
		struct mt_snapshot snapshot; /* SNAPSHOT */
		struct mt_data_key data_key; /* DATA_KEY; its version is 0 */
		struct mt_sealed_name name;  /* NAME */
	};
	bool is_deleted;                       /* VOLUME, SNAPSHOT, DATA_KEY, NAME: it is no more */
	uint64_t next_volume_id, next_segment; /* CLUSTER */
	uint64_t next_snapshot, next_clone;    /* CLUSTER */
	uint64_t next_key;                     /* CLUSTER; 0: there has been no data key */
	uint32_t shard_count;                  /* CLUSTER */
	uint32_t level;                        /* CLUSTER; 0 below CLEAVE_LEVEL_STORED */
};
/* Bytes of a volume with MT_SPANS_MAX spans, or of a data key with all that may be wrapped; others take less than 128. */
#define MT_EDIT_BYTES_MAX 640u
/* mt_edit_encode -- @edit as bytes, which edit_decode.h reads. Returns how many. */
uint32_t mt_edit_encode(uint8_t out[MT_EDIT_BYTES_MAX], const struct mt_edit *edit);

#endif /* CLEAVE_MIDDLETIER_MANIFEST_EDIT_H */
