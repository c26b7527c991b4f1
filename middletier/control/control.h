/* SPDX-License-Identifier: Apache-2.0 */
/* control.h -- requests from ports, run on main */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "catalog/snapshot.h"
#include "catalog/volume.h"
#include "cleave/loop.h"

struct mt_control_op;
struct mt_gateway;
struct mt_session;
struct split_msg;
struct wire_control;

#define MT_CONTROL_TEXT_BYTES_MAX (64u * 1024u)
#define MT_CONTROL_IN_FLIGHT_MAX 16u /* control requests a port takes at a time; more get BUSY */

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
	char *text; /* the request's, NUL-terminated */
	uint32_t text_bytes;
	/* Main's. */
	const struct mt_control_op *op;
	json_t *in;
	struct mt_volume volume;           /* of the volume.* ops: wish, then result */
	bool has_snapshots;                /* delete: these as well */
	bool is_forced, is_take, is_taken; /* attach: may take, has taken */
	bool is_held;                      /* it was refused: another has the volume */
	uint64_t session_id;
	struct mt_holder holder;         /* attach: the newcomer */
	struct mt_volumes_waiter waiter; /* volumes are read anew before @op runs */
	uint32_t conflict_count;         /* with changes of other gateways */
	/* control_snapshot.c */
	char snapshot_name[MT_NAME_BYTES];
	char new_name[MT_NAME_BYTES]; /* of a clone; of a volume to be renamed */
	struct mt_snapshot snapshot;
	bool must_shrink, is_check;
	uint64_t wanted_bytes;
	int change_rc;
	void (*change_fn)(struct mt_control_request *request);
	/* The answer. */
	int rc;
	char *answer; /* NULL: out of memory */
};

/* The ends of an op: one of them, once, as its last act. */
/* mt_control_finish -- @out is taken over; NULL: out of memory. */
void mt_control_finish(struct mt_control_request *request, json_t *out);
void mt_control_fail(struct mt_control_request *request, int rc, const char *text);
/* mt_control_fail_json -- @out, taken over, has a member "error"; NULL: out of memory. */
void mt_control_fail_json(struct mt_control_request *request, int rc, json_t *out);
/* mt_control_fail_volume -- names the volume; a conflict with another gateway is run again first. */
void mt_control_fail_volume(struct mt_control_request *request, int rc);

/* mt_control_peer -- the address that it came from, for people. */
const char *mt_control_peer(const struct mt_control_request *request);

/* mt_control_refuse -- fail with a sentence. */
void mt_control_refuse(struct mt_control_request *request, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

int mt_control_init(struct mt_port *port);
void mt_control_fini(struct mt_port *port);
/* mt_control_on_message -- on the port's thread; owns @msg. */
void mt_control_on_message(struct mt_session *session, struct split_msg *msg,
    const struct wire_control *control);
/* mt_control_on_left -- on the port's thread: @session's peer has gone; what it asked for may still wait. */
void mt_control_on_left(struct mt_session *session);
/* mt_control_is_left -- main: nobody is there any more to hear the answer. A peer may go any time after. */
bool mt_control_is_left(const struct mt_control_request *request);
/* mt_control_drop_all -- main: the gateway goes; what waits will not be run. */
void mt_control_drop_all(struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_H */
