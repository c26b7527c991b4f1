/* SPDX-License-Identifier: Apache-2.0 */
/* session.h -- a client's queue pair on a port */
#ifndef CLEAVE_MIDDLETIER_SESSION_SESSION_H
#define CLEAVE_MIDDLETIER_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "catalog/snapshot.h"
#include "catalog/volume.h"
#include "cleave/loop.h"
#include "cleave/secure.h"
#include "cleave/wire.h"
#include "session/auto_state.h"

struct dev_remote;
struct mt_port;
struct mt_rate;
struct mt_session;
struct mt_throttle_volume;
struct mt_volume_query;
struct split_msg;
struct split_qp;

/*
 * mt_session_host -- what a session tells and asks its port (mt_sessions_init), on the port's thread
 *
 * All are required. None keeps @session, but for requests that were counted with mt_session_begin.
 */
struct mt_session_host {
	/* Messages of an accepted queue pair, owned by the host from here on. May close @session, also between two. */
	void (*on_messages)(struct mt_session *session, struct split_msg *const *msgs,
	    uint32_t count);
	/* The queue pair has ended. Requests of @session that wait may be answered within the call. */
	void (*on_left)(struct mt_session *session);
	/*
	 * A question to main. It comes back by @query->post to @fn on the port's thread, never within the call, with
	 * @query->rc set. A volume that main does not know, or with an attach older than @query->attach, or which
	 * ends before @query->end_bytes, is read anew first.
	 */
	void (*ask_volume)(struct mt_volume_query *query, struct mt_port *port,
	    void (*fn)(struct loop_post *post, void *arg), void *arg);
};

/* mt_sessions_init -- @port has none yet; @host is told and asked by those that come. */
void mt_sessions_init(struct mt_port *port, const struct mt_session_host *host);
/* mt_session_fini_all -- forget what is left when the port goes. */
void mt_session_fini_all(struct mt_port *port);

/* Pages of hot blocks that a session's client may read by itself (read/hot_pages.c). */
struct mt_session_pages {
	uint32_t generation; /* 0: there is none */
	uint32_t count;
	const struct dev_remote *remotes; /* their keys */
};

#define MT_SESSION_WHY_BYTES 200u    /* of a sentence that says why a session is refused */
#define MT_SESSION_MAGIC 0x53534553u /* "SESS" */

struct mt_session {
	uint32_t magic;
	struct loop_link link;      /* port->sessions */
	struct loop_link wait_link; /* WAITING: port->session.waiting */
	struct mt_port *port;
	struct split_qp *qp; /* NULL: gone, requests in flight are finishing */
	struct sm sm;
	bool
	    has_subject; /* the peer has shown who it is: subject, for main, too; it stays as it is */
	struct split_subject subject;
	struct wire_hello hello;
	struct mt_volume volume; /* valid for I/O sessions */
	struct mt_rate *rate;    /* what is counted of the volume here; NULL: nothing */
	uint8_t level;           /* agreed on with the client */
	uint32_t limits_tag; /* of volume.limits; 0: it has none. Set by mt_session_set_limits */
	struct mt_throttle_volume
	    *throttle;                 /* port/throttle.c's; NULL: no request was judged yet */
	struct mt_share_volume *share; /* port/shares.c's; likewise */
	bool has_shares; /* volume.limits has a minimum or a weight: counted in port->flow */
	struct mt_auto autos[SERVICE_CLASS_NR];
	uint64_t read_segment, read_end_bytes; /* read_path.c: where its last read ended */
	uint32_t write_count; /* writes in flight; nothing new is admitted before they end (I11) */
	uint32_t request_count;
	/* session.c's: the question to main, and for how long a peer may wait for its accept. */
	struct mt_volume_query {
		struct loop_post post;
		struct mt_port *port;
		void (*fn)(struct loop_post *post, void *arg); /* on the port's loop */
		void *arg;
		uint64_t volume_id;
		uint64_t attach;                     /* the one that the client says it made */
		uint64_t end_bytes;                  /* as far as the client says that it goes */
		const struct split_subject *subject; /* of a port with a key: who asks */
		bool is_write;                       /* it wants to write, too */
		bool are_rights_read;                /* main's: once more, for this question */
		bool are_keys_read;                  /* likewise: data keys */
		/* The answer: 0 and volume; -ENOENT; -ENOKEY no right; -ENOMEDIUM and why: no data key; -EHOSTDOWN main does not know yet. */
		int rc;
		char why[MT_SESSION_WHY_BYTES];
		struct mt_volume volume;
		bool is_out;                     /* with main: the session's memory stays */
		struct mt_volumes_waiter waiter; /* main's */
	} query;
	struct {                 /* read_lease.c's */
		bool is_asked;   /* answers carry leases */
		uint64_t end_ns; /* of the last one, by mt_lease_now_ns; 0: there is none */
	} lease;
	struct mt_session_pages *pages; /* NULL: its client has not asked */
	/* direct_told.c's: when its client spoke of a bad copy, and of what it has read; 0: never */
	uint64_t suspect_ns, heated_ns;
	struct loop_timer lease_timer; /* WAITING: older sessions' leases are over */
	bool must_ask_right;           /* as soon as the query is back */
	bool is_size_fresh; /* asked for again, and a request went beyond it all the same */
	/* To main, when a writer's queue pair has ended; the session's memory stays until it is back. */
	struct loop_post left_post;
	bool is_telling;
	struct loop_timer accept_timer;
};

/* mt_session_on_accept -- the port's listener: checks hello, volume, attach and incarnation. */
void mt_session_on_accept(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg);
/* mt_session_request_done -- a request of this session was answered or dropped. @session may be freed. */
void mt_session_request_done(struct mt_session *session, bool is_write);
/* mt_session_begin -- a request that another file answers begins: the session lives until mt_session_request_done. */
void mt_session_begin(struct mt_session *session, bool is_write);
/* mt_session_close -- close its queue pair, or refuse it with @rc < 0; a no-op when that is done. @session may be freed. */
void mt_session_close(struct mt_session *session, int rc);
/*
 * mt_session_is_reader -- it reads a snapshot, or a volume beside its writer: it takes nothing from anybody
 *
 * A hello with attach 0 says so: attach numbers begin at 1.
 */
static inline bool
mt_session_is_reader(const struct mt_session *session)
{
	const struct wire_hello *hello = &session->hello;

	return hello->volume_id != 0 &&
	    ((hello->volume_id & MT_SNAPSHOT_ID) != 0 || hello->attach == 0);
}
/* mt_session_may_write -- what waited for its shard may still be admitted: its queue pair is there. */
bool mt_session_may_write(const struct mt_session *session);
/* mt_session_renew -- of a reader: the volume was attached; it comes again if the volume is another one now. */
void mt_session_renew(struct mt_session *session, const struct mt_volume *volume);
/* mt_session_try_free -- the last act of whoever calls it: @session is freed, if it has ended and nothing of it is out. */
void mt_session_try_free(struct mt_session *session);
/* mt_session_told -- main knows that a writer's queue pair has ended; @session may be freed. */
void mt_session_told(struct mt_session *session);
/* mt_session_set_limits -- the volume has these by now; its replies tell the client, whose library asks for them. */
void mt_session_set_limits(struct mt_session *session, const struct cleave_limits *limits);
/* mt_session_is_live -- it has, or is about to get, an accepted queue pair. */
bool mt_session_is_live(const struct mt_session *session);

#endif /* CLEAVE_MIDDLETIER_SESSION_SESSION_H */
