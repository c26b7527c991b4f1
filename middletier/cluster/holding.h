/* SPDX-License-Identifier: Apache-2.0 */
/* holding.h -- is the session that has a volume open for writing still there? */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_HOLDING_H
#define CLEAVE_MIDDLETIER_CLUSTER_HOLDING_H

#include <stdbool.h>
#include <stdint.h>

struct mt_ask;
struct mt_gateway;
struct mt_session;
struct mt_volume;

/* The sessions of a volume, at all gateways. */
struct mt_holder_answer {
	uint64_t attach;   /* the session that was asked about */
	bool is_held;      /* its session has the volume, and its time is not over */
	bool is_connected; /* it has a queue pair at some port now */
	uint64_t left_ns;  /* held and not connected: the rest of its time */
	uint64_t
	    unknown_gateway; /* a gateway that lives and did not answer, for readers too; 0: none */
	uint32_t reader_count; /* read-only sessions */
};
typedef void (*mt_holder_fn)(const struct mt_holder_answer *answer, void *arg);

/*
 * mt_holder_ask -- ask every port of every gateway that lives: is the session that has @volume still there?
 *
 * A session is gone when it was closed; or when no port of any gateway has had a queue pair of it, or an attempt
 * at one, for the session time (mt_gateway_options.session_ns). A gateway that took shards over from one that
 * does not live counts from then on, for what that one knew is lost with it. A gateway that lives and does not
 * answer leaves it open: is_held, until it answers or its lease has ended.
 * Returns 0: @fn is called once, on main, within some seconds; -ESHUTDOWN; -ENOMEM. One question at a time.
 */
int mt_holder_ask(struct mt_gateway *gateway, const struct mt_volume *volume, mt_holder_fn fn,
    void *arg);
/*
 * mt_holder_ask_all -- as mt_holder_ask, before what users would lose by
 *
 * unknown_gateway may be one that the store has and this one does not see yet: it soon does. Then nobody was asked.
 */
int mt_holder_ask_all(struct mt_gateway *gateway, const struct mt_volume *volume, mt_holder_fn fn,
    void *arg);
/*
 * mt_holder_tell -- tell every gateway that lives that @volume has a new attach number: it reads the volumes anew
 *
 * A gateway that has answered takes nothing any more from sessions that attached before. As mt_holder_ask; of the answer
 * unknown_gateway alone counts: one that lives, and may not know yet.
 */
int mt_holder_tell(struct mt_gateway *gateway, const struct mt_volume *volume, mt_holder_fn fn,
    void *arg);
/*
 * mt_holder_fence -- as mt_holder_tell; and wait until no session that attached before can have a read lease
 *
 * @volume: nobody's, as its key is in the store by now. session/LEASES.md argues the wait. Where unknown_gateway is set
 * nothing was waited for: also for a gateway that the store has and this one does not see yet; it soon does.
 */
int mt_holder_fence(struct mt_gateway *gateway, const struct mt_volume *volume, mt_holder_fn fn,
    void *arg);
/* mt_holder_fini -- drop the question that is out. Nobody runs the ports' loops any more. */
void mt_holder_fini(struct mt_gateway *gateway);
/*
 * mt_holder_on_claim -- a gateway has gone, or a shard has come here that none that lives has given away: the
 * sessions that its owner had are unknown
 *
 * Such sessions have the session time, from now on, to come to another port.
 */
void mt_holder_on_claim(struct mt_gateway *gateway);
/* mt_holder_on_left -- on the port: tell main that a writer's last queue pair here has ended. */
void mt_holder_on_left(struct mt_session *session);
/* mt_holder_count -- is the session that @ask, an MT_ASK_SESSIONS, is about connected to a port of ours? */
bool mt_holder_count(const struct mt_ask *ask, uint32_t *ret_reader_count);
/* mt_holder_silent_ns -- the time since something was heard here of the session that attached as @attach. */
uint64_t mt_holder_silent_ns(struct mt_gateway *gateway, uint64_t volume_id, uint64_t attach);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_HOLDING_H */
