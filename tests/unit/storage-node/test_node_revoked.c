/* SPDX-License-Identifier: Apache-2.0 */
/* test_node_revoked.c -- a node judges lists of revoked keys itself, and shuts out who is on them at once */
#include <criterion/criterion.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cleave/secure.h"
#include "support/key_maker.h"
#include "support/node_rig.h"

#define CLUSTER "cleave://1122334455667788/"

static struct key_authority authority, other;
static struct split_key *node_key, *keys[2];
static struct split_port *ports[2]; /* of gateway/1 and gateway/2 */
static struct node_rig *rig;
static char list[KEY_MAKER_TEXT_BYTES];

static int
come_as(uint32_t number)
{
	const struct wire_hello hello = { .role = WIRE_ROLE_GATEWAY,
		.cluster_id = RIG_CLUSTER_ID,
		.session_id = 0x57,
		.attach = 0x0e };

	rig_disconnect(rig);
	rig->port = ports[number - 1];
	return rig_connect_as(rig, &hello);
}

static void
setup(void)
{
	key_authority_make(&authority, 0, 0);
	key_authority_make(&other, 0, 0);
	node_key = key_make(&authority, CLUSTER "node/7");
	keys[0] = key_make(&authority, CLUSTER "gateway/1");
	keys[1] = key_make(&authority, CLUSTER "gateway/2");
	rig = rig_create(&(struct rig_options){ .node_key = node_key, .own_key = keys[0] });
	ports[0] = rig->port;
	ports[1] = rig_port_open(rig, keys[1]);
	cr_assert_eq(rig_start(rig), 0, "%s", rig->ready_reason);
	cr_assert_eq(come_as(1), 0);
}

static void
teardown(void)
{
	rig_disconnect(rig);
	rig->port = ports[0];
	split_port_close(ports[1]);
	rig_destroy(rig);
	split_key_free(keys[0]);
	split_key_free(keys[1]);
	split_key_free(node_key);
	key_authority_fini(&authority);
	key_authority_fini(&other);
}

TestSuite(node_revoked, .init = setup, .fini = teardown, .timeout = 60);

/* The text of @list, sent; the node's status, and in @ret_text what it said, to free. */
static int
bring(char **ret_text)
{
	json_t *request = json_pack("{s:s, s:s}", "op", "revoked", "lists", list);
	char *text = json_dumps(request, JSON_COMPACT);
	int rc = rig_control(rig, text, ret_text);

	free(text);
	json_decref(request);
	return rc;
}

static void
make_list(const struct key_authority *signer, uint64_t number, const struct split_key *who)
{
	list[0] = '\0';
	key_make_list(signer, number, &who, who == NULL ? 0 : 1, list);
}

static void
expect(int want_rc, const char *words)
{
	char *text = NULL;
	int rc = bring(&text);

	cr_assert_eq(rc, want_rc, "%d %s", rc, text);
	cr_assert(strstr(text, words) != NULL, "%s", text);
	free(text);
}

static bool
is_closed(void *arg)
{
	(void)arg;
	return rig->is_closed;
}

Test(node_revoked, who_is_on_the_list_stays_out)
{
	make_list(&authority, 1, keys[1]);
	cr_assert_eq(come_as(2), 0);
	cr_assert_eq(come_as(1), 0);
	expect(0, "{}");
	expect(0, "{}"); /* known already */
	cr_assert_eq(come_as(2), -EKEYREJECTED);
	cr_assert_eq(come_as(1), 0);
}

Test(node_revoked, its_own_connection_ends)
{
	make_list(&authority, 1, keys[0]);
	{
		json_t *request = json_pack("{s:s, s:s}", "op", "revoked", "lists", list);
		char *text = json_dumps(request, JSON_COMPACT), *answer = NULL;

		(void)rig_control(rig, text, &answer); /* the answer may not come any more */
		free(answer);
		free(text);
		json_decref(request);
	}
	rig_run_until(rig, is_closed, NULL);
	cr_assert(rig->is_closed);
	cr_assert_eq(node_counters(rig->node)->connections_revoked, 1);
	cr_assert_eq(come_as(1), -EKEYREJECTED);
}

Test(node_revoked, what_is_not_the_newest_of_its_authority_changes_nothing)
{
	make_list(&authority, 2, keys[1]);
	expect(0, "{}");
	make_list(&authority, 1, NULL);
	expect(-ESTALE, "number 1, and number 2 is known");
	make_list(&other, 9, NULL);
	expect(-EKEYREJECTED, "another authority");
	(void)snprintf(list, sizeof(list), "garbage");
	expect(-EINVAL, "no list of revoked keys");
	cr_assert_eq(come_as(2), -EKEYREJECTED);
}

/* As much of a list as there is, by a key that does not know all authorities: it says that it has not all of it. */
Test(node_revoked, part_of_the_lists_is_taken_and_asked_for_again)
{
	const struct split_key *who = keys[1];

	make_list(&authority, 1, who);
	key_make_list(&other, 1, &who, 1, list); /* behind it */
	expect(-EKEYREJECTED, "another authority");
	cr_assert_eq(come_as(2), -EKEYREJECTED);
}

Test(node_revoked, a_renewed_key_keeps_what_was_learnt)
{
	struct split_key *renewed = key_make(&authority, CLUSTER "node/7");

	make_list(&authority, 1, keys[1]);
	expect(0, "{}");
	cr_assert_eq(node_rekey(rig->node, renewed), 0);
	split_key_free(renewed);
	cr_assert_neq(node_own_key(rig->node), node_key);
	cr_assert_eq(come_as(2), -EKEYREJECTED);
	cr_assert_eq(come_as(1), 0);
}

/* All that it learnt, of all authorities, for a store that is made anew. */
Test(node_revoked, it_says_what_it_has)
{
	char *text = NULL;
	json_t *answer;
	size_t bytes;

	cr_assert_eq(rig_control(rig, "{\"op\":\"revoked\"}", &text), 0);
	cr_assert_str_eq(text, "{\"lists\":\"\"}");
	free(text);
	make_list(&authority, 1, keys[1]);
	expect(0, "{}");
	cr_assert_eq(rig_control(rig, "{\"op\":\"revoked\"}", &text), 0);
	answer = json_loads(text, 0, NULL);
	cr_assert_str_eq(json_string_value(json_object_get(answer, "lists")),
	    split_key_revoked(node_own_key(rig->node), &bytes));
	cr_assert(bytes > 0);
	json_decref(answer);
	free(text);
}

Test(node_revoked, lists_that_are_no_text_are_refused)
{
	char *text = NULL;

	cr_assert_eq(rig_control(rig, "{\"op\":\"revoked\",\"lists\":7}", &text), -EINVAL);
	cr_assert(strstr(text, "no string") != NULL, "%s", text);
	free(text);
}
