/* SPDX-License-Identifier: Apache-2.0 */
/* command_gather.h -- what every gateway keeps of a kind, events or slow requests, in order of time */
#ifndef CLEAVE_COMMAND_GATHER_H
#define CLEAVE_COMMAND_GATHER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "command.h"

#define GATHER_GATEWAYS_MAX 64u
#define GATHER_PAGES_MAX 256u /* of a gateway, a question: a gateway that never ends is broken */

/* How far a gateway's entries were read. */
struct gather_place {
	uint64_t gateway_id, number;
	char boot[32];
};

struct command_gather {
	struct command_session *session;
	const char *op;     /* the question: {"op":op,"after":N} */
	const char *member; /* of the answer: an array of objects with "number" and "age_ms" */
	struct gather_place places[GATHER_GATEWAYS_MAX];
	uint32_t place_count;
	uint64_t
	    from_ns; /* by the loop's clock; what is found has its age then, until it is printed */
	json_t *found; /* an array: not shown yet; each with "gateway", too */
};

/* command_gather_init -- @op and @member are borrowed. 0 or -ENOMEM, with session->error set. */
int command_gather_init(struct command_gather *gather, struct command_session *session,
    const char *op, const char *member);
void command_gather_fini(struct command_gather *gather);
/*
 * command_gather_take -- a page that a gateway has told just now, into @gather->found
 *
 * Returns whether there is more: never, where it has told nothing behind @place.
 */
bool command_gather_take(struct command_gather *gather, struct gather_place *place,
    const json_t *reply);
/*
 * command_gather_ask -- ask every gateway for what is behind the last that it told; more is in @gather->found
 *
 * @is_first: those that do not answer are named on standard error. 0, or that nobody lists the gateways; -ENOKEY: the key
 * has no right to ask for it. Then session->error is set.
 */
int command_gather_ask(struct command_gather *gather, bool is_first);
/*
 * command_gather_print -- print what was found, the oldest first, and forget it
 *
 * With --json an object a line; else @print does it. 0 or -ENOMEM.
 */
int command_gather_print(struct command_gather *gather,
    void (*print)(const json_t *entry, FILE *out));

#endif /* CLEAVE_COMMAND_GATHER_H */
