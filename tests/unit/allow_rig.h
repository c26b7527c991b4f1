/* SPDX-License-Identifier: Apache-2.0 */
/* allow_rig.h -- a gateway with a key, volumes "mine" and "other", and whoever comes with a key of the cluster */
#ifndef CLEAVE_TESTS_ALLOW_RIG_H
#define CLEAVE_TESTS_ALLOW_RIG_H

#include "base/num.h"
#include "cleave/level.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "middletier/control/control.h"
#include "middletier/control/control_request.h"
#include "support/key_maker.h"
#include "support/made_cluster.h"
#include "unit/control_ask.h"

#define CLUSTER "cleave://c1ea7e0000000001/"

/* Somebody with a key, connected. */
struct who {
	struct split_key *key;
	struct split_port *port;
	struct sg_qp qp;
};

static struct sg sg;
static struct key_authority authority;
static struct split_key *gateway_key;
static struct split_port *open_port; /* the rig's own, without a key */
static struct who admin;

static inline void
who_comes(struct who *who, const char *subject)
{
	char uri[128];

	(void)snprintf(uri, sizeof(uri), CLUSTER "%s", subject);
	*who = (struct who){ .key = key_make(&authority, uri) };
	who->port = sg_open_port(&sg, who->key);
}

static inline int
who_connects(struct who *who, struct sg_qp *qp, const struct wire_hello *hello)
{
	sg.client = who->port;
	sg_connect(&sg, qp, hello);
	sg.client = open_port;
	return sg_wait_open(qp);
}

static inline void
who_asks(struct who *who, const char *subject)
{
	who_comes(who, subject);
	cr_assert_eq(who_connects(who, &who->qp, NULL), 0, "%s", subject);
}

static inline void
who_goes(struct who *who)
{
	if (who->qp.sg != NULL)
		sg_close(&who->qp);
	split_port_close(who->port);
	split_key_free(who->key);
}

/* control_ask.h's, by somebody. */
#define ask(who, ret_rc, ...) control_ask(&(who)->qp, (ret_rc), __VA_ARGS__)
#define asked(who, want_rc, ...) done(control_want(&(who)->qp, (want_rc), __VA_ARGS__))

/* user_is -- @name may @rights, JSON in single quotes, from now on. */
static inline void
user_is(const char *name, const char *rights)
{
	int rc = 0;
	json_t *answer =
	    ask(&admin, &rc, "{'op':'user.set','name':'%s','rights':[%s]}", name, rights);

	json_decref(answer);
	if (rc == -ENOENT)
		asked(&admin, 0, "{'op':'user.add','name':'%s','rights':[%s]}", name, rights);
	else
		cr_assert_eq(rc, 0);
}

static inline void
allow_setup(void)
{
	sg_init(&sg, 1);
	open_port = sg.client;
	key_authority_make(&authority, 0, 0);
	gateway_key = key_make(&authority, CLUSTER "gateway/1");
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error); /* without a key: it makes the cluster */
	sg_run_for(&sg, NUM_MS(50));
	sg_stop(&sg);
	made_cluster_raise(sg.store, CLEAVE_LEVEL_USERS);
	sg.options.key = gateway_key;
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_run_for(&sg, NUM_MS(50));
	who_asks(&admin, "admin/ann");
	asked(&admin, 0, "{'op':'volume.create','name':'mine','size_bytes':1048576}");
	asked(&admin, 0, "{'op':'volume.create','name':'other','size_bytes':1048576}");
}

static inline void
allow_teardown(void)
{
	who_goes(&admin);
	sg_fini(&sg);
	split_key_free(gateway_key);
	key_authority_fini(&authority);
}

/*
 * A request of @op about @volume that every op refuses, with -EINVAL and the member's name, once it is run: so no cell
 * changes anything, and what is asked is whether it is run.
 */
static inline json_t *
ask_cell(struct who *who, const struct mt_control_op *op, const char *volume, int *ret_rc)
{
	bool is_snapshot = strncmp(op->name, "snapshot.", 9) == 0 && op->names != MT_NAMES_MANY;
	const char *tail = is_snapshot || strcmp(op->name, "clone") == 0 ? "@s" : "";

	switch (op->names) {
	case MT_NAMES_NAME:
	case MT_NAMES_NEW:
	case MT_NAMES_TRASH:
		return ask(who, ret_rc, "{'op':'%s','name':'%s%s','zzz':1}", op->name, volume,
		    tail);
	case MT_NAMES_BOTH:
		return ask(who, ret_rc, "{'op':'%s','name':'%s%s','new':'mine-too','zzz':1}",
		    op->name, volume, tail);
	case MT_NAMES_LIST:
		return ask(who, ret_rc, "{'op':'%s','names':['mine@s','%s@s'],'zzz':1}", op->name,
		    volume);
	default:
		return ask(who, ret_rc, "{'op':'%s','zzz':1}", op->name);
	}
}

/* A volume that a client has no letter for: the same words, whether it is there or not. */
static inline void
check_hidden(struct who *who)
{
	for (uint32_t i = 0; mt_control_op_at(i) != NULL; i++) {
		const struct mt_control_op *op = mt_control_op_at(i);
		int rc = 0, none_rc = 0;
		json_t *answer, *none;
		char *at;

		if (op->names == MT_NAMES_NONE || op->names == MT_NAMES_MANY ||
		    op->names == MT_NAMES_ID)
			continue;
		answer = ask_cell(who, op, "other", &rc);
		none = ask_cell(who, op, "never", &none_rc);
		at = strdup(error_of(none));
		if (strstr(at, "never") != NULL)
			memcpy(strstr(at, "never"), "other", 5);
		cr_assert_eq(rc, none_rc, "%s", op->name);
		cr_assert(rc == -ENOENT || rc == -ENOKEY, "%s: %d", op->name, rc);
		cr_assert_str_eq(error_of(answer), at, "%s", op->name);
		free(at);
		json_decref(answer);
		json_decref(none);
	}
}

#endif /* CLEAVE_TESTS_ALLOW_RIG_H */
