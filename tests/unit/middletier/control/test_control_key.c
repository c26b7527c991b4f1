/* SPDX-License-Identifier: Apache-2.0 */
/* test_control_key.c -- lists of revoked keys, given to a gateway: which it takes, and who is gone then */
#include "tests/unit/allow_rig.h"

#include "middletier/cluster/revoked.h"
#include "middletier/common/event.h"
#include "middletier/meta/meta_store.h"
#include "middletier/meta/meta_txn.h"

#define CHANGE_NS NUM_S(1)

static struct key_authority other;
static char list[KEY_MAKER_TEXT_BYTES];

static void
setup(void)
{
	allow_setup();
	key_authority_make(&other, 0, 0);
}

static void
teardown(void)
{
	allow_teardown();
	key_authority_fini(&other);
}

TestSuite(control_key, .init = setup, .fini = teardown, .timeout = 60);

static void
make_list(const struct key_authority *signer, uint64_t number, const struct split_key *who)
{
	list[0] = '\0';
	key_make_list(signer, number, &who, who == NULL ? 0 : 1, list);
}

/* @list, by @who. The caller drops the answer. */
static json_t *
publish(struct who *who, bool is_forced, int *ret_rc)
{
	json_t *request = json_pack("{s:s, s:s, s:b}", "op", "key.publish", "lists", list, "force",
	    (int)is_forced);
	char *text = json_dumps(request, JSON_COMPACT);
	json_t *answer = sg_control(&who->qp, text, ret_rc);

	free(text);
	json_decref(request);
	cr_assert_not_null(answer, "%d", *ret_rc);
	return answer;
}

static void
answered(bool is_forced, int want_rc, const char *words)
{
	int rc = 0;
	json_t *answer = publish(&admin, is_forced, &rc);

	cr_assert_eq(rc, want_rc, "%d %s", rc, error_of(answer));
	if (rc == 0)
		cr_assert_eq(json_is_true(json_object_get(answer, "changed")),
		    strcmp(words, "changed") == 0);
	else
		cr_assert(strstr(error_of(answer), words) != NULL, "%s", error_of(answer));
	json_decref(answer);
}

static void
published(int want_rc, const char *words)
{
	answered(false, want_rc, words);
}

static bool
has_event(enum cleave_event_code code, const char *word)
{
	struct mt_event events[32];
	uint64_t after = 0;
	uint32_t count;

	while ((count = mt_events_read(sg.gateway->shared.events, after, events, 32)) > 0) {
		for (uint32_t i = 0; i < count; i++) {
			if (events[i].code == code && strstr(events[i].text, word) != NULL)
				return true;
		}
		after = events[count - 1].number;
	}
	return false;
}

/* As another gateway writes it, or whoever can write the store. */
static void
store_lists(const char *text)
{
	struct meta_op op = { .kind = text == NULL ? META_DELETE : META_PUT,
		.key = MT_REVOKED_KEY,
		.value = text,
		.value_bytes = text == NULL ? 0 : (uint32_t)strlen(text) };
	struct meta_txn *txn;

	cr_assert_eq(meta_txn_copy(&op, 1, &txn), 0);
	cr_assert_eq(meta_store_txn(sg.store, txn), 0);
	mt_free(txn);
}

Test(control_key, who_is_published_is_gone_before_the_answer)
{
	struct who ann, monitor;

	who_asks(&ann, "admin/ann2");
	who_asks(&monitor, "monitor/m");
	make_list(&authority, 1, ann.key);
	published(0, "changed");
	cr_assert(sg_wait_closed(&ann.qp));
	cr_assert(has_event(CLEAVE_EVENT_KEY_CUT, "admin/ann2"));
	cr_assert(has_event(CLEAVE_EVENT_KEYS_REVOKED, "audit:"));
	cr_assert_not(monitor.qp.is_closed);
	sg_close(&ann.qp);
	cr_assert_eq(who_connects(&ann, &ann.qp, NULL), -EKEYREJECTED);
	published(0, "known");
	who_goes(&ann);
	who_goes(&monitor);
}

Test(control_key, what_is_not_the_newest_of_its_authority_is_refused)
{
	struct who monitor;
	json_t *answer;
	int rc = 0;

	make_list(&authority, 2, NULL);
	published(0, "changed");
	make_list(&authority, 1, admin.key);
	published(-ESTALE, "number 1, and number 2 is known");
	make_list(&other, 9, admin.key);
	published(-EKEYREJECTED, "another authority");
	make_list(&authority, 3, NULL);
	key_make_list(&other, 1, NULL, 0, list); /* behind it: one of two is foreign */
	published(-EKEYREJECTED, "another authority");
	(void)snprintf(list, sizeof(list), "garbage");
	published(-EINVAL, "no list of revoked keys");
	who_asks(&monitor, "monitor/m");
	make_list(&authority, 3, NULL);
	answer = publish(&monitor, false, &rc);
	cr_assert_eq(rc, -ENOKEY);
	json_decref(answer);
	who_goes(&monitor);
}

/* The authority's folder was put back from a copy, and counted on: who was revoked is not on its list. */
Test(control_key, a_list_that_lacks_who_was_revoked_wants_a_word_and_gives_nobody_back)
{
	struct who ann;

	who_comes(&ann, "admin/ann2");
	make_list(&authority, 2, ann.key);
	published(0, "changed");
	make_list(&authority, 7, NULL);
	published(-ENOTEMPTY, "lacks 1 key that was revoked before (serial ");
	cr_assert_not(has_event(CLEAVE_EVENT_KEYS_REVOKED, "lacks"));
	answered(true, 0, "changed");
	cr_assert(has_event(CLEAVE_EVENT_KEYS_REVOKED, "lacks 1"));
	cr_assert_eq(who_connects(&ann, &ann.qp, NULL), -EKEYREJECTED);
	sg_close(&ann.qp);
	who_goes(&admin);
	sg_stop(&sg);
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_run_for(&sg, NUM_MS(50));
	who_asks(&admin, "admin/ann");
	cr_assert_eq(who_connects(&ann, &ann.qp, NULL), -EKEYREJECTED, "after a start");
	who_goes(&ann);
}

/* A slip: the subject of the only gateway. It would serve nobody, and no list takes one back. */
Test(control_key, the_gateway_that_is_asked_is_not_revoked_without_a_word)
{
	make_list(&authority, 1, gateway_key);
	published(-ENOTEMPTY, "gateway/1, the gateway that was asked, is on the list");
	cr_assert_not(has_event(CLEAVE_EVENT_KEYS_REVOKED, ""));
	answered(true, 0, "changed");
	cr_assert(has_event(CLEAVE_EVENT_KEYS_REVOKED, "audit:"));
}

/* The list comes by the watch, within a second; what the store says after that takes nothing back. */
Test(control_key, what_another_gateway_published_counts)
{
	struct who ann;
	uint64_t since;

	who_asks(&ann, "admin/ann2");
	make_list(&authority, 5, ann.key);
	since = sim_world_now_ns(sg.world);
	store_lists(list);
	cr_assert(sg_wait_closed(&ann.qp));
	cr_assert_leq(sim_world_now_ns(sg.world) - since, CHANGE_NS);
	sg_close(&ann.qp);
	for (uint32_t i = 0; i < 3; i++) {
		make_list(&authority, 4, NULL);
		store_lists(i == 0 ? NULL : i == 1 ? list : "garbage");
		sg_run_for(&sg, CHANGE_NS);
		cr_assert_eq(who_connects(&ann, &ann.qp, NULL), -EKEYREJECTED, "%u", i);
		sg_close(&ann.qp);
	}
	/* The store was put back: the same list again heals it. */
	make_list(&authority, 5, ann.key);
	published(0, "changed");
	published(0, "known");
	who_goes(&ann);
}

Test(control_key, who_was_revoked_is_refused_after_a_start)
{
	struct who ann;

	who_comes(&ann, "admin/ann2");
	make_list(&authority, 1, ann.key);
	published(0, "changed");
	who_goes(&admin);
	sg_stop(&sg);
	cr_assert_eq(sg_start(&sg), 0, "%s", sg.error);
	sg_run_for(&sg, NUM_MS(50));
	who_asks(&admin, "admin/ann");
	cr_assert_eq(who_connects(&ann, &ann.qp, NULL), -EKEYREJECTED);
	who_goes(&ann);
}

/* The gateway's own key, renewed: it is shown, and what was learnt stays. */
Test(control_key, a_renewed_key_keeps_what_was_learnt)
{
	struct split_key *renewed = key_make(&authority, CLUSTER "gateway/1"), *next;
	char why[SPLIT_KEY_WHY_BYTES_MAX];
	struct who ann;

	who_comes(&ann, "admin/ann2");
	make_list(&authority, 1, ann.key);
	published(0, "changed");
	next = split_key_revoke(renewed, list, strlen(list), why);
	mt_revoked_rekey(sg.gateway, next);
	sg_run_for(&sg, NUM_MS(50));
	cr_assert_eq(sg.gateway->revoked.key, next);
	cr_assert_eq(split_port_key(sg.gateway->ports[0].split), next);
	cr_assert_not(admin.qp.is_closed, "what stands does not go on");
	cr_assert_eq(who_connects(&ann, &ann.qp, NULL), -EKEYREJECTED);
	who_goes(&ann);
	split_key_free(renewed);
	split_key_free(next);
}
