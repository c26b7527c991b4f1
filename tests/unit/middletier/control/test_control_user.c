/* SPDX-License-Identifier: Apache-2.0 */
/* test_control_user.c -- users made, changed, listed, removed; what is refused; what another gateway does meanwhile */
#include "middletier/catalog/user_key.h"
#include "unit/control_rig.h"

#define DB "'rights':[{'volumes':'db-*','may':'rw'}]"

static void
setup(void)
{
	rig_setup_at(CLEAVE_LEVEL_USERS);
}

TestSuite(control_user, .init = setup, .fini = rig_teardown, .timeout = 60);
TestSuite(control_user_before, .init = rig_setup, .fini = rig_teardown, .timeout = 60);

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
	return gateway_tells(sg.gateway, CLEAVE_EVENT_USER_CHANGED, word, NULL);
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

/* A pattern's writer reads, too, or its letter is of no use: by its own right, or by one whose pattern has all of its. */
Test(control_user, who_writes_and_does_not_read_is_refused_by_pattern)
{
	refused(ask(-EINVAL,
		    "{'op':'user.add','name':'a','rights':[{'volumes':'db-*','may':'rw'},"
		    "{'volumes':'x*','may':'w'}]}"),
	    "rights: 'x*' has w and no r");
	refused(ask(-EINVAL,
		    "{'op':'user.add','name':'a','rights':[{'volumes':'x*','may':'wa'},"
		    "{'volumes':'xa*','may':'r'}]}"),
	    "rights: 'x*' has w and no r");
	key_is("a", "");
	done(ask(0, "{'op':'user.add','name':'a'," DB "}"));
	refused(ask(-EINVAL, "{'op':'user.set','name':'a','rights':[{'volumes':'v','may':'w'}]}"),
	    "'v:rw'");
	/* The other pattern has all volumes of this one. */
	done(ask(0,
	    "{'op':'user.set','name':'a','rights':[{'volumes':'x*','may':'w'},{'volumes':'*','may':'r'}]}"));
	/* A roll-back needs no r. */
	done(ask(0, "{'op':'user.set','name':'a','rights':[{'volumes':'x*','may':'ws'}]}"));
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

	mt_user_key(name, key);
	made_cluster_put(sg.store, key, text);
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
