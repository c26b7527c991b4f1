/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_ask_all.h -- a question to all gateways at once, so that one that is away keeps nobody waiting for the others
 *
 *	command_ask_all_init(gateways, count) --> asked[]
 *	asked[i].question = ..., for each that is to be asked
 *	command_ask_all --> asked[i].rc, reply, error      again and again, with other questions
 *	command_ask_all_fini
 */
#ifndef CLEAVE_COMMAND_ASK_ALL_H
#define CLEAVE_COMMAND_ASK_ALL_H

#include <jansson.h>
#include <stdint.h>

#include "cleave/manage.h"
#include "command.h"

struct command_asked {
	const struct cleave_gateway_entry *gateway; /* borrowed */
	json_t *question; /* the next one, taken over; NULL: it is not asked this time */
	/* The answer to the last one: rc 0 and an object; else a negative errno, and why. -ENODATA: never asked. */
	int rc;
	json_t *reply;
	char error[CLEAVE_ERROR_BYTES_MAX];
	/* For command_ask_all.c. */
	struct cleave_client
	    *client; /* a connection of its own, kept for the next question; NULL: none */
	struct cleave_call call;
	uint32_t *left; /* that are still out */
};

/*
 * command_ask_all_init -- one for each of @gateways, which outlive it, in their order
 *
 * Returns an array for command_ask_all_fini; NULL with session->error set: out of memory.
 */
struct command_asked *command_ask_all_init(struct command_session *session,
    const struct cleave_gateway_entry *gateways, uint32_t count);
/*
 * command_ask_all -- ask those that have a question, and wait until each has answered, or for @within_ns (--timeout, if less)
 *
 * Each over a connection of its own: none answers for another. One without an address: -EHOSTUNREACH. An answer that is
 * no object: -EPROTO.
 */
void command_ask_all(struct command_session *session, struct command_asked *asked, uint32_t count,
    uint64_t within_ns);
/* command_ask_all_refused -- the key has no right to ask, which says nothing of a gateway: -ENOKEY, and session->error; else 0. */
int command_ask_all_refused(struct command_session *session, const struct command_asked *asked,
    uint32_t count);
void command_ask_all_fini(struct command_asked *asked, uint32_t count);

#endif /* CLEAVE_COMMAND_ASK_ALL_H */
