/* SPDX-License-Identifier: Apache-2.0 */
/* test_join_plan.c -- what comes next for a disk that is to become a node: each row of the table */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "storage-node/join/join_plan.h"

#define CLUSTER 0xc1ea7e0000000001u
#define OURS "11111111-1111-1111-1111-111111111111"
#define THEIRS "22222222-2222-2222-2222-222222222222"

static struct join_disk
disk_of(enum format_content content, uint64_t cluster_id, uint32_t node_id)
{
	struct join_disk disk = { .content = content,
		.format = { .cluster_id = cluster_id, .node_id = node_id } };

	if (content == FORMAT_DISK)
		(void)snprintf(disk.uuid, sizeof(disk.uuid), "%s", OURS);
	return disk;
}

static void
know(struct join_cluster *cluster, uint32_t id, const char *member, const char *disk)
{
	struct join_node *node = &cluster->nodes[cluster->count++];

	node->id = id;
	(void)snprintf(node->member, sizeof(node->member), "%s", member);
	(void)snprintf(node->disk, sizeof(node->disk), "%s", disk);
}

static void
expect(const struct join_disk *disk, const struct join_cluster *cluster, enum join_step step,
    uint32_t node_id)
{
	const struct join_node *node = NULL;

	cr_assert_eq(join_plan(disk, cluster, &node), step);
	cr_assert_eq(node == NULL ? 0 : node->id, node_id);
}

Test(join_plan, what_is_no_disk_of_this_cluster_is_formatted_or_refused_there)
{
	struct join_cluster cluster = { .cluster_id = CLUSTER };
	struct join_disk disk = disk_of(FORMAT_EMPTY, 0, 0);

	expect(&disk, &cluster, JOIN_FORMAT, 0);
	disk = disk_of(FORMAT_OTHER, 0, 0);
	expect(&disk, &cluster, JOIN_FORMAT, 0);
	/* Another cluster's node has the number of one here: that says nothing. */
	know(&cluster, 4, "in", THEIRS);
	disk = disk_of(FORMAT_DISK, CLUSTER + 1, 4);
	expect(&disk, &cluster, JOIN_FORMAT, 0);
}

Test(join_plan, a_disk_that_nobody_knows_is_added)
{
	struct join_cluster cluster = { .cluster_id = CLUSTER };
	struct join_disk disk = disk_of(FORMAT_DISK, CLUSTER, 4);

	expect(&disk, &cluster, JOIN_ADD, 0);
	know(&cluster, 5, "in", THEIRS);
	expect(&disk, &cluster, JOIN_ADD, 0);
}

Test(join_plan, a_number_and_its_disk_are_a_member_or_have_left)
{
	static const struct {
		const char *member;
		enum join_step step;
	} rows[] = { { "in", JOIN_MEMBER }, { "draining", JOIN_MEMBER }, { "out", JOIN_LEFT },
		{ "lost", JOIN_LEFT }, { "what a later release calls it", JOIN_LEFT } };
	struct join_disk disk = disk_of(FORMAT_DISK, CLUSTER, 4);

	for (size_t i = 0; i < NUM_COUNT(rows); i++) {
		struct join_cluster cluster = { .cluster_id = CLUSTER };

		know(&cluster, 4, rows[i].member, OURS);
		expect(&disk, &cluster, rows[i].step, 4);
		cluster.nodes[0].disk[0] = '\0';
		expect(&disk, &cluster, rows[i].step, 4);
	}
}

Test(join_plan, another_disk_has_the_number_or_another_number_the_disk)
{
	struct join_disk disk = disk_of(FORMAT_DISK, CLUSTER, 4);
	struct join_cluster cluster = { .cluster_id = CLUSTER };

	know(&cluster, 4, "in", THEIRS);
	expect(&disk, &cluster, JOIN_TAKEN, 4);
	cluster.count = 0;
	know(&cluster, 7, "draining", OURS);
	expect(&disk, &cluster, JOIN_TAKEN, 7);
	cluster.count = 0;
	know(&cluster, 7, "lost", OURS);
	expect(&disk, &cluster, JOIN_LEFT, 7);
	/* Both right: that counts, whatever else is told. */
	know(&cluster, 4, "in", OURS);
	expect(&disk, &cluster, JOIN_MEMBER, 4);
}

Test(join_plan, an_answer_is_read_or_refused_whole)
{
	static const char *const wrong[] = { "", "[]", "{}", "{\"cluster_id\":\"0\",\"nodes\":[]}",
		"{\"cluster_id\":\"1\"}", "{\"cluster_id\":\"1\",\"nodes\":{}}",
		"{\"cluster_id\":\"1\",\"nodes\":[{}]}",
		"{\"cluster_id\":\"1\",\"nodes\":[{\"id\":0,\"member\":\"in\",\"address\":\"a\","
		"\"disk\":\"d\"}]}",
		"{\"cluster_id\":\"1\",\"nodes\":[{\"id\":1,\"member\":\"in\",\"address\":\"a\"}]}",
		"{\"cluster_id\":\"1\",\"nodes\":[{\"id\":1,\"member\":\"a member of a long name\","
		"\"address\":\"a\",\"disk\":\"d\"}]}",
		"{\"cluster_id\":\"1\",\"nodes\":[1,2,3,4,5,6,7,8,9]}" };
	struct join_cluster cluster = { 0 };

	for (size_t i = 0; i < NUM_COUNT(wrong); i++)
		cr_assert_eq(join_plan_read(wrong[i], &cluster), -EPROTO, "%s", wrong[i]);
	cr_assert_eq(cluster.cluster_id, 0, "untouched");
	cr_assert_eq(join_plan_read("{\"cluster_id\":\"c1ea7e0000000001\",\"later\":1,\"nodes\":[{"
				    "\"id\":4,\"member\":\"in\",\"address\":\"tcp://a:1\","
				    "\"disk\":\"" OURS "\"}]}",
			 &cluster),
	    0);
	cr_assert_eq(cluster.cluster_id, CLUSTER);
	cr_assert_eq(cluster.count, 1);
	cr_assert_eq(cluster.nodes[0].id, 4);
	cr_assert_str_eq(cluster.nodes[0].disk, OURS);
}
