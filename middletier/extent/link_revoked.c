/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link_revoked.c -- lists of revoked keys, from a port to its nodes
 *
 *	a new key of the port --> text, once --> each link that is up --{"op":"revoked","lists":PEM}--> 0: it has them
 *	a link comes up ----------------------------^                                    else: with the next status
 *
 * All links send the same text: it lies in the port's device memory until the last of them has its answer. A node that
 * takes not all of it (its file lacks an authority so far) is sent it again with each status, which it is asked for
 * every ten seconds while it is used.
 */
#include "extent/link_revoked.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "cleave/level.h"
#include "cleave/secure.h"
#include "common/alloc.h"
#include "common/event.h"
#include "common/port.h"
#include "common/settings.h"
#include "extent/link_call.h"
#include "extent/node_link.h"

/* As it travels. */
struct mt_revoked_text {
	struct split_port *split;
	dev_ptr payload;
	uint32_t bytes;
	uint32_t user_count; /* links that send it, and the port */
};

static void
text_drop(struct mt_revoked_text *text)
{
	if (text == NULL || --text->user_count > 0)
		return;
	dev_free(text->split, text->payload);
	mt_free(text);
}

/* NULL: the port's key has no lists, or there is no room, which is logged. */
static struct mt_revoked_text *
text_make(struct mt_port *port)
{
	struct mt_revoked_text *text = NULL;
	size_t bytes;
	const char *lists = split_key_revoked(split_port_key(port->split), &bytes);
	json_t *object;
	char *json;

	if (bytes == 0)
		return NULL;
	object = json_pack("{s:s, s:s}", "op", "revoked", "lists", lists);
	json = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
	json_decref(object);
	if (json != NULL)
		text = mt_calloc(1, sizeof(*text));
	if (text != NULL) {
		text->split = port->split;
		text->user_count = 1;
		text->bytes = (uint32_t)strlen(json);
		text->payload = dev_alloc(port->split, text->bytes);
	}
	if (text != NULL && dev_ptr_is_null(text->payload)) {
		mt_free(text);
		text = NULL;
	}
	if (text != NULL)
		dev_copy_from_host(port->split, text->payload, json, text->bytes);
	else
		log_error("port: no memory to tell the nodes which keys were revoked port=%" PRIu32,
		    port->index);
	free(json);
	return text;
}

/* ---- a link's ---- */

static void
revoked_on_answer(struct mt_call *call, int rc, const struct wire_node_reply *reply,
    struct split_msg *msg, void *arg)
{
	struct mt_link *link = arg;
	struct mt_revoked_text *sent = link->revoked.sent;

	(void)reply;
	assert(call == &link->revoked.call && sent != NULL);
	if (msg != NULL)
		split_msg_release(msg);
	link->revoked.sent = NULL;
	link->revoked.is_told = rc == 0 && sent == link->port->revoked;
	if (rc != 0 && rc != -ECONNRESET && rc != -ETIMEDOUT)
		log_limited(LOG_WARN,
		    "node %" PRIu32
		    ": has not taken all lists of revoked keys, told again: its log says why address=%s",
		    link->node_id, link->config.address);
	if (rc == 0)
		mt_link_revoked_send(link); /* a newer one, if there is */
	text_drop(sent);
}

void
mt_link_revoked_send(struct mt_link *link)
{
	struct mt_link_revoked *revoked = &link->revoked;
	struct mt_revoked_text *text = link->port->revoked;

	CHECK_OBJ(link, LINK_MAGIC);
	if (text == NULL || revoked->is_told || revoked->sent != NULL || !mt_link_is_up(link) ||
	    link->close_rc != 0 || link->agreed_level < CLEAVE_LEVEL_REVOKED)
		return;
	revoked->call.request = (struct wire_node){ .opcode = WIRE_CONTROL };
	revoked->call.pieces[0] = (struct dev_piece){ .ptr = text->payload, .bytes = text->bytes };
	revoked->call.piece_count = 1;
	revoked->call.fn = revoked_on_answer;
	revoked->call.arg = link;
	if (mt_link_submit(link, &revoked->call) != 0)
		return; /* with the next status */
	revoked->sent = text;
	text->user_count++;
}

void
mt_link_revoked_lost(struct mt_link *link)
{
	link->revoked.is_told = false;
}

/* ---- the port's ---- */

static void
port_on_cut(const struct split_qp *qp, const char *why, void *arg)
{
	struct mt_port *port = arg;
	char who[SPLIT_SUBJECT_TEXT_BYTES_MAX];

	(void)split_subject_text(split_qp_subject(qp), who);
	mt_event(port->shared->events, loop_now_ns(port->loop), CLEAVE_EVENT_KEY_CUT, who,
	    "audit: connection cut off by=%s peer=%s: %s", who, split_qp_peer(qp), why);
}

void
mt_port_rekey(struct mt_port *port, const struct split_key *key)
{
	(void)split_port_rekey(port->split, key, port_on_cut, port);
	text_drop(port->revoked);
	port->revoked = text_make(port);
	for (uint32_t i = 0; i < port->link_count; i++) {
		port->links[i].revoked.is_told = false;
		mt_link_revoked_send(&port->links[i]);
	}
}

static void
port_on_doubt(const struct split_qp *qp, const char *why, void *arg)
{
	const struct split_subject *subject = split_qp_subject(qp);
	struct mt_doubts *doubts = arg;

	(void)why;
	/* Clients and people are what lists are for. */
	if (subject->role != SPLIT_ROLE_NODE && subject->role != SPLIT_ROLE_GATEWAY)
		return;
	if (doubts->count++ == 0)
		(void)split_subject_text(subject, doubts->first);
}

void
mt_port_doubts_take(const struct mt_port *port, const struct split_key *key,
    struct mt_doubts *ret_doubts)
{
	*ret_doubts = (struct mt_doubts){ 0 };
	(void)split_port_doubts(port->split, key, port_on_doubt, ret_doubts);
}

void
mt_port_revoked_fini(struct mt_port *port)
{
	text_drop(port->revoked);
	port->revoked = NULL;
}
