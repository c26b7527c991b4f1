/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health.h -- what may be wrong with a cluster: one list of codes, for gateways, the command and the handbook
 *
 * A *reason* is a code with an object and a text: "node-down", node 3, "Connection refused". Codes are for machines
 * and never change their meaning; a level is how bad it is at least.
 */
#ifndef CLEAVE_HEALTH_H
#define CLEAVE_HEALTH_H

enum cleave_health_level {
	CLEAVE_HEALTH_OK,
	CLEAVE_HEALTH_WARN,  /* nobody waits yet, or not for long; something is to be done */
	CLEAVE_HEALTH_ERROR, /* clients wait or get errors, or are about to */
	CLEAVE_HEALTH_LEVEL_NR
};

/* X(NAME, "name", level, what it means, what helps) */
#define CLEAVE_HEALTH_LIST(X)                                                                                 \
	X(NO_GATEWAY, "no-gateway", ERROR, "No gateway answers.",                                             \
	    "are the addresses right (--gateway, $CLEAVE_GATEWAY)? Does one run? Start it")                   \
	X(KEY_REFUSED, "key-refused", ERROR,                                                                  \
	    "A gateway refuses this key, or is one that this side refuses.",                                  \
	    "the text says whose key, and why; cleave key show FILE says more of this one's (--key)")         \
	X(KEY_REVOKED, "key-revoked", ERROR,                                                                  \
	    "A gateway's own key was revoked: nodes and gateways that know refuse it.",                       \
	    "is it the rightful one: cleave key issue, systemctl reload; else stop it")                       \
	X(WRITES_WAIT, "writes-wait", ERROR, "Writes have had no answer for ten seconds.",                    \
	    "the text says what they wait for; cleave node list, and the gateway's log")                      \
	X(NODES_FEW, "nodes-few", ERROR,                                                                      \
	    "Fewer storage nodes are up than --min-replicas: writes wait.",                                   \
	    "start the nodes that are down; where other gateways reach them: cleave gateway drain ID")        \
	X(ROOM_OUT, "room-out", ERROR,                                                                        \
	    "Too few nodes have room for new data: writes wait or are refused.",                              \
	    "delete or discard what is not needed, or cleave node add one more; HANDBOOK, A node is full")    \
	X(STORE_STALE, "store-stale", ERROR,                                                                  \
	    "The nodes know later owners of shards than the metadata store does: it is an old copy.",         \
	    "stop the gateways, then cleave recover: HANDBOOK, The metadata store is lost")                   \
	X(STORE_OTHER, "store-other", ERROR, "The nodes obey another metadata store.",                        \
	    "stop this gateway: the cluster is served from the other store")                                  \
	X(STORE_DISPLACED, "store-displaced", ERROR,                                                          \
	    "The metadata store that is in use is not found by its path: no gateway could start again.",      \
	    "was it moved: put it back, and stop no gateway before; deleted: HANDBOOK, The metadata store")   \
	X(STORE_FAILS, "store-fails", ERROR,                                                                  \
	    "The metadata store takes no changes: nothing can be made or opened, and logs end.",              \
	    "the text says why: make room where it lies (df), or look at its disk (dmesg)")                   \
	X(NODE_DISPLACED, "node-displaced", ERROR,                                                            \
	    "A node's disk is no longer found by its path: it could not start again.",                        \
	    "moved: put it back before the node stops; deleted: cleave node drain or replace, while it runs") \
	X(SHARD_UNOWNED, "shard-unowned", ERROR, "No gateway that lives has the shard.",                      \
	    "wait a lease long; then look in the log of the gateway that the text names; or start one")       \
	X(SHARD_SHORT, "shard-short", ERROR, "A port has no device memory for the shard.",                    \
	    "start one more gateway, or this one with the --device-memory that its log names")                \
	X(SHARD_WAITS, "shard-waits", ERROR,                                                                  \
	    "A shard cannot be taken over before a storage node answers.",                                    \
	    "start the node that the text names, or look in its log why it does not answer")                  \
	X(SHARD_FAILED, "shard-failed", ERROR,                                                                \
	    "A shard cannot be taken over: each try ends the same way.",                                      \
	    "the text says why, and what helps; the gateway's log has more")                                  \
	X(PORT_SILENT, "port-silent", ERROR,                                                                  \
	    "A port of a gateway does not answer: its clients wait.",                                         \
	    "its thread hangs, or its host is too busy; a gateway that is restarted gives its shards away")   \
	X(PORT_FULL, "port-full", ERROR,                                                                      \
	    "A port of a gateway has no place for one more connection: clients are refused.",                 \
	    "one more --port or gateway; is ulimit -n below 4096: raise it; end clients that nobody needs")   \
	X(GATEWAY_SILENT, "gateway-silent", ERROR, "A gateway does not answer.",                              \
	    "look at its host and its log; its shards go to others when its lease is over")                   \
	X(ADDRESS_WRONG, "address-wrong", ERROR,                                                              \
	    "Another gateway answers at the address that a gateway tells clients: they go to and fro.",       \
	    "give each of its ports an advertise= that leads to it, and start it again: its log says which")  \
	X(LEASE_OUT, "lease-out", ERROR, "The gateway has no lease, and serves nothing.",                     \
	    "look whether the metadata store answers: the gateway's log")                                     \
	X(LEASE_LOW, "lease-low", ERROR,                                                                      \
	    "The gateway's lease ends soon, and is not renewed: its shards will stop.",                       \
	    "look whether the metadata store answers: the gateway's log")                                     \
	X(KEY_ENDED, "key-ended", ERROR,                                                                      \
	    "The key of a gateway or a node has ended: whoever connects anew refuses it.",                    \
	    "cleave key renew FILE --ca DIR, then systemctl reload: HANDBOOK, Keys")                          \
	X(ROOM_END, "room-end", ERROR, "At most 5 % of the room for data is left.",                           \
	    "delete or discard what is not needed, or cleave node add one more")                              \
	X(KEY_WANTED, "key-wanted", ERROR,                                                                    \
	    "A client waits for an encrypted volume whose data key the gateway cannot open.",                 \
	    "give the gateway the KEK that the text names (--kek), or look why its program fails: its log")   \
	X(WRITES_SLOW, "writes-slow", WARN, "Writes have had no answer for two seconds.",                     \
	    "the text says what they wait for; cleave node list, and the gateway's log")                      \
	X(SHARD_STARTING, "shard-starting", WARN, "A shard is being taken over.",                             \
	    "wait; it takes a second or two, longer where its log is long")                                   \
	X(STORE_SLOW, "store-slow", WARN,                                                                     \
	    "The metadata store has not answered for a second, or answers slowly.",                           \
	    "look at its disk, or at the members of the etcd")                                                \
	X(STORE_MEMBER, "store-member", WARN,                                                                 \
	    "A member of the etcd does not answer, or has no leader.",                                        \
	    "start it, or look at its host and disk; where fewer than half are well every lease ends")        \
	X(STORE_FULL, "store-full", WARN,                                                                     \
	    "The etcd's database is nearly as large as it may be; full, every gateway stops.",                \
	    "etcdctl defrag on each member, or a larger --quota-backend-bytes")                               \
	X(ADDRESS_SILENT, "address-silent", WARN,                                                             \
	    "Nobody answers a gateway at an address of its own that it tells clients.",                       \
	    "is its advertise= right? Let its host reach it (router, /etc/hosts); or --advertise-outside")    \
	X(ADDRESS_UNREACHED, "address-unreached", WARN,                                                       \
	    "A client that is to read at a storage node does not reach it: it reads at gateways.",            \
	    "is the node's --advertise right, and open in firewalls? Or cleave volume set --reads gateway")   \
	X(GATEWAY_LOST, "gateway-lost", WARN,                                                                 \
	    "A gateway that had shards is gone: it has ended, stands still or is cut off.",                   \
	    "start it, or have it go on; one that is not to come back: cleave gateway drain ID --force")      \
	X(NODE_DOWN, "node-down", WARN, "A storage node cannot be reached.",                                  \
	    "start it, or look at the network between; one that never comes back: cleave node remove --lost") \
	X(NODE_READ_ONLY, "node-read-only", WARN,                                                             \
	    "A node's disk takes no more writes: a flush has failed.",                                        \
	    "look at the disk (dmesg, smartctl); then cleave node drain or replace")                          \
	X(NODE_FAILING, "node-failing", WARN,                                                                 \
	    "A node's disk fails writes, and no flush: new data goes elsewhere.",                             \
	    "is it full, or what is below it (df, lvs): make room; else replace the disk (dmesg, smartctl)")  \
	X(NODE_FORGETFUL, "node-forgetful", WARN,                                                             \
	    "A node does not have copies that it had: they are made anew.",                                   \
	    "was an old image put back: wait, an hour without more of them ends this; else replace the disk") \
	X(NODE_SLOW, "node-slow", WARN,                                                                       \
	    "A node answers much slower than its peers: new data goes elsewhere.",                            \
	    "look at its disk and its network (iostat, smartctl)")                                            \
	X(NODE_FULL, "node-full", WARN, "A node has no room for new data.",                                   \
	    "cleave cluster rebalance, or cleave node add one more; HANDBOOK, A node is full")                \
	X(SLOTS_DIFFER, "slots-differ", WARN,                                                                 \
	    "A node's slots are half as large as the others', or twice: half of slots is wasted, or more.",   \
	    "cleave node drain ID --wait, node remove; then join it with the --slot-size of the others")      \
	X(NODE_MAINTENANCE, "node-maintenance", WARN,                                                         \
	    "A node is in maintenance: what it holds is not made anew elsewhere.",                            \
	    "cleave node set ID --maintenance off, when it is done")                                          \
	X(DOMAINS_FEW, "domains-few", WARN,                                                                   \
	    "Fewer failure domains take new data than there are copies: it has fewer.",                       \
	    "start the nodes that are down, mend what fails, end maintenance; or add one of another domain")  \
	X(COPIES_LACK, "copies-lack", WARN, "Extents have fewer good copies than they should.",               \
	    "repair makes them anew --repair-after a node is lost: cleave status shows how many are left")    \
	X(BLOCKS_UNREAD, "blocks-unread", WARN,                                                               \
	    "Merges, or flattenings, find no copy of some blocks that passes: these stay where they are.",    \
	    "look at the disks of the nodes that the log names (merge: bad copy); restart the gateway")       \
	X(ROOM_LOW, "room-low", WARN, "At most 15 % of the room for data is left.",                           \
	    "delete or discard what is not needed, or cleave node add one more")                              \
	X(KEY_MISSING, "key-missing", WARN,                                                                   \
	    "The gateway cannot open data keys: it serves none of their volumes.",                            \
	    "give the gateway the KEK that the text names (--kek), or look why its program fails: its log")   \
	X(REVOKED_REFUSED, "revoked-refused", WARN,                                                           \
	    "The gateway does not take the store's list of revoked keys: it may let in whom it names.",       \
	    "the text says why; cleave key publish LIST, with the newest of the authority, puts it right")    \
	X(SCRUB_LATE, "scrub-late", WARN,                                                                     \
	    "Copies have not been verified for two scrub intervals.",                                         \
	    "nodes are too busy or away: a longer --scrub-interval, or a higher --verify-rate at the nodes")  \
	X(ORPHANS_HELD, "orphans-held", WARN,                                                                 \
	    "Copies that no manifest names are held back: more than a sixteenth of a node's.",                \
	    "cleave sweep lists them; with --confirm they are deleted")                                       \
	X(CLOCKS_APART, "clocks-apart", WARN,                                                                 \
	    "Clocks on the wall differ by a second: dates, and ends of maintenance, are off.",                \
	    "mend the time service of the host that is wrong (chronyc tracking); no write depends on it")     \
	X(KEY_ENDS, "key-ends", WARN, "The key of a gateway or a node ends within 30 days.",                  \
	    "cleave key renew FILE --ca DIR, then systemctl reload: HANDBOOK, Keys")                          \
	X(LEVELS_MIXED, "levels-mixed", WARN, "Gateways or nodes of more than one release run.",              \
	    "end the upgrade: HANDBOOK, Upgrades")

enum cleave_health_code {
#define CLEAVE_HEALTH_CODE(name, text, level, means, helps) CLEAVE_HEALTH_##name,
	CLEAVE_HEALTH_LIST(CLEAVE_HEALTH_CODE)
#undef CLEAVE_HEALTH_CODE
	    CLEAVE_HEALTH_CODE_NR
};

struct cleave_health_info {
	const char *name; /* "node-down" */
	enum cleave_health_level level;
	const char *means, *helps; /* for people */
};

/* health_info -- of a code. health_level_name -- "OK", "WARN", "ERROR". */
const struct cleave_health_info *health_info(enum cleave_health_code code);
const char *health_level_name(enum cleave_health_level level);

#endif /* CLEAVE_HEALTH_H */
