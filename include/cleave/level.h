/* SPDX-License-Identifier: Apache-2.0 */
/*
 * level.h -- what daemons of different releases may say to each other, and write where others read
 *
 * A *level* is a number. A release speaks all levels from CLEAVE_LEVEL_MIN to CLEAVE_LEVEL_MAX, and the
 * list below says what each of them added. It is used twice:
 *
 * - On a connection both ends use the highest level that both speak. The hello offers one and its answer
 *   names the one that counts. A peer of level 1 knows only its own, and refuses every other: it is
 *   dialled once more with that.
 * - In the metadata store and in manifests all writers keep to the *cluster's* level. It is raised by
 *   `cleave cluster upgrade` alone, by one, when every gateway and every node speaks the next. From then
 *   on a release that does not is refused; until then every daemon may go back to the one before.
 *
 * To add a message, a member or a format:
 *
 * 1. Take the level that no release has spoken yet: define CLEAVE_LEVEL_NOUN below, as CLEAVE_LEVEL_MAX.
 * 2. On the wire send it to a peer only whose connection agreed on that level.
 * 3. In a store write it only while the cluster's level is that; read it, and its absence, from now on.
 * 4. Give each member its line in tests/levels.tsv: tests/tidy compares that with the decoders.
 * 5. Keep the golden bytes of the levels before; tests/skew runs both releases in one cluster.
 */
#ifndef CLEAVE_LEVEL_H
#define CLEAVE_LEVEL_H

#include <stdbool.h>
#include <stdint.h>

#define CLEAVE_LEVEL_MIN 1u
#define CLEAVE_LEVEL_MAX 2u

/* Level 1 is the first. */
#define CLEAVE_LEVEL_HOLES                                                                         \
	2u /* connection: the request HOLES, which gateways of level 1 may not know */
#define CLEAVE_LEVEL_STORED 2u  /* store: the member "level" of the key "cluster" */
#define CLEAVE_LEVEL_DRAINED 2u /* store: the key "shards/drained" */
#define CLEAVE_LEVEL_PLACED 2u  /* store: the key "shards/placed" */
#define CLEAVE_LEVEL_SEVERED 2u /* store: the key "shards/severed" */
#define CLEAVE_LEVEL_LIMITS                                                                        \
	2u /* store: the member "qos" of "volumes/"; connection: the tag of limits in replies */
#define CLEAVE_LEVEL_NODES 2u /* store: the keys "nodes/", and "next_node" of the key "cluster" */

#define CLEAVE_LEVEL_BY 2u /* connection: the member "by" of control requests: who asks */
/* store: the member "group" of "snapshots/", and in the edit that mirrors it; peers: "others" of the op "cut" */
#define CLEAVE_LEVEL_GROUPS 2u

/* store: keys "volumes/trash/"; "protected" of "snapshots/"; both in the edits that mirror them */
#define CLEAVE_LEVEL_TRASH 2u

#define CLEAVE_LEVEL_FLATTEN 2u /* store: the keys "flattening/" */

#define CLEAVE_LEVEL_FIND 2u /* connection: the request FIND to a node */

#define CLEAVE_LEVEL_GATHER 2u /* connection: the request GATHER to a node */

#define CLEAVE_LEVEL_LEND 2u /* connection: the request LEND to a node */

#define CLEAVE_LEVEL_USERS 2u /* store: the keys "users/" */

/* store: the keys "keys/", "next_key" of the key "cluster", "key" of "volumes/"; the edits that mirror them */
#define CLEAVE_LEVEL_ENCRYPTED 2u

/* store: the key "revoked"; connection: the op "revoked" of control requests to a node */
#define CLEAVE_LEVEL_REVOKED 2u

/*
 * store: the member "reads" of "volumes/", and in the edit that mirrors them; connection: the requests LEASE and CHUNK_MAP
 * to a gateway, TICKETS, DIRECT_READ, TICKET_KEY and VOLUME_FENCE to a node
 */
#define CLEAVE_LEVEL_READS 2u

/* nodes: run batches that are directories; store: "directory" of the edit RUN_ADDED */
#define CLEAVE_LEVEL_DIRECTORIES 2u

/* connection: a hello of role GATEWAY to a gateway, and the request MIRROR_HEADS */
#define CLEAVE_LEVEL_PEERS 2u

/* connection: the requests JOB_ASSIGN, JOB_CANCEL and JOB_LOAD to a gateway */
#define CLEAVE_LEVEL_WORKERS 2u

#define LEVEL_REMEMBERED_NS                                                                        \
	(60u * UINT64_C(1000000000)) /* that a peer is old: it may be upgraded */

/*
 * wire_level -- of one address that is dialled again and again. On the thread of its loop.
 *
 * Invariant: a peer that speaks CLEAVE_LEVEL_MIN is reached, in at most two attempts.
 */
struct wire_level {
	uint8_t max;       /* what we speak; at least CLEAVE_LEVEL_MIN */
	uint8_t offered;   /* in the last hello; 0: there was none */
	uint64_t until_ns; /* the peer is taken for old until then; 0: it is not */
};

/* wire_level_init -- @max: 0 is CLEAVE_LEVEL_MAX, less is for tests: a release of before. */
void wire_level_init(struct wire_level *level, uint8_t max);
/* wire_level_offer -- for the hello that is sent now. */
uint8_t wire_level_offer(struct wire_level *level, uint64_t now_ns);
/*
 * wire_level_refused -- the connection that was offered ended with @rc before it was ready
 *
 * True: the peer is of an older release. Dial again at once: the next offer is CLEAVE_LEVEL_MIN.
 */
bool wire_level_refused(struct wire_level *level, int rc, uint64_t now_ns);
/*
 * wire_level_forget -- the peer may be another release now: the next offer is the highest
 *
 * Its connection was ready and has ended; or it was refused for being old, and may have been upgraded.
 */
void wire_level_forget(struct wire_level *level);
/* wire_level_agreed -- the level that @answered, of the peer's answer, makes it: 0 if we never offered that. */
uint8_t wire_level_agreed(const struct wire_level *level, uint8_t answered);
/* wire_level_answer -- what to answer to a hello that offers @offered, with @max as above. */
uint8_t wire_level_answer(uint8_t offered, uint8_t max);

#endif /* CLEAVE_LEVEL_H */
