/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_ask.h -- questions to a gateway, one after the other, and their answers until they are printed
 *
 *	command_question_init
 *	command_wait(&question, cleave_volume_show(client, &question.ask, name, command_on_volume, &question))
 *	    0: question.entries, and question.reply for --json
 *	command_question_fini
 */
#ifndef CLEAVE_COMMAND_ASK_H
#define CLEAVE_COMMAND_ASK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/manage.h"
#include "command.h"

/* A call of cleave/manage.h, and what it was answered. */
struct command_question {
	struct cleave_ask ask;
	struct cleave_call call; /* instead of ask: command_ask */
	struct command_session *session;
	json_t *reply; /* the answer as it came, an object; NULL: there is none */
	/* Entries of the kind that the call tells; when a list is asked for page by page, all of them. */
	void *entries; /* NULL: count is 0 */
	uint32_t count;
	bool is_more; /* a list: of the page that came last */
	int rc;
	bool is_done;
};

void command_question_init(struct command_question *question, struct command_session *session);
/* command_question_fini -- free what was answered. */
void command_question_fini(struct command_question *question);

/* command_make_volume -- it is created, and *@ret_id its id: 0, or with the error set. */
int command_make_volume(struct command_session *session,
    const struct cleave_volume_options *options, uint64_t *ret_id);

/*
 * command_wait -- wait for @question's handler
 *
 * @rc: what the call that started it returned; when that is not 0 there is nothing to wait for.
 * Returns 0 and the answer in @question; else a negative errno with session->error set.
 */
int command_wait(struct command_question *question, int rc);
/*
 * command_wait_pages -- ask for page after page of a list
 *
 * @start: asks for the page behind question->entries, as the calls of cleave/manage.h do. @member: of the answer,
 * the array that the entries come from. question->reply has nothing but this, with all pages' in it.
 * Returns as command_wait; -EPROTO the gateway's list has no end.
 */
int command_wait_pages(struct command_question *question, const char *member,
    int (*start)(struct command_question *question));

/* command_ask_volumes -- all of them, in question->entries; command_ask_snapshots: of options->name, or NULL: of all. */
int command_ask_volumes(struct command_question *question);
int command_ask_snapshots(struct command_question *question);
/* command_ask_trash -- all of the trash, likewise. */
int command_ask_trash(struct command_question *question);
/*
 * command_say -- the end of a command that changes one thing: print the reply (--json), or NAME: @done
 *
 * @rc: command_wait's. NAME is the new one, where there is one. @question is ended. Returns @rc, or -ENOMEM.
 */
int command_say(struct command_question *question, int rc, const char *done);

/* Handlers of cleave/manage.h's calls; @arg: the struct command_question. */
void command_on_done(struct cleave_ask *ask, int rc, const char *error, void *arg);
void command_on_volume(struct cleave_ask *ask, int rc, const struct cleave_volume_entry *volume,
    const char *error, void *arg);
void command_on_volumes(struct cleave_ask *ask, int rc, const struct cleave_volume_page *page,
    const char *error, void *arg);
void command_on_snapshot(struct cleave_ask *ask, int rc, const struct cleave_snapshot *snapshot,
    const char *error, void *arg);
void command_on_snapshots(struct cleave_ask *ask, int rc, const struct cleave_snapshot_page *page,
    const char *error, void *arg);
void command_on_trash(struct cleave_ask *ask, int rc, const struct cleave_trash_page *page,
    const char *error, void *arg);
void command_on_gateways(struct cleave_ask *ask, int rc,
    const struct cleave_gateway_entry *gateways, uint32_t count, const char *error, void *arg);
void command_on_nodes(struct cleave_ask *ask, int rc, const struct cleave_node_entry *nodes,
    uint32_t count, const char *error, void *arg);
void command_on_shards(struct cleave_ask *ask, int rc, const struct cleave_shard_entry *shards,
    uint32_t count, const char *error, void *arg);
void command_on_level(struct cleave_ask *ask, int rc, const struct cleave_cluster_level *level,
    const char *error, void *arg);
void command_on_status(struct cleave_ask *ask, int rc, const struct cleave_gateway_status *status,
    const char *error, void *arg);

/*
 * command_ask -- one question that cleave/manage.h has no call for, one answer
 *
 * @request is taken over; NULL is out of memory. @must_not_repeat: it changes something.
 * Returns 0 and *@ret_reply, an object to json_decref; else a negative errno with session->error set.
 */
int command_ask(struct command_session *session, json_t *request, bool must_not_repeat,
    json_t **ret_reply);
/* command_pause -- between two questions. */
void command_pause(struct command_session *session, uint64_t ns);
/*
 * command_session_at -- a client of the gateway at @address alone, which may be gone
 *
 * 0 and *@ret_other, whose client is the caller's: cleave_client_destroy; else a negative errno, and no error is set.
 */
int command_session_at(struct command_session *session, const char *address,
    struct command_session *ret_other);
/* command_ask_at -- as command_ask, of the gateway at @address alone, for a moment: it may be gone. No error is set. */
int command_ask_at(struct command_session *session, const char *address, json_t *request,
    json_t **ret_reply);

#endif /* CLEAVE_COMMAND_ASK_H */
