/* SPDX-License-Identifier: Apache-2.0 */
/* control_request.h -- a control request: taken on a port, run on main, answered on the port */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_REQUEST_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "catalog/drained_key.h"
#include "catalog/node_key.h"
#include "catalog/snapshot.h"
#include "catalog/volume.h"
#include "cleave/event.h"
#include "cleave/loop.h"
#include "cluster/node_table.h"
#include "cluster/rights.h"
#include "common/event.h"
#include "common/port.h"

struct mt_control_request;
struct mt_gateway;
struct mt_session;
struct mt_volume_entry;
struct split_msg;
struct wire_control;

#define MT_CONTROL_TEXT_BYTES_MAX (64u * 1024u)
#define MT_NODE_CHANGES_BYTES 160u   /* of an event's text, which has more to say */
#define MT_CONTROL_IN_FLIGHT_MAX 16u /* control requests a port takes at a time; more get BUSY */

/* Texts for mt_control_fail, where something could not be asked or read. */
#define MT_CONTROL_NOT_NOW                                                                         \
	"the gateway cannot answer now, it is stopping or out of memory: ask again, or another one"
#define MT_CONTROL_NO_STORE                                                                        \
	"the metadata store cannot be read: see the gateway's log, and ask again"

/* Which members of an op's requests name volumes: what a client asks for is judged by them (control_allow.c). */
enum mt_names {
	MT_NAMES_NONE,  /* none: a right is somebody's, or is not, whatever the volume */
	MT_NAMES_NAME,  /* "name": VOLUME, or VOLUME@SNAPSHOT */
	MT_NAMES_NEW,   /* "name", of a volume that is to be made */
	MT_NAMES_BOTH,  /* "name", and "new", what it, or what is made of it, shall be called */
	MT_NAMES_LIST,  /* "names": several */
	MT_NAMES_TRASH, /* "name", of a volume in the trash, or its id; and "new" as above */
	MT_NAMES_MANY, /* "name", if it is there; else the op tells of those that who asks may see */
	MT_NAMES_ID,   /* "id": the op itself takes a volume that who asks may not see for none */
	MT_NAMES_NR
};

/* An op: a request can ask for it, by its name. */
struct mt_control_op {
	const char *name;
	bool is_change; /* they run one after the other; is_volume, too */
	bool is_volume; /* other gateways' changes are read first */
	enum mt_right right;
	enum mt_names names;
	/* Ends in mt_control_finish, or in one that fails: now or later, or runs again. */
	void (*run)(struct mt_control_request *request);
};

/* A request that main has is in one of these; see control_request.c. */
enum mt_control_state {
	MT_CONTROL_TAKEN,
	MT_CONTROL_QUEUED,  /* a change, behind others */
	MT_CONTROL_READING, /* the tables, as other gateways have left them */
	MT_CONTROL_RUNNING, /* the op */
	MT_CONTROL_ANSWERED,
	MT_CONTROL_STATE_NR
};

/* A control request: a slot of its port, filled there, run on main, answered there. */
struct mt_control_request {
	struct loop_link link; /* gateway->control_queue */
	struct loop_post post;
	struct mt_port *port;
	struct mt_gateway *gateway;
	struct mt_session *session;
	struct split_msg *msg;
	uint64_t request_id;
	bool is_busy;
	bool is_left; /* by the port, for main: who asked has gone */
	char peer[MT_HOLDER_ADDRESS_BYTES];
	char by
	    [MT_HOLDER_CLIENT_BYTES]; /* who it is, or what it calls itself; "": a release before does not say */
	char *text;                   /* the request's, NUL-terminated */
	uint32_t text_bytes;
	void (*begin)(struct mt_control_request *request); /* on main, once */
	/* Main's. */
	struct sm sm;
	const struct mt_control_op *op;
	json_t *in;
	struct mt_volumes_waiter waiter; /* READING; and of a change, when it is done */
	struct loop_timer look_timer;    /* READING, of one that only looks */
	uint32_t conflict_count;         /* with changes of other gateways */
	struct mt_volume volume;         /* of the volume.* ops: wish, then result */
	bool is_forced;                  /* also where it would be refused */
	bool has_snapshots;              /* volume.delete: these as well */
	bool are_keys_read;              /* control_data_key.c, for this request */
	struct {
		uint64_t id;     /* the volume that lets no session in meanwhile; 0: none */
		uint64_t attach; /* its newest, when that began */
		uint64_t
		    meant; /* the first of them: whatever has its name when the request begins again */
		bool is_fenced; /* mt_change_fence: whoever has attached since is not put out */
		uint64_t size_bytes; /* when that began */
		void (
		    *then)(struct mt_control_request *request, const struct mt_volume_entry *entry);
	} alone; /* mt_control_keep_out */
	struct {
		bool is_purge;   /* volume.delete: at once */
		uint64_t keep_s; /* volume.delete; 0: it does not say */
		/* trash.purge: of the volume that is being purged; volume.delete: of the one that is meant, or 0 */
		uint64_t id;
	} trash;
	struct {
		uint64_t id; /* that the client means, of an open, too; 0: whatever has the name */
		uint64_t asked_id; /* of the volume of which it was asked who has it */
		uint64_t session_id;
		struct mt_holder holder; /* the newcomer */
		bool is_take, is_taken;  /* it may take the volume from another; it has */
		bool is_held;            /* it was refused: another has the volume */
	} attach;                        /* control_attach.c */
	struct {
		char snapshot_name[MT_NAME_BYTES];
		char new_name[MT_NAME_BYTES]; /* of a clone; of a volume to be renamed */
		struct mt_snapshot snapshot;
		uint64_t wanted_bytes; /* volume.resize */
		bool must_shrink, is_check;
		uint32_t level;  /* cluster.upgrade: to be */
		json_t *missing; /* likewise: gateways that do not speak it; NULL: none was asked */
		int rc;          /* the transaction's */
		void (*fn)(struct mt_control_request *request);
	} change; /* control_change.c, and those that use it */
	struct {
		uint64_t id;
		struct mt_node
		    node;         /* as it is to be; version: of the key that this was made from */
		const char *what; /* happened, for the log */
		char changes[MT_NODE_CHANGES_BYTES]; /* set: what, member by member */
		struct mt_nodes_waiter waiter;
		void (*fn)(struct mt_control_request *request);
		uint32_t round;           /* of counting what it holds */
		uint64_t cluster_version; /* of the key that the others were counted by, or 0 */
		bool is_tallied;      /* remove --lost: shards were asked what they have there */
		uint32_t named_count; /* copies, as they said; UINT32_MAX: not all did */
	} node;                       /* control_node.c, control_node_leave.c */
	struct {
		uint64_t id;
		bool is_drain;
		struct mt_drained drained; /* the key as it was read, then as it is to be */
	} gateway_change;                  /* control_gateway.c */
	/* The answer. */
	int rc;
	char *answer; /* NULL: out of memory */
};

/*
 * mt_control_take -- a message becomes a request; @begin runs on main, and calls mt_control_run or an end
 *
 * Ownership: @msg is the request's until it is answered.
 * Errors:    none to the caller. Without a free slot, or memory, the answer is BUSY, or NO_MEMORY.
 * Threads:   the port's of @session.
 */
void mt_control_take(struct mt_session *session, struct split_msg *msg,
    const struct wire_control *control, void (*begin)(struct mt_control_request *request));
/* mt_control_run -- main, of begin: @op runs, now or when it is its turn, and again after a conflict. */
void mt_control_run(struct mt_control_request *request, const struct mt_control_op *op);

/* The ends of an op: one of them, once, as its last act; on main. @request is the port's then. */
/* mt_control_finish -- @out is taken over; NULL: out of memory. */
void mt_control_finish(struct mt_control_request *request, json_t *out);
/* mt_control_fail -- @rc, a negative errno, travels as a status; @text is for people. */
void mt_control_fail(struct mt_control_request *request, int rc, const char *text);
/* mt_control_fail_json -- @out, taken over, has a member "error"; NULL: out of memory. */
void mt_control_fail_json(struct mt_control_request *request, int rc, json_t *out);
/* mt_control_fail_volume -- names request->volume; -EAGAIN, a conflict with another gateway, is run again first. */
void mt_control_fail_volume(struct mt_control_request *request, int rc);
/* mt_control_refuse -- mt_control_fail with a sentence; what is longer than MT_ERROR_BYTES is cut. */
void mt_control_refuse(struct mt_control_request *request, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * mt_control_keep_out -- no session is let in to the volume of @entry, until mt_control_let_in
 *
 * It is called where the request ends, or begins again, whatever the volume is called by then.
 */
void mt_control_keep_out(struct mt_control_request *request, struct mt_volume_entry *entry);
void mt_control_let_in(struct mt_control_request *request);

/*
 * mt_control_has_level -- the cluster is of @level or above; otherwise the request is refused with -ENOTSUP
 *
 * @lacks: what a cluster of an earlier level is like, behind "of level N, ". Of what a gateway or a node of the release
 * before cannot read nothing may be written.
 */
bool mt_control_has_level(struct mt_control_request *request, uint32_t level, const char *lacks);

/*
 * mt_control_may_count -- ids and numbers may be given out: the metadata store was judged (mt_view_is_judged)
 *
 * False: the request is refused with -EBUSY, for its client to ask again: a take-over of shard 0 lasts a second or two.
 */
bool mt_control_may_count(struct mt_control_request *request);

/* mt_control_event -- an event that the request brought about: by= and from=, who asked, are added to the line. */
void mt_control_event(const struct mt_control_request *request, enum cleave_event_code code,
    const char *object, const char *format, ...) __attribute__((format(printf, 4, 5)));
/*
 * mt_control_take_by -- the member "by" leaves request->in; of any other kind than a text it stays, and is refused
 *
 * Where the connection has an identity that counts, and not what the client calls itself.
 */
void mt_control_take_by(struct mt_control_request *request);
/* mt_control_set_by -- @by is what the client calls itself: made plain, and cut. */
void mt_control_set_by(struct mt_control_request *request, const char *by);
/* mt_control_who -- 'by="NAME" from=ADDRESS', for a line of the log. */
const char *mt_control_who(const struct mt_control_request *request,
    char ret_text[MT_EVENT_WHO_TEXT_BYTES]);
/* mt_control_peer -- the address that it came from, for people. */
const char *mt_control_peer(const struct mt_control_request *request);
/* mt_control_is_left -- main: nobody is there any more to hear the answer. A peer may go any time after. */
bool mt_control_is_left(const struct mt_control_request *request);

/* mt_control_init -- the port is being opened: its slots. 0; -ENOMEM. */
int mt_control_init(struct mt_port *port);
/* mt_control_fini -- nobody runs the port's loop, nor main's requests, any more. */
void mt_control_fini(struct mt_port *port);
/* mt_control_on_left -- on the port's thread: @session's peer has gone; what it asked for may still wait. */
void mt_control_on_left(struct mt_session *session);
/* mt_control_drop_all -- main: the gateway goes; what waits will not be run. */
void mt_control_drop_all(struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_REQUEST_H */
