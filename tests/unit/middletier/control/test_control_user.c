/* SPDX-License-Identifier: Apache-2.0 */
/* test_control_user.c -- users made, changed, listed, removed; what is refused; what another gateway does meanwhile */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/level.h"
#include "middletier/catalog/user_key.h"
#include "middletier/common/event.h"
#include "support/made_cluster.h"
#include "support/sim_gateway.h"

#define DB "'rights':[{'volumes':'db-*','may':'rw'}]"

static struct sg sg;
static struct sg_qp qp;

static void
start(void)
{
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_run_for(&sg, NUM_MS(50));
	sg_connect(&sg, &qp, NULL);
	cr_assert_eq(sg_wait_open(&qp), 0);
}

static void
setup_level_1(void)
{
	sg_init(&sg, 1);
	start();
}

static void
setup(void)
{
	setup_level_1();
	sg_close(&qp);
	sg_stop(&sg);
	made_cluster_raise(sg.store, CLEAVE_LEVEL_USERS);
	start();
}

static void
teardown(void)
{
	sg_close(&qp);
	sg_fini(&sg);
}

TestSuite(control_user, .init = setup, .fini = teardown, .timeout = 60);
TestSuite(control_user_before, .init = setup_level_1, .fini = teardown, .timeout = 60);

/* Single quotes stand for double ones. The caller drops the answer. */
static json_t *
ask(int want_rc, const char *format, ...)
{
	char request[4096];
	va_list args;
	int rc = 0;
	json_t *answer;

	va_start(args, format);
	(void)vsnprintf(request, sizeof(request), format, args);
	va_end(args);
	for (char *at = request; *at != '\0'; at++)
		*at = *at == '\'' ? '"' : *at;
	answer = sg_control(&qp, request, &rc);
	cr_assert_eq(rc, want_rc, "%s: rc %d: %s", request, rc,
	    json_string_value(json_object_get(answer, "error")));
	while (qp.reply_count > 0)
		free(qp.replies[--qp.reply_count].text);
	return answer;
}

static void
done(json_t *answer)
{
	json_decref(answer);
}

static void
refused(json_t *answer, const char *word)
{
	const char *text = json_string_value(json_object_get(answer, "error"));

	cr_assert(text != NULL && strstr(text, word) != NULL, "'%s' does not name %s", text, word);
	json_decref(answer);
}

static void
user_is(json_t *answer, const char *want)
{
	char *text = json_dumps(json_object_get(answer, "user"), JSON_COMPACT);

	cr_assert_str_eq(text, want);
	free(text);
	json_decref(answer);
}

/* The key's value; "": there is none. */
static void
key_is(const char *name, const char *want)
{
	char key[MT_USER_KEY_BYTES], text[256] = "";
	struct meta_item *items = NULL;
	uint32_t count = 0;

	mt_user_key(name, key);
	cr_assert_eq(meta_store_list(sg.store, key, &items, &count), 0);
	if (count > 0)
		(void)snprintf(text, sizeof(text), "%.*s", (int)items[0].value_bytes,
		    (const char *)items[0].value);
	cr_assert_str_eq(text, want);
	mt_free(items);
}

static bool
has_event(const char *word)
{
	struct mt_event events[64];
	uint32_t count = mt_events_read(sg.gateway->shared.events, 0, events, 64);

	for (uint32_t i = 0; i < count; i++) {
		if (events[i].code == CLEAVE_EVENT_USER_CHANGED &&
		    strstr(events[i].text, word) != NULL)
			return true;
	}
	return false;
}

Test(control_user, a_life)
{
	user_is(ask(0, "{'op':'user.add','name':'db1'," DB "}"),
	    "{\"name\":\"db1\",\"rights\":[{\"volumes\":\"db-*\",\"may\":\"rw\"}],\"disabled\":false}");
	key_is("db1",
	    "{\"format\":1,\"rights\":[{\"volumes\":\"db-*\",\"may\":\"rw\"}],\"disabled\":false}");
	cr_assert(has_event("user add name=db1 rights=\"db-*:rw\""));
	user_is(ask(0, "{'op':'user.set','name':'db1','disabled':true}"),
	    "{\"name\":\"db1\",\"rights\":[{\"volumes\":\"db-*\",\"may\":\"rw\"}],\"disabled\":true}");
	cr_assert(has_event("user set name=db1 rights=\"db-*:rw\" disabled"));
	user_is(ask(0, "{'op':'user.set','name':'db1','rights':[]}"),
	    "{\"name\":\"db1\",\"rights\":[],\"disabled\":true}");
	user_is(ask(0, "{'op':'user.show','name':'db1'}"),
	    "{\"name\":\"db1\",\"rights\":[],\"disabled\":true}");
	done(ask(0, "{'op':'user.remove','name':'db1'}"));
	cr_assert(has_event("user remove name=db1"));
	key_is("db1", "");
	refused(ask(-ENOENT, "{'op':'user.show','name':'db1'}"), "db1");
}

Test(control_user, what_cannot_be_is_refused_by_name)
{
	done(ask(0, "{'op':'user.add','name':'db1'," DB "}"));
	refused(ask(-EEXIST, "{'op':'user.add','name':'db1'," DB "}"), "db1");
	refused(ask(-ENOENT, "{'op':'user.set','name':'db2'," DB "}"), "db2");
	refused(ask(-ENOENT, "{'op':'user.remove','name':'db2'}"), "db2");
	refused(ask(-EINVAL, "{'op':'user.add','name':'a/b'," DB "}"), "a/b");
	refused(ask(-EINVAL, "{'op':'user.add','name':''," DB "}"), "name");
	refused(ask(-EINVAL, "{'op':'user.add','name':'a'}"), "rights");
	refused(ask(-EINVAL, "{'op':'user.add','name':'a','rights':[1]}"), "rights");
	refused(ask(-EINVAL, "{'op':'user.set','name':'db1','rights':[{'volumes':'v','may':'x'}]}"),
	    "rwsa");
	refused(ask(-EINVAL, "{'op':'user.set','name':'db1','disabled':1}"), "disabled");
	refused(ask(-EINVAL, "{'op':'user.remove','name':'db1','x':1}"), "x");
	refused(ask(-EINVAL, "{'op':'user.list','x':1}"), "x");
	refused(ask(-EINVAL, "{'op':'user.show'}"), "name");
	key_is("db1",
	    "{\"format\":1,\"rights\":[{\"volumes\":\"db-*\",\"may\":\"rw\"}],\"disabled\":false}");
}

Test(control_user, a_list_is_in_pages_and_every_page_fits)
{
	char rights[4096] = "", after[64] = "";
	uint32_t seen = 0;
	bool is_more = true;

	for (uint32_t i = 0; i < MT_USER_RIGHTS_MAX; i++)
		(void)snprintf(rights + strlen(rights), sizeof(rights) - strlen(rights),
		    "%s{'volumes':'%060u*','may':'rwsa'}", i == 0 ? "" : ",", i);
	for (uint32_t i = 0; i < 70; i++)
		done(ask(0, "{'op':'user.add','name':'u%02u','rights':[%s]}", i, rights));
	while (is_more) {
		json_t *answer = ask(0, "{'op':'user.list','after':'%s'}", after);
		const json_t *users = json_object_get(answer, "users");

		cr_assert_gt(json_array_size(users), 0u);
		for (size_t i = 0; i < json_array_size(users); i++) {
			const char *name = json_string_value(
			    json_object_get(json_array_get(users, i), "name"));

			cr_assert_gt(strcmp(name, after), 0);
			(void)snprintf(after, sizeof(after), "%s", name);
			seen++;
		}
		is_more = json_is_true(json_object_get(answer, "more"));
		json_decref(answer);
	}
	cr_assert_eq(seen, 70u);
	/* Text of an event is short. */
	cr_assert(has_event(" ...\""));
}

static void
store(const char *name, const char *text)
{
	char key[MT_USER_KEY_BYTES];
	struct meta_op op = { .kind = META_PUT,
		.key = key,
		.value = text,
		.value_bytes = (uint32_t)strlen(text) };
	struct meta_txn *txn;

	mt_user_key(name, key);
	cr_assert_eq(meta_txn_copy(&op, 1, &txn), 0);
	cr_assert_eq(meta_store_txn(sg.store, txn), 0);
	mt_free(txn);
}

/* Keys that another gateway has written are what a change is made of, and a list tells: nothing is told from memory. */
Test(control_user, users_are_read_before_each_answer)
{
	json_t *answer;

	store("db1", "{\"format\":1,\"rights\":[],\"disabled\":true}");
	user_is(ask(0, "{'op':'user.show','name':'db1'}"),
	    "{\"name\":\"db1\",\"rights\":[],\"disabled\":true}");
	user_is(ask(0, "{'op':'user.set','name':'db1'," DB "}"),
	    "{\"name\":\"db1\",\"rights\":[{\"volumes\":\"db-*\",\"may\":\"rw\"}],\"disabled\":true}");
	store("db2", "{}");
	answer = ask(0, "{'op':'user.list'}");
	cr_assert_eq(json_array_size(json_object_get(answer, "users")), 1u);
	json_decref(answer);
	/* A key that nobody can read is not written over by one who thinks that there is none. */
	refused(ask(-EAGAIN, "{'op':'user.add','name':'db2'," DB "}"), "store");
	key_is("db2", "{}");
}

Test(control_user_before, a_cluster_of_level_1_has_none)
{
	refused(ask(-ENOTSUP, "{'op':'user.add','name':'db1'," DB "}"), "upgrade");
	refused(ask(-ENOTSUP, "{'op':'user.set','name':'db1'," DB "}"), "upgrade");
	refused(ask(-ENOTSUP, "{'op':'user.remove','name':'db1'}"), "upgrade");
	key_is("db1", "");
	done(ask(0, "{'op':'user.list'}"));
}
