/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_control_allow.c -- who may ask a gateway for what, over connections with keys: what the table of rights does not say
 *
 * Lists, ids, names that are to be, sessions, rights that change. The table itself: test_rights.c.
 */
#include "unit/allow_rig.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

#include "middletier/catalog/scope.h"
#include "middletier/catalog/snapshot_table.h"
#include "middletier/catalog/user_key.h"
#include "middletier/catalog/volume_table.h"
#include "middletier/common/event.h"

#define CHANGE_NS NUM_S(1) /* within it sessions end whose right was taken */

TestSuite(control_allow, .init = allow_setup, .fini = allow_teardown, .timeout = 240);

/* A client that is no user, or is disabled, has what one with no letter has. */
Test(control_allow, who_is_no_user_sees_nothing)
{
	struct who who;
	int rc = 0;
	json_t *answer;

	who_asks(&who, "client/nobody");
	answer = ask(&who, &rc, "{'op':'volume.list'}");
	cr_assert_eq(rc, 0);
	cr_assert_eq(json_array_size(json_object_get(answer, "volumes")), 0u);
	json_decref(answer);
	check_hidden(&who);
	user_is("nobody", "{'volumes':'mine','may':'r'}");
	asked(&who, 0, "{'op':'volume.show','name':'mine'}");
	asked(&admin, 0, "{'op':'user.set','name':'nobody','disabled':true}");
	asked(&who, -ENOENT, "{'op':'volume.show','name':'mine'}");
	asked(&admin, 0, "{'op':'user.set','name':'nobody','disabled':false}");
	asked(&who, 0, "{'op':'volume.show','name':'mine'}");
	asked(&admin, 0, "{'op':'user.remove','name':'nobody'}");
	asked(&who, -ENOENT, "{'op':'volume.show','name':'mine'}");
	who_goes(&who);
}

/* ---- lists, and names of others ---- */

static void
snapshot_of(const char *volume, uint64_t number)
{
	const struct mt_volume *of = &mt_volumes_by_name(&sg.gateway->volumes, volume)->volume;
	struct mt_snapshot snapshot = { .number = number,
		.volume_id = of->id,
		.size_bytes = of->size_bytes,
		.segment_base = of->segment_base,
		.segment_count = of->segment_count,
		.created_s = 1,
		.state = MT_SNAPSHOT_LIVE };
	char key[MT_SNAPSHOT_KEY_BYTES], *text;

	(void)snprintf(snapshot.name, sizeof(snapshot.name), "s");
	mt_scope_before(&of->scope, number, &snapshot.scope);
	mt_snapshot_key(number, key);
	text = mt_snapshot_encode(&snapshot, NULL);
	made_cluster_put(sg.store, key, text);
	free(text);
	sg_run_for(&sg, NUM_S(1));
}

static size_t
count_of(struct who *who, const char *member, const char *request)
{
	int rc = 0;
	json_t *answer = ask(who, &rc, "%s", request);
	size_t count = json_array_size(json_object_get(answer, member));

	cr_assert_eq(rc, 0, "%s: %s", request, error_of(answer));
	json_decref(answer);
	return count;
}

Test(control_allow, lists_have_what_one_may_see)
{
	struct who who;

	who_asks(&who, "client/db");
	snapshot_of("mine", 1);
	snapshot_of("other", 2);
	user_is("db", "{'volumes':'mine*','may':'r'}");
	cr_assert_eq(count_of(&who, "volumes", "{'op':'volume.list'}"), 1u);
	cr_assert_eq(count_of(&admin, "volumes", "{'op':'volume.list'}"), 2u);
	cr_assert_eq(count_of(&who, "snapshots", "{'op':'snapshot.list'}"), 1u);
	cr_assert_eq(count_of(&admin, "snapshots", "{'op':'snapshot.list'}"), 2u);
	cr_assert_eq(count_of(&who, "snapshots", "{'op':'snapshot.list','name':'mine'}"), 1u);
	asked(&who, -ENOENT, "{'op':'snapshot.list','name':'other'}");
	who_goes(&who);
}

Test(control_allow, a_list_by_pages_skips_what_one_may_not_see)
{
	struct who who;
	char name[64] = "";
	uint32_t seen = 0, pages = 0;
	bool is_more = true;

	who_asks(&who, "client/db");
	user_is("db", "{'volumes':'v*7','may':'r'}");
	for (uint32_t i = 0; i < 40; i++)
		asked(&admin, 0, "{'op':'volume.create','name':'v%02" PRIu32 "','size_bytes':4096}",
		    i);
	while (is_more && pages++ < 40) {
		int rc = 0;
		json_t *answer = ask(&who, &rc, "{'op':'volume.list','after':'%s'}", name);
		const json_t *list = json_object_get(answer, "volumes");

		for (size_t i = 0; i < json_array_size(list); i++) {
			(void)snprintf(name, sizeof(name), "%s",
			    json_string_value(json_object_get(json_array_get(list, i), "name")));
			cr_assert_eq(name[strlen(name) - 1], '7', "%s", name);
			seen++;
		}
		is_more = json_is_true(json_object_get(answer, "more"));
		json_decref(answer);
	}
	cr_assert_eq(seen, 4u);
	who_goes(&who);
}

/* Names of origin and clones are those of volumes. */
Test(control_allow, what_hangs_on_a_volume_is_told_by_name_to_who_may_see_it)
{
	struct who who;
	int rc = 0;
	json_t *answer;

	who_asks(&who, "client/db");
	snapshot_of("other", 1);
	asked(&admin, 0, "{'op':'clone','name':'other@s','new':'mine-2'}");
	user_is("db", "{'volumes':'mine*','may':'r'}");
	answer = ask(&who, &rc, "{'op':'volume.show','name':'mine-2'}");
	cr_assert_eq(rc, 0);
	cr_assert_null(json_object_get(json_object_get(answer, "volume"), "origin_name"));
	json_decref(answer);
	user_is("db", "{'volumes':'other','may':'r'}");
	answer = ask(&who, &rc, "{'op':'volume.show','name':'other'}");
	cr_assert_eq(rc, 0);
	cr_assert_eq(json_integer_value(json_object_get(answer, "clone_count")), 0);
	cr_assert_eq(json_array_size(json_object_get(answer, "clones")), 0u);
	json_decref(answer);
	user_is("db", "{'volumes':'*','may':'r'}");
	answer = ask(&who, &rc, "{'op':'volume.show','name':'other'}");
	cr_assert_eq(json_integer_value(json_object_get(answer, "clone_count")), 1);
	json_decref(answer);
	who_goes(&who);
}

/* ---- names that are to be ---- */

Test(control_allow, a_clone_needs_r_and_s_of_its_origin_and_a_of_its_own_name)
{
	struct who who;

	who_asks(&who, "client/db");
	snapshot_of("mine", 1);
	user_is("db", "{'volumes':'mine','may':'s'},{'volumes':'copy','may':'arw'}");
	asked(&who, -ENOKEY, "{'op':'clone','name':'mine@s','new':'copy'}");
	user_is("db", "{'volumes':'mine','may':'rs'}");
	asked(&who, -ENOKEY, "{'op':'clone','name':'mine@s','new':'copy'}");
	user_is("db", "{'volumes':'mine','may':'rs'},{'volumes':'copy','may':'rw'}");
	asked(&who, -ENOKEY, "{'op':'clone','name':'mine@s','new':'copy'}");
	/* There is one of that name, or there is none: the same. */
	asked(&who, -ENOKEY, "{'op':'clone','name':'mine@s','new':'other'}");
	asked(&who, -ENOKEY, "{'op':'clone','name':'mine@s','new':'never'}");
	user_is("db", "{'volumes':'mine','may':'rs'},{'volumes':'copy','may':'a'}");
	asked(&who, 0, "{'op':'clone','name':'mine@s','new':'copy'}");
	who_goes(&who);
}

Test(control_allow, another_name_gives_no_letter_more)
{
	struct who who;

	who_asks(&who, "client/db");
	user_is("db", "{'volumes':'other','may':'a'},{'volumes':'own*','may':'rwsa'}");
	asked(&who, -ENOKEY, "{'op':'volume.rename','name':'other','new':'own'}");
	asked(&who, -ENOKEY, "{'op':'volume.rename','name':'other','new':'mine'}");
	/* By way of the trash neither. */
	asked(&who, 0, "{'op':'volume.delete','name':'other'}");
	asked(&who, -ENOKEY, "{'op':'trash.restore','name':'other','new':'own'}");
	asked(&who, 0, "{'op':'trash.restore','name':'other'}");
	user_is("db", "{'volumes':'other','may':'rwsa'},{'volumes':'own*','may':'ra'}");
	asked(&who, 0, "{'op':'volume.rename','name':'other','new':'own'}");
	who_goes(&who);
}

/* By its id a volume of the trash is whose name it had. */
Test(control_allow, the_trash_is_told_by_the_names_that_volumes_had)
{
	struct who who;
	int rc = 0, none_rc = 0;
	uint64_t id = mt_volumes_by_name(&sg.gateway->volumes, "other")->volume.id;
	json_t *answer, *none;
	char text[32];

	who_asks(&who, "client/db");
	user_is("db", "{'volumes':'mine','may':'rwsa'}");
	asked(&admin, 0, "{'op':'volume.delete','name':'other'}");
	asked(&admin, 0, "{'op':'volume.delete','name':'mine'}");
	cr_assert_eq(count_of(&who, "volumes", "{'op':'trash.list'}"), 1u);
	cr_assert_eq(count_of(&admin, "volumes", "{'op':'trash.list'}"), 2u);
	/* By its id it is opened no more than by the name that it had. */
	asked(&admin, -ENOENT, "{'op':'volume.open','id':%" PRIu64 "}", id);
	asked(&admin, -ENOENT,
	    "{'op':'volume.attach','session':'000000000000000a','id':%" PRIu64 "}", id);
	answer = ask(&who, &rc, "{'op':'trash.restore','name':'%" PRIu64 "'}", id);
	none = ask(&who, &none_rc, "{'op':'trash.restore','name':'77'}");
	cr_assert_eq(rc, -ENOENT);
	cr_assert_eq(none_rc, -ENOENT);
	/* Not a word of what it was called. */
	cr_assert_null(strstr(error_of(answer), "other"), "%s", error_of(answer));
	(void)snprintf(text, sizeof(text), "'%" PRIu64 "'", id);
	cr_assert_not_null(strstr(error_of(answer), text), "%s", error_of(answer));
	cr_assert_not_null(strstr(error_of(none), "'77'"));
	cr_assert_str_eq(strchr(error_of(answer), ','), strchr(error_of(none), ','));
	json_decref(answer);
	json_decref(none);
	asked(&who, 0, "{'op':'trash.restore','name':'mine'}");
	asked(&who, -ENOENT, "{'op':'trash.purge','name':'%" PRIu64 "'}", id);
	asked(&admin, 0, "{'op':'trash.purge','name':'%" PRIu64 "'}", id);
	who_goes(&who);
}

/* A number that is the id of one volume of the trash and the name of another: of those that one may not see it is none's. */
Test(control_allow, a_number_in_the_trash_is_what_one_may_see)
{
	struct who who;
	uint64_t id = mt_volumes_by_name(&sg.gateway->volumes, "other")->volume.id;
	char both[128], named[64];

	(void)snprintf(named, sizeof(named), "{'volumes':'%" PRIu64 "','may':'a'}", id);
	(void)snprintf(both, sizeof(both), "{'volumes':'other','may':'a'},%s", named);
	who_asks(&who, "client/db");
	asked(&admin, 0, "{'op':'volume.rename','name':'mine','new':'%" PRIu64 "'}", id);
	asked(&admin, 0, "{'op':'volume.delete','name':'%" PRIu64 "'}", id);
	asked(&admin, 0, "{'op':'volume.delete','name':'other'}");
	asked(&admin, -EINVAL, "{'op':'trash.restore','name':'%" PRIu64 "'}", id);
	user_is("db", both);
	asked(&who, -EINVAL, "{'op':'trash.restore','name':'%" PRIu64 "'}", id);
	user_is("db", named);
	asked(&who, -ENOENT, "{'op':'trash.restore','name':'%" PRIu64 "','by_id':true}", id);
	asked(&who, 0, "{'op':'trash.restore','name':'%" PRIu64 "'}", id);
	cr_assert_null(mt_volumes_by_name(&sg.gateway->volumes, "other"));
	asked(&admin, 0, "{'op':'volume.delete','name':'%" PRIu64 "'}", id);
	user_is("db", "{'volumes':'other','may':'a'}");
	asked(&who, 0, "{'op':'trash.restore','name':'%" PRIu64 "'}", id);
	cr_assert_not_null(mt_volumes_by_name(&sg.gateway->volumes, "other"));
	who_goes(&who);
}

/* ---- ids ---- */

static char refusal[LOG_LINE_BYTES_MAX]; /* the last that the audit has */

static void
keep_refusal(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)arg;
	if (strncmp(line, "audit: refused ", strlen("audit: refused ")) == 0)
		(void)snprintf(refusal, sizeof(refusal), "%s", line);
}

/* The audit has a refusal of @op with @volume, by client/db, or none: "". */
static void
expect_refusal(const char *op, const char *volume_name)
{
	char want[128];

	(void)snprintf(want, sizeof(want), "op=%s volume=%s by=client/db ", op, volume_name);
	if (*op == '\0')
		cr_assert_str_empty(refusal);
	else
		cr_assert_not_null(strstr(refusal, want), "'%s' has no '%s'", refusal, want);
	refusal[0] = '\0';
}

Test(control_allow, who_is_refused_by_an_id_is_in_the_audit)
{
	struct who who;
	uint64_t id = mt_volumes_by_name(&sg.gateway->volumes, "other")->volume.id;

	who_asks(&who, "client/db");
	user_is("db", "{'volumes':'mine','may':'rw'}");
	log_set_sink(keep_refusal, NULL);
	log_set_level(LOG_WARN);
	asked(&who, -ENOENT, "{'op':'volume.open','name':'other'}");
	expect_refusal("volume.open", "other");
	asked(&who, -ENOENT, "{'op':'volume.open','id':%" PRIu64 "}", id);
	expect_refusal("volume.open", "other");
	asked(&who, -ENOENT, "{'op':'volume.attach','session':'000000000000000b','id':%" PRIu64 "}",
	    id);
	expect_refusal("volume.attach", "other");
	asked(&who, -ENOENT, "{'op':'volume.open','id':4000}");
	expect_refusal("", "");
	who_goes(&who);
}

Test(control_allow, an_id_of_what_one_may_not_see_is_nobodys)
{
	struct who who;
	uint64_t id = mt_volumes_by_name(&sg.gateway->volumes, "other")->volume.id;

	who_asks(&who, "client/db");
	user_is("db", "{'volumes':'mine','may':'rw'}");
	asked(&who, -ENOENT, "{'op':'volume.limits','id':%" PRIu64 "}", id);
	asked(&who, -ENOENT, "{'op':'volume.limits','id':4000}");
	asked(&who, -ENOENT, "{'op':'volume.nodes','id':%" PRIu64 "}", id);
	asked(&who, -ENOENT, "{'op':'volume.open','id':%" PRIu64 "}", id);
	asked(&who, -ENOENT, "{'op':'volume.attach','session':'000000000000000b','id':%" PRIu64 "}",
	    id);
	cr_assert_eq(mt_volumes_by_name(&sg.gateway->volumes, "other")->volume.session_id, 0u);
	user_is("db", "{'volumes':'mine','may':'rw'},{'volumes':'other','may':'r'}");
	asked(&who, 0, "{'op':'volume.open','id':%" PRIu64 "}", id);
	asked(&who, -ENOENT, "{'op':'volume.attach','session':'000000000000000b','id':%" PRIu64 "}",
	    id);
	user_is("db", "{'volumes':'mine','may':'rw'}");
	asked(&admin, 0, "{'op':'volume.limits','id':%" PRIu64 "}", id);
	/* A detach of what it may not open does nothing, and says so as one that came too late does. */
	asked(&admin, 0, "{'op':'volume.attach','name':'other','session':'000000000000000a'}");
	asked(&who, 0, "{'op':'volume.detach','id':%" PRIu64 ",'session':'000000000000000a'}", id);
	cr_assert_eq(mt_volumes_by_name(&sg.gateway->volumes, "other")->volume.session_id, 0xau);
	asked(&admin, 0, "{'op':'volume.detach','id':%" PRIu64 ",'session':'000000000000000a'}",
	    id);
	cr_assert_eq(mt_volumes_by_name(&sg.gateway->volumes, "other")->volume.session_id, 0u);
	who_goes(&who);
}

/* ---- sessions ---- */

/* 0, and the session is there; or why not. It is closed again. */
static int
session_of(struct who *who, uint64_t volume_id, uint64_t session_id, uint64_t attach)
{
	struct wire_hello hello = sg_hello(volume_id, session_id, attach, 1);
	struct sg_qp qp;
	int rc = who_connects(who, &qp, &hello);

	sg_close(&qp);
	sg_run_for(&sg, NUM_MS(10));
	return rc;
}

Test(control_allow, a_session_is_for_who_may_have_it)
{
	struct who who;
	uint64_t mine, other;

	who_asks(&who, "client/db");
	snapshot_of("mine", 1);
	snapshot_of("other", 2);
	mine = mt_volumes_by_name(&sg.gateway->volumes, "mine")->volume.id;
	other = mt_volumes_by_name(&sg.gateway->volumes, "other")->volume.id;
	asked(&admin, 0, "{'op':'volume.attach','name':'mine','session':'000000000000000a'}");
	user_is("db", "{'volumes':'mine','may':'r'}");
	/* For reading, and not for writing, though it knows the session's id. */
	cr_assert_eq(session_of(&who, mine, 1, 0), 0);
	cr_assert_eq(session_of(&who, mine, 0xa, 1), -ENOKEY);
	cr_assert_eq(session_of(&who, 1 | MT_SNAPSHOT_ID, 1, 1), 0);
	asked(&who, -ENOKEY, "{'op':'volume.attach','name':'mine','session':'000000000000000b'}");
	asked(&who, 0, "{'op':'volume.open','name':'mine'}");
	asked(&who, 0, "{'op':'volume.attach','name':'mine@s','session':'000000000000000b'}");
	user_is("db", "{'volumes':'mine','may':'rw'}");
	cr_assert_eq(session_of(&who, mine, 0xa, 1), 0);
	user_is("db", "{'volumes':'mine','may':'ws'}"); /* who writes reads */
	cr_assert_eq(session_of(&who, mine, 0xa, 1), -ENOKEY);
	/* Another's: there or not, snapshot or not. */
	cr_assert_eq(session_of(&who, other, 1, 0), -ENOENT);
	cr_assert_eq(session_of(&who, 4000, 1, 0), -ENOENT);
	cr_assert_eq(session_of(&who, 2 | MT_SNAPSHOT_ID, 1, 1), -ENOENT);
	cr_assert_eq(session_of(&who, 3 | MT_SNAPSHOT_ID, 1, 1), -ENOENT);
	who_goes(&who);
}

Test(control_allow, roles_without_volumes_get_no_session)
{
	static const char *const subjects[] = { "gateway/7", "node/3", "monitor/eye" };
	uint64_t mine = mt_volumes_by_name(&sg.gateway->volumes, "mine")->volume.id;

	for (uint32_t i = 0; i < NUM_COUNT(subjects); i++) {
		struct who who;
		int rc;

		/* By the key's role, or by the right: the same whether there is such a volume or not. */
		who_comes(&who, subjects[i]);
		rc = session_of(&who, mine, 1, 0);
		cr_assert(rc == -ENOKEY || rc == -EKEYREJECTED, "%s: %d", subjects[i], rc);
		cr_assert_eq(session_of(&who, 4000, 1, 0), rc, "%s", subjects[i]);
		who_goes(&who);
	}
	cr_assert_eq(session_of(&admin, mine, 1, 0), 0);
}

/* ---- rights that change ---- */

/* Changes by way of the store, as those of other gateways come. */
static void
store_user(const char *name, const char *text)
{
	char key[MT_USER_KEY_BYTES];

	mt_user_key(name, key);
	made_cluster_put(sg.store, key, text);
}

Test(control_allow, sessions_that_lose_their_right_end_within_a_second)
{
	struct who who, reader;
	uint64_t mine = mt_volumes_by_name(&sg.gateway->volumes, "mine")->volume.id;
	struct wire_hello writes = sg_hello(mine, 0xa, 1, 1), reads = sg_hello(mine, 2, 0, 1);
	struct sg_qp write_qp, read_qp, eve_qp;
	uint64_t since;

	who_asks(&who, "client/db");
	who_asks(&reader, "client/eve");
	user_is("db", "{'volumes':'mine','may':'rw'}");
	user_is("eve", "{'volumes':'mine','may':'r'}");
	asked(&who, 0, "{'op':'volume.attach','name':'mine','session':'000000000000000a'}");
	cr_assert_eq(who_connects(&who, &write_qp, &writes), 0);
	cr_assert_eq(who_connects(&who, &read_qp, &reads), 0);
	cr_assert_eq(who_connects(&reader, &eve_qp, &reads), 0);

	/* w goes: the writer's session ends, readers stay. */
	since = sim_world_now_ns(sg.world);
	store_user("db",
	    "{\"format\":1,\"rights\":[{\"volumes\":\"mine\",\"may\":\"r\"}],"
	    "\"disabled\":false}");
	cr_assert(sg_wait_closed(&write_qp));
	cr_assert_leq(sim_world_now_ns(sg.world) - since, CHANGE_NS);
	sg_run_for(&sg, CHANGE_NS);
	cr_assert_not(read_qp.is_closed);
	cr_assert_not(eve_qp.is_closed);
	cr_assert(
	    gateway_tells(sg.gateway, CLEAVE_EVENT_SESSION_CUT, "by=client/db volume=mine", NULL));
	cr_assert_eq(session_of(&who, mine, 0xa, 1), -ENOKEY);

	/* The user goes: so do all its sessions, and no other's. */
	since = sim_world_now_ns(sg.world);
	store_user("db", NULL);
	cr_assert(sg_wait_closed(&read_qp));
	cr_assert_leq(sim_world_now_ns(sg.world) - since, CHANGE_NS);
	cr_assert_not(eve_qp.is_closed);
	cr_assert_eq(session_of(&who, mine, 1, 0), -ENOENT);

	/* A key that cannot be read gives no right. */
	since = sim_world_now_ns(sg.world);
	store_user("eve", "{\"format\":2}");
	cr_assert(sg_wait_closed(&eve_qp));
	cr_assert_leq(sim_world_now_ns(sg.world) - since, CHANGE_NS);
	sg_close(&write_qp);
	sg_close(&read_qp);
	sg_close(&eve_qp);
	who_goes(&who);
	who_goes(&reader);
}

/* Granted by way of another gateway, and used before the watch has fired. */
Test(control_allow, who_was_given_a_right_a_moment_ago_is_let_in)
{
	struct who who;
	uint64_t mine = mt_volumes_by_name(&sg.gateway->volumes, "mine")->volume.id;

	who_asks(&who, "client/db");
	mt_users_unwatch(sg.gateway); /* it hears of nothing */
	store_user("db",
	    "{\"format\":1,\"rights\":[{\"volumes\":\"mine\",\"may\":\"r\"}],"
	    "\"disabled\":false}");
	cr_assert_eq(session_of(&who, mine, 1, 0), 0);
	who_goes(&who);
}

/* The answer says that the ports know. */
Test(control_allow, a_change_by_user_set_closes_sessions_before_it_is_answered)
{
	struct who who;
	uint64_t mine = mt_volumes_by_name(&sg.gateway->volumes, "mine")->volume.id;
	struct wire_hello reads = sg_hello(mine, 2, 0, 1);
	struct sg_qp qp;

	who_asks(&who, "client/db");
	user_is("db", "{'volumes':'mine','may':'r'}");
	cr_assert_eq(who_connects(&who, &qp, &reads), 0);
	asked(&admin, 0, "{'op':'user.set','name':'db','disabled':true}");
	cr_assert(sg_wait_closed(&qp));
	cr_assert(gateway_tells(sg.gateway, CLEAVE_EVENT_USER_CHANGED, "disabled", "admin/ann"));
	cr_assert_eq(session_of(&who, mine, 2, 0), -ENOENT);
	sg_close(&qp);
	who_goes(&who);
}

/* A session whose volume is renamed has the right to the volume by its new name, or none. */
Test(control_allow, a_rename_counts_with_the_next_change_or_connection)
{
	struct who who;
	uint64_t mine = mt_volumes_by_name(&sg.gateway->volumes, "mine")->volume.id;

	who_asks(&who, "client/db");
	user_is("db", "{'volumes':'mine','may':'r'}");
	cr_assert_eq(session_of(&who, mine, 2, 0), 0);
	asked(&admin, 0, "{'op':'volume.rename','name':'mine','new':'theirs'}");
	cr_assert_eq(session_of(&who, mine, 2, 0), -ENOENT);
	who_goes(&who);
}

/* ---- who it was ---- */

Test(control_allow, what_is_done_is_told_by_the_name_in_the_key)
{
	struct who who;

	who_asks(&who, "client/db");
	user_is("db", "{'volumes':'new*','may':'a'}");
	asked(&who, 0,
	    "{'op':'volume.create','name':'new','size_bytes':4096,'by':'somebody else'}");
	cr_assert(gateway_tells(sg.gateway, CLEAVE_EVENT_VOLUME_CREATED, "name=new", "client/db"));
	who_goes(&who);
}

/* ---- an open port ---- */

Test(control_allow, without_a_key_nobody_is_asked)
{
	struct who anybody;
	int rc = 0;
	json_t *answer;

	who_goes(&admin);
	sg_stop(&sg);
	sg.options.key = NULL;
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_run_for(&sg, NUM_MS(50));
	sg_connect(&sg, &anybody.qp, NULL);
	cr_assert_eq(sg_wait_open(&anybody.qp), 0);
	for (uint32_t i = 0; mt_control_op_at(i) != NULL; i++) {
		answer = ask_cell(&anybody, mt_control_op_at(i), "mine", &rc);
		cr_assert_neq(rc, -ENOKEY, "%s", mt_control_op_at(i)->name);
		json_decref(answer);
	}
	cr_assert_not(sg.gateway->users.watched.is_watching);
	sg_close(&anybody.qp);
	who_comes(&admin, "admin/ann"); /* for teardown */
}
