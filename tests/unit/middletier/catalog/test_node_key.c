/* SPDX-License-Identifier: Apache-2.0 */
/* test_node_key.c -- the keys of storage nodes: their text stays as it is, and nothing else is taken */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "middletier/catalog/node_key.h"

#define KEY "nodes/0000000003"
/* Bytes that stores hold: they must stay readable for ever. */
#define GOLDEN                                                                                     \
	"{\"format\":1,\"state\":\"draining\",\"address\":\"tcp://10.0.0.5:7201\","                \
	"\"domain\":\"dc1/rack2/host5\",\"weight\":50,"                                            \
	"\"disk\":\"0a1b2c3d-0000-4000-8000-0123456789ab\",\"added_s\":1790000000,"                \
	"\"maintenance_until_s\":1790007200,\"note\":\"shelf 4\"}"

static const struct mt_node golden = { .id = 3,
	.state = MT_NODE_DRAINING,
	.address = "tcp://10.0.0.5:7201",
	.domain = "dc1/rack2/host5",
	.weight = 50,
	.disk = "0a1b2c3d-0000-4000-8000-0123456789ab",
	.added_s = 1790000000,
	.maintenance_until_s = 1790007200,
	.note = "shelf 4",
	.version = 17 };

static int
decode(const char *key, const char *text, struct mt_node *ret_node)
{
	const char *field = NULL;
	int rc = mt_node_decode(key, text, (uint32_t)strlen(text), ret_node, &field);

	cr_assert(rc == 0 || (field != NULL && field[0] != '\0'));
	return rc;
}

Test(node_key, its_bytes_stay_as_they_are)
{
	char *text = mt_node_encode(&golden), key[MT_NODE_KEY_BYTES];
	struct mt_node node = { .version = 17 };

	cr_assert_str_eq(text, GOLDEN);
	free(text);
	mt_node_key(key, 3);
	cr_assert_str_eq(key, KEY);
	mt_node_key(key, UINT32_MAX);
	cr_assert_str_eq(key, "nodes/4294967295");
	cr_assert_eq(decode(KEY, GOLDEN, &node), 0);
	cr_assert_eq(memcmp(&node, &golden, sizeof(node)), 0);
}

Test(node_key, every_state_has_its_name)
{
	for (uint32_t i = 0; i < MT_NODE_STATE_NR; i++) {
		struct mt_node node = golden, back = { .version = 17 };
		char *text;

		node.state = (enum mt_node_state)i;
		text = mt_node_encode(&node);
		cr_assert_eq(decode(KEY, text, &back), 0);
		cr_assert_eq(back.state, node.state);
		free(text);
	}
}

/* GOLDEN with @from replaced by @to, which is not taken. */
static void
refuse(const char *from, const char *to)
{
	char text[1024];
	const char *at = strstr(GOLDEN, from);
	struct mt_node node = { .id = 77 };

	cr_assert_not_null(at, "%s", from);
	(void)snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - GOLDEN), GOLDEN, to,
	    at + strlen(from));
	cr_assert_eq(decode(KEY, text, &node), -EINVAL, "%s", text);
	cr_assert_eq(node.id, 77, "output touched");
}

Test(node_key, what_is_not_understood_is_refused)
{
	char long_text[200];

	refuse("\"format\":1", "\"format\":2");
	refuse("\"format\":1,", "");
	refuse("\"note\":", "\"more\":1,\"note\":");
	refuse("\"draining\"", "\"gone\"");
	refuse("\"draining\"", "3");
	refuse("tcp://10.0.0.5:7201", "");
	refuse("dc1/rack2/host5", "a/b/c/d/e");
	refuse("dc1/rack2/host5", "a//b");
	refuse("dc1/rack2/host5", "a/");
	refuse("\"weight\":50", "\"weight\":0");
	refuse("\"weight\":50", "\"weight\":1001");
	refuse("\"added_s\":1790000000", "\"added_s\":-1");
	refuse("1790007200", "\"soon\"");
	memset(long_text, 'x', sizeof(long_text) - 1);
	long_text[sizeof(long_text) - 1] = '\0';
	refuse("tcp://10.0.0.5:7201", long_text);
	refuse("dc1/rack2/host5", long_text);
	refuse("shelf 4", long_text);
	refuse("{", "[");
	refuse("}", "");
}

Test(node_key, a_key_is_ten_digits_of_an_id)
{
	static const char *const keys[] = { "nodes/", "nodes/3", "nodes/00000000003",
		"nodes/0000000000", "nodes/4294967296", "nodes/000000000x", "nodes/-000000003" };
	struct mt_node node = { 0 };

	for (uint32_t i = 0; i < NUM_COUNT(keys); i++)
		cr_assert_eq(decode(keys[i], GOLDEN, &node), -EINVAL, "%s", keys[i]);
	cr_assert_eq(decode("nodes/4294967295", GOLDEN, &node), 0);
	cr_assert_eq(node.id, UINT32_MAX);
}
