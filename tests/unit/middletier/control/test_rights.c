/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_rights.c -- every role x op x right x what a client may
 *
 * Once the code's table against one by hand; once the code's, and SECURITY.md's, which people read, against what a gateway
 * answers over connections with keys: 100 % of the cells.
 */
#include "unit/allow_rig.h"

#include "middletier/cluster/rights.h"

#define PAGE_ROWS_MAX 16

/* A row: 'y', 'n'; of a client: "n", "y", or the letters that it needs. */
static const struct {
	enum mt_right right;
	char gateway, node, admin, monitor;
	const char *client;
} table[] = {
	{ MT_RIGHT_NONE, 'n', 'n', 'n', 'n', "n" },
	{ MT_RIGHT_FIND, 'y', 'n', 'y', 'y', "y" },
	{ MT_RIGHT_VOLUME_LOOK, 'y', 'n', 'y', 'y', "r" },
	{ MT_RIGHT_VOLUME_READ, 'n', 'n', 'y', 'n', "r" },
	{ MT_RIGHT_VOLUME_WRITE, 'n', 'n', 'y', 'n', "rw" },
	{ MT_RIGHT_SNAPSHOT, 'n', 'n', 'y', 'n', "s" },
	{ MT_RIGHT_CLONE, 'n', 'n', 'y', 'n', "rs" },
	{ MT_RIGHT_ROLLBACK, 'n', 'n', 'y', 'n', "sw" },
	{ MT_RIGHT_ALTER, 'n', 'n', 'y', 'n', "a" },
	{ MT_RIGHT_LOOK, 'y', 'n', 'y', 'y', "n" },
	{ MT_RIGHT_PEER, 'y', 'n', 'y', 'n', "n" },
	{ MT_RIGHT_CLUSTER, 'n', 'n', 'y', 'n', "n" },
};

static bool
client_may(const char *needs, unsigned may)
{
	static const char letters[] = "rwsa";

	if (needs[0] == 'y' || needs[0] == 'n')
		return needs[0] == 'y';
	for (const char *c = needs; *c != '\0'; c++) {
		if ((may >> (strchr(letters, *c) - letters) & 1) == 0)
			return false;
	}
	return true;
}

Test(rights, every_cell_is_as_the_table_says)
{
	cr_assert_eq(NUM_COUNT(table), (size_t)MT_RIGHT_NR);
	for (size_t i = 0; i < NUM_COUNT(table); i++) {
		enum mt_right right = table[i].right;

		cr_assert_eq(right, (enum mt_right)i);
		for (unsigned may = 0; may <= MT_MAY_ALL; may++) {
			cr_assert_eq(mt_right_allows(SPLIT_ROLE_GATEWAY, may, right),
			    table[i].gateway == 'y', "gateway %zu %x", i, may);
			cr_assert_eq(mt_right_allows(SPLIT_ROLE_NODE, may, right),
			    table[i].node == 'y', "node %zu %x", i, may);
			cr_assert_eq(mt_right_allows(SPLIT_ROLE_ADMIN, may, right),
			    table[i].admin == 'y', "admin %zu %x", i, may);
			cr_assert_eq(mt_right_allows(SPLIT_ROLE_MONITOR, may, right),
			    table[i].monitor == 'y', "monitor %zu %x", i, may);
			cr_assert_eq(mt_right_allows(SPLIT_ROLE_CLIENT, may, right),
			    client_may(table[i].client, may), "client %zu %x", i, may);
		}
	}
}

Test(rights, every_op_has_one_and_each_right_has_an_op)
{
	uint32_t ops[MT_RIGHT_NR] = { 0 }, count = 0;

	for (; mt_control_op_at(count) != NULL; count++) {
		const struct mt_control_op *op = mt_control_op_at(count);

		cr_assert(op->right > MT_RIGHT_NONE && op->right < MT_RIGHT_NR, "%s", op->name);
		ops[op->right]++;
	}
	cr_assert_gt(count, 50u);
	for (uint32_t i = MT_RIGHT_NONE + 1; i < MT_RIGHT_NR; i++)
		cr_assert_gt(ops[i], 0u, "right %u", i);
}

/* A change that whoever looks could make would be a hole; but those that gateways ask each other. */
Test(rights, nothing_that_changes_is_for_who_only_looks)
{
	for (uint32_t i = 0; mt_control_op_at(i) != NULL; i++) {
		const struct mt_control_op *op = mt_control_op_at(i);

		if (op->is_change)
			cr_assert(!mt_right_allows(SPLIT_ROLE_MONITOR, 0, op->right) &&
				!mt_right_allows(SPLIT_ROLE_NODE, 0, op->right) &&
				!mt_right_allows(SPLIT_ROLE_CLIENT, 0, op->right),
			    "%s", op->name);
	}
}

/* ---- every cell, asked ---- */

TestSuite(rights_asked, .init = allow_setup, .fini = allow_teardown, .timeout = 240);

/* A row of SECURITY.md: for each role "yes" or "no", and a client's letters. */
struct row {
	char right[32], ops[512];
	bool gateway, node, admin, monitor;
	char client[8]; /* letters alone; "y", "n" */
};

static uint32_t
page_read(struct row rows[PAGE_ROWS_MAX])
{
	char path[512], line[2048];
	const char *folder = getenv("CLEAVE_SOURCE_DIR");
	bool is_there = false;
	uint32_t count = 0;
	FILE *page;

	(void)snprintf(path, sizeof(path), "%s/SECURITY.md", folder == NULL ? "." : folder);
	page = fopen(path, "r");
	cr_assert_not_null(page, "%s", path);
	while (fgets(line, sizeof(line), page) != NULL) {
		char *cells[8], *next = line;
		uint32_t cell = 0;
		struct row *row = &rows[count];
		size_t letters = 0;
		bool is_word;

		if (strncmp(line, "| right | operations |", 22) == 0)
			is_there = true;
		else if (is_there && line[0] != '|')
			break;
		if (!is_there || strncmp(line, "| right", 7) == 0 || strncmp(line, "| ---", 5) == 0)
			continue;
		while (cell < 8 && (cells[cell] = strsep(&next, "|")) != NULL)
			cell++;
		cr_assert_eq(cell, 8u, "%s", line);
		cr_assert_lt(count, (uint32_t)PAGE_ROWS_MAX);
		*row = (struct row){ .gateway = strcmp(cells[3], " yes ") == 0,
			.node = strcmp(cells[4], " yes ") == 0,
			.admin = strcmp(cells[6], " yes ") == 0,
			.monitor = strcmp(cells[7], " yes ") == 0 };
		cr_assert_eq(sscanf(cells[1], " %31s ", row->right), 1);
		(void)snprintf(row->ops, sizeof(row->ops), "%s", cells[2]);
		is_word = strcmp(cells[5], " yes ") == 0 || strcmp(cells[5], " no ") == 0;
		if (is_word)
			row->client[0] = cells[5][1];
		for (const char *at = cells[5]; !is_word && *at != '\0'; at++) {
			if (strchr(MT_MAY_LETTERS, *at) != NULL &&
			    letters < sizeof(row->client) - 1)
				row->client[letters++] = *at;
		}
		count++;
	}
	(void)fclose(page);
	return count;
}

/* The page's row for an op, which it names once, as `op`. */
static const struct row *
row_of(const struct row *rows, uint32_t count, const char *op)
{
	const struct row *found = NULL;
	char word[64];

	(void)snprintf(word, sizeof(word), "`%s`", op);
	for (uint32_t i = 0; i < count; i++) {
		if (strstr(rows[i].ops, word) == NULL)
			continue;
		cr_assert_null(found, "%s is in two rows of SECURITY.md", op);
		found = &rows[i];
	}
	cr_assert_not_null(found, "SECURITY.md does not name %s", op);
	return found;
}

static bool
row_allows(const struct row *row, enum split_role role, unsigned may)
{
	if (role == SPLIT_ROLE_GATEWAY)
		return row->gateway;
	if (role == SPLIT_ROLE_NODE)
		return row->node;
	if (role == SPLIT_ROLE_ADMIN)
		return row->admin;
	if (role == SPLIT_ROLE_MONITOR)
		return row->monitor;
	if (row->client[0] == 'y' || row->client[0] == 'n')
		return row->client[0] == 'y';
	for (const char *at = row->client; *at != '\0'; at++) {
		if ((may >> (strchr(MT_MAY_LETTERS, *at) - MT_MAY_LETTERS) & 1) == 0)
			return false;
	}
	return true;
}

/* Letters that a request of @op needs beyond its right's: of the name that is to be, which the request has. */
static unsigned
more_letters(const struct mt_control_op *op)
{
	return op->names == MT_NAMES_BOTH || op->names == MT_NAMES_NEW ? MT_MAY_ALTER : 0;
}

struct cells {
	const struct row *rows;
	uint32_t row_count;
	uint32_t cell_count, allowed_count;
};

/* All ops, as somebody of @role whose letters for "mine" and "mine-too" are @may. */
static void
check_ops(struct cells *cells, struct who *who, enum split_role role, unsigned may)
{
	for (uint32_t i = 0; mt_control_op_at(i) != NULL; i++) {
		const struct mt_control_op *op = mt_control_op_at(i);
		bool by_page =
		    row_allows(row_of(cells->rows, cells->row_count, op->name), role, may);
		bool by_code = mt_right_allows(role, may, op->right);
		bool is_allowed = by_page;
		int rc = 0;
		json_t *answer = ask_cell(who, op, "mine", &rc);

		cr_assert_eq(by_page, by_code, "%s role %x may %x: the page is not the code",
		    op->name, role, may);
		if (role == SPLIT_ROLE_CLIENT && (may & more_letters(op)) != more_letters(op))
			is_allowed = false;
		/* A list is told of what one may see, which may be nothing; an id's op looks for itself. */
		if (role == SPLIT_ROLE_CLIENT &&
		    (op->names == MT_NAMES_MANY || op->names == MT_NAMES_ID))
			is_allowed = true;
		/* Some of those that only look take no notice of members that they do not know. */
		if (is_allowed && rc == 0)
			cr_assert_not(op->is_change, "%s", op->name);
		else if (is_allowed)
			cr_assert(rc == -EINVAL && strstr(error_of(answer), "zzz") != NULL,
			    "%s role %x may %x is not run: %d %s", op->name, role, may, rc,
			    error_of(answer));
		else if (may == 0 && role == SPLIT_ROLE_CLIENT && op->names != MT_NAMES_NONE &&
		    op->names != MT_NAMES_NEW)
			cr_assert_eq(rc, -ENOENT, "%s may 0: %d", op->name, rc);
		else
			cr_assert_eq(rc, -ENOKEY, "%s role %x may %x: %d %s", op->name, role, may,
			    rc, error_of(answer));
		json_decref(answer);
		cells->cell_count++;
		cells->allowed_count += is_allowed;
	}
}

/* Somebody of @role is turned away at the door: there is nothing that it could be allowed. */
static void
check_no_op(struct cells *cells, enum split_role role)
{
	for (uint32_t i = 0; mt_control_op_at(i) != NULL; i++) {
		const struct mt_control_op *op = mt_control_op_at(i);

		cr_assert_not(row_allows(row_of(cells->rows, cells->row_count, op->name), role,
				  MT_MAY_ALL),
		    "%s role %x", op->name, role);
		cr_assert_not(mt_right_allows(role, MT_MAY_ALL, op->right), "%s role %x", op->name,
		    role);
		cells->cell_count++;
	}
}

/* User @name may @may with "mine" and "mine-too". None is given w alone any more; a store of before may have one. */
static void
user_may_mine(const char *name, unsigned may)
{
	char rights[128], letters[MT_MAY_TEXT_BYTES], key[MT_USER_KEY_BYTES];
	struct mt_user user = { .right_count = 1, .rights = { { "mine*", may } } };
	char *text;

	if ((may & MT_MAY_WRITE) == 0 || (may & (MT_MAY_READ | MT_MAY_SNAPSHOT)) != 0) {
		(void)snprintf(rights, sizeof(rights), "{'volumes':'mine*','may':'%s'}",
		    mt_may_text(may, letters));
		user_is(name, may == 0 ? "" : rights);
		return;
	}
	(void)snprintf(user.name, sizeof(user.name), "%s", name);
	text = mt_user_encode(&user);
	cr_assert_not_null(text);
	mt_user_key(name, key);
	made_cluster_put(sg.store, key, text);
	free(text);
	sg_run_for(&sg, NUM_MS(50));
}

Test(rights_asked, every_role_op_right_and_volume_is_as_security_md_says)
{
	static const struct {
		const char *subject;
		enum split_role role;
	} others[] = { { "gateway/7", SPLIT_ROLE_GATEWAY }, { "node/3", SPLIT_ROLE_NODE },
		{ "admin/bob", SPLIT_ROLE_ADMIN }, { "monitor/eye", SPLIT_ROLE_MONITOR } };
	struct row rows[PAGE_ROWS_MAX];
	struct cells cells = { .rows = rows, .row_count = page_read(rows) };
	uint32_t op_count = 0;

	cr_assert_eq(cells.row_count, (uint32_t)MT_RIGHT_NR - 1, "a row a right");
	while (mt_control_op_at(op_count) != NULL)
		op_count++;
	for (uint32_t i = 0; i < NUM_COUNT(others); i++) {
		struct who who;

		who_comes(&who, others[i].subject);
		if (who_connects(&who, &who.qp, NULL) == 0)
			check_ops(&cells, &who, others[i].role, 0);
		else
			check_no_op(&cells, others[i].role);
		who_goes(&who);
	}
	for (unsigned may = 0; may <= MT_MAY_ALL; may++) {
		char name[32];
		struct who who;

		(void)snprintf(name, sizeof(name), "client/c%u", may);
		user_may_mine(name + strlen("client/"), may);
		who_asks(&who, name);
		check_ops(&cells, &who, SPLIT_ROLE_CLIENT, may);
		check_hidden(&who);
		who_goes(&who);
	}
	cr_assert_eq(cells.cell_count, op_count * (NUM_COUNT(others) + MT_MAY_ALL + 1));
	cr_assert_gt(cells.allowed_count, op_count); /* an admin has them all */
}
