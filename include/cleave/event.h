/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.h -- what happens in a cluster and is worth a person's attention: one list of codes
 *
 * An *event* is a line of a gateway's log that has a code and an object as well, and is kept for `cleave events`. Codes
 * are for machines and never change their meaning.
 */
#ifndef CLEAVE_EVENT_H
#define CLEAVE_EVENT_H

enum cleave_event_level {
	CLEAVE_EVENT_INFO,
	CLEAVE_EVENT_WARN,
	CLEAVE_EVENT_ERROR,
	CLEAVE_EVENT_LEVEL_NR
};

/* X(NAME, "name", level, what it means) */
#define CLEAVE_EVENT_LIST(X)                                                                       \
	X(HEALTH_ERROR, "health-error", ERROR,                                                     \
	    "A reason of level ERROR has come up: cleave status has what helps.")                  \
	X(HEALTH_WARN, "health-warn", WARN,                                                        \
	    "A reason of level WARN has come up: cleave status has what helps.")                   \
	X(HEALTH_OVER, "health-over", INFO, "A reason that was told is over.")                     \
	X(GATEWAY_READY, "gateway-ready", INFO, "The gateway has begun to serve.")                 \
	X(GATEWAY_CHANGED, "gateway-changed", INFO,                                                \
	    "Somebody drained a gateway, or gave it its shards back.")                             \
	X(GATEWAY_SET, "gateway-set", INFO,                                                        \
	    "Somebody changed a gateway's log level, or its --slow-op.")                           \
	X(GATEWAY_LOST, "gateway-lost", WARN, "A gateway that had shards is gone.")                \
	X(GATEWAY_LEFT, "gateway-left", INFO, "A gateway without shards has ended.")               \
	X(GATEWAY_SEVERED, "gateway-severed", WARN,                                                \
	    "A gateway reaches too few storage nodes, others do: it gives its shards to them.")    \
	X(GATEWAY_MENDED, "gateway-mended", INFO,                                                  \
	    "A gateway that was severed reaches enough storage nodes again.")                      \
	X(LEASE_GOT, "lease-got", INFO, "The gateway is a member of the cluster.")                 \
	X(LEASE_LOST, "lease-lost", ERROR, "The gateway's lease has ended: all its shards stop.")  \
	X(LEVEL_RAISED, "level-raised", INFO, "The cluster's level was raised.")                   \
	X(SHARD_SERVED, "shard-served", INFO, "A shard was taken over, and is served here.")       \
	X(SHARD_RELEASED, "shard-released", INFO,                                                  \
	    "A shard was given back; another gateway takes it.")                                   \
	X(SHARD_STOPPED, "shard-stopped", ERROR, "A shard stopped by itself; the text says why.")  \
	X(NODE_UP, "node-up", INFO, "A port has reached a storage node.")                          \
	X(NODE_LOST, "node-lost", WARN, "A port has lost a storage node.")                         \
	X(NODE_UNREACHED, "node-unreached", WARN,                                                  \
	    "A storage node cannot be reached, for another reason than before.")                   \
	X(NODE_FAILING, "node-failing", WARN,                                                      \
	    "The disk of a storage node fails writes: new data goes elsewhere.")                   \
	X(NODE_WRITES, "node-writes", INFO, "The disk of a storage node takes writes again.")      \
	X(NODE_FORGETFUL, "node-forgetful", WARN,                                                  \
	    "A storage node does not have copies that it had: an older image of its disk?")        \
	X(NODE_CHANGED, "node-changed", INFO,                                                      \
	    "Somebody added, drained, removed or changed a storage node.")                         \
	X(STORE_REFUSED, "store-refused", ERROR, "Storage nodes obey another metadata store.")     \
	X(COPIES_STUCK, "copies-stuck", WARN, "Extents lack copies, and no node can take one.")    \
	X(COPIES_WHOLE, "copies-whole", INFO, "Every extent of a shard has its copies again.")     \
	X(COPY_DAMAGED, "copy-damaged", WARN, "A copy was found damaged.")                         \
	X(WRITES_HELD, "writes-held", ERROR, "A shard's log cannot go on: its writes wait.")       \
	X(WRITES_GO_ON, "writes-go-on", INFO, "A shard's log goes on.")                            \
	X(REBALANCE, "rebalance", INFO, "Somebody began or stopped a rebalance.")                  \
	X(VOLUME_WAITS, "volume-waits", WARN, "Writes of a volume wait for room at the nodes.")    \
	X(VOLUME_REFUSED, "volume-refused", ERROR,                                                 \
	    "Writes of a volume are refused: there is no room.")                                   \
	X(VOLUME_CREATED, "volume-created", INFO, "A volume was made, or cloned.")                 \
	X(VOLUME_DELETED, "volume-deleted", INFO, "A volume was deleted.")                         \
	X(VOLUME_TRASHED, "volume-trashed", INFO, "A volume was deleted, into the trash.")         \
	X(VOLUME_RESTORED, "volume-restored", INFO, "A volume was brought back from the trash.")   \
	X(VOLUME_PURGED, "volume-purged", INFO, "A volume of the trash is gone for good.")         \
	X(VOLUME_FLATTENING, "volume-flattening", INFO,                                            \
	    "A clone is to get all that its origin shows; or no more.")                            \
	X(VOLUME_FLATTENED, "volume-flattened", INFO, "A clone has let go of its origin.")         \
	X(VOLUME_RENAMED, "volume-renamed", INFO, "A volume has another name.")                    \
	X(VOLUME_RESIZED, "volume-resized", INFO, "A volume has another size.")                    \
	X(VOLUME_LIMITED, "volume-limited", INFO, "A volume has other limits.")                    \
	X(VOLUME_READS, "volume-reads", INFO,                                                      \
	    "A volume is read elsewhere: at gateways, or nodes.")                                  \
	X(VOLUME_OPENED, "volume-opened", INFO, "Somebody has opened a volume for writing.")       \
	X(VOLUME_TAKEN, "volume-taken", WARN, "Somebody has taken a volume from another writer.")  \
	X(VOLUME_ROLLED_BACK, "volume-rolled-back", INFO,                                          \
	    "A volume is what it was at a snapshot.")                                              \
	X(SNAPSHOT_TAKEN, "snapshot-taken", INFO, "A snapshot was taken.")                         \
	X(SNAPSHOT_DELETED, "snapshot-deleted", INFO, "A snapshot was deleted.")                   \
	X(SNAPSHOT_CHANGED, "snapshot-changed", INFO,                                              \
	    "A snapshot was protected, unprotected or renamed.")                                   \
	X(KEY_MADE, "key-made", INFO, "An encrypted volume has got its data key.")                 \
	X(KEY_ROTATED, "key-rotated", INFO,                                                        \
	    "What is stored of a volume is encrypted with a new data key from now on.")            \
	X(KEY_ERASED, "key-erased", INFO,                                                          \
	    "The data keys of a volume that is gone for good were erased.")                        \
	X(USER_CHANGED, "user-changed", INFO, "Somebody added, changed or removed a user.")        \
	X(KEYS_REVOKED, "keys-revoked", INFO, "A list of revoked keys has come.")                  \
	X(KEY_CUT, "key-cut", WARN, "A connection was cut off: its key was revoked.")              \
	X(SESSION_CUT, "session-cut", WARN,                                                        \
	    "A client lost its right to a volume that it had open: its session was ended.")

enum cleave_event_code {
#define CLEAVE_EVENT_CODE(name, text, level, means) CLEAVE_EVENT_##name,
	CLEAVE_EVENT_LIST(CLEAVE_EVENT_CODE)
#undef CLEAVE_EVENT_CODE
	    CLEAVE_EVENT_CODE_NR
};

struct cleave_event_info {
	const char *name; /* "node-lost" */
	enum cleave_event_level level;
	const char *means; /* for people */
};

/* event_info -- of a code. event_level_name -- "INFO", "WARN", "ERROR". */
const struct cleave_event_info *event_info(enum cleave_event_code code);
const char *event_level_name(enum cleave_event_level level);

#endif /* CLEAVE_EVENT_H */
