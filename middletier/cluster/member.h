/* SPDX-License-Identifier: Apache-2.0 */
/*
 * member.h -- a gateway as a member of its cluster: its lease, who else lives, and who shall own which shard
 *
 * The main loop's, all of it. member.c keeps our own key, member_view.c reads everybody's.
 */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_MEMBER_H
#define CLEAVE_MIDDLETIER_CLUSTER_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "catalog/drained_key.h"
#include "catalog/placed_key.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "cluster/view_lost.h"
#include "common/limits.h"
#include "common/shard_state.h"

struct mt_gateway;

#define MT_MEMBER_KEY_BYTES 32u

enum mt_member_state {
	MT_MEMBER_OUT,         /* not begun, or its timer runs: tries again */
	MT_MEMBER_GRANTING,    /* a lease */
	MT_MEMBER_REGISTERING, /* our key under it; then its version is read */
	MT_MEMBER_UP,          /* renews */
	MT_MEMBER_LEAVING,     /* gives the lease back */
	MT_MEMBER_LEFT,
	MT_MEMBER_STATE_NR
};

/* A gateway that lives, from its key. */
struct mt_member_peer {
	uint64_t gateway_id, boot_id;
	uint64_t version;              /* of the key */
	uint64_t seen_ns;              /* when this boot of it was first seen here */
	uint32_t level_min, level_max; /* that its release speaks; 1 where it says nothing */
	uint32_t port_count;
	char ports[MT_PORTS_MAX][SPLIT_ADDRESS_BYTES_MAX];
};

/* A shard, from its root and from our port's reports. */
struct mt_member_shard {
	bool has_root, is_released;
	bool is_settled; /* its owner's take-over has agreed on all lengths, and has a manifest */
	bool is_new;     /* no owner had a manifest of it yet */
	uint32_t epoch;
	uint64_t gateway_id, boot_id;
	char address[SPLIT_ADDRESS_BYTES_MAX];
	enum mt_shard_state own_state; /* of our port's struct for it */
	uint32_t own_epoch;
	uint32_t refused_count; /* lives in a row that ended before they served */
};

struct mt_member {
	struct mt_gateway *gateway;
	void (*on_all_served)(struct mt_gateway *gateway);
	struct sm sm;
	char key[MT_MEMBER_KEY_BYTES];
	uint64_t key_version; /* 0: we are no member */
	uint64_t lease;
	/* By mt_lease_now_ns: when the grant or renewal that counts was sent; what mt_lease_until_ns says. */
	uint64_t sent_ns, until_ns;
	uint64_t renew_sent_ns, renew_lease;
	bool is_renewing;
	uint32_t failures_in_row;
	struct loop_timer timer;        /* OUT: try again; UP: the next renewal */
	struct loop_timer expiry_timer; /* UP: the lease is over; LEAVING: enough */
	void (*left_fn)(void *arg);
	void *left_arg;
	/* member_view.c */
	bool is_watching, is_reading,
	    is_dirty; /* dirty: something changed since the reading began */
	bool has_view;
	bool is_again;         /* the next reading ends in a word to the ports, come what may */
	bool is_taking;        /* the take timer runs, */
	uint64_t take_ns;      /* until then */
	uint64_t read_ns;      /* when the last reading began */
	uint64_t read_version; /* key_version then */
	uint32_t read_level;   /* that MT_LEVEL_KEY says; 0: there is none */
	struct loop_timer read_timer, take_timer;
	struct mt_member_peer *peers, *next_peers; /* MT_GATEWAYS_MAX; sorted by the key's text */
	uint32_t peer_count;
	struct mt_lost lost;       /* that lived, and are gone: view_lost.c */
	struct mt_drained drained; /* that shall have no shards */
	bool is_drained;           /* we are, and others take our shards */
	struct mt_drained severed; /* that reach too few nodes: severed.c */
	bool is_severed; /* is_drained, and for no other reason: who takes must reach enough */
	struct mt_placed placed;                  /* shards elsewhere than by count: relief.c */
	bool is_drained_told;                     /* the log says that all are given away */
	uint8_t *picks;                           /* of each shard: who shall own it, in peers */
	struct mt_member_shard *shards;           /* the cluster's shard_count */
	uint64_t wanted[CLEAVE_SHARDS_MAX / 64u]; /* as the ports were told */
	bool is_ready_told;
};

/* mt_member_key -- a gateway's key, "gateways/ID", in decimal, into @out. */
void mt_member_key(char out[MT_MEMBER_KEY_BYTES], uint64_t gateway_id);
/* mt_member_level_max -- the highest level that this gateway speaks. */
uint32_t mt_member_level_max(const struct mt_gateway *gateway);
/* mt_member_encode -- the JSON of our own key, to be freed with free(); NULL: no memory. */
char *mt_member_encode(const struct mt_gateway *gateway);
/*
 * mt_member_decode -- a gateway's key, into all of *@ret_peer but version and seen_ns
 *
 * Returns 0; -EBADMSG, and *@ret_field is the member that is wrong; -ENOMEM.
 */
int mt_member_decode(const void *value, uint32_t bytes, struct mt_member_peer *ret_peer,
    const char **ret_field);
/*
 * mt_member_init -- a member without a lease; the cluster is known, its ports have been opened
 *
 * @on_all_served: called once, when every shard has an owner that serves it, for the first time.
 * Returns 0; -ENOMEM, and mt_member_fini is due all the same.
 */
int mt_member_init(struct mt_member *member, struct mt_gateway *gateway,
    void (*on_all_served)(struct mt_gateway *gateway));
/* mt_member_watch -- see the other gateways, and be none of them yet: mt_member_start may follow. Returns 0; -ENOMEM. */
int mt_member_watch(struct mt_member *member);
/* mt_member_start -- begin to get a lease, to keep it, and to get it again. Returns 0; -ENOMEM. */
int mt_member_start(struct mt_member *member);
/* mt_member_leave -- give the lease back, once the ports have stopped; @fn is called once, soon in any case. */
void mt_member_leave(struct mt_member *member, void (*fn)(void *arg), void *arg);
void mt_member_fini(struct mt_member *member);
/* mt_member_lose -- stop all shards, as the lease is over, or may be; then get a new one. @why: for the log. */
void mt_member_lose(struct mt_member *member, const char *why);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_MEMBER_H */
