/* SPDX-License-Identifier: Apache-2.0 */
/* test_slow_op.c -- requests that took long: kept in order, the last of them, and logged with the slowest node */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/num.h"
#include "middletier/common/alloc.h"
#include "middletier/common/slow_op.h"

static struct mt_slow_ops *ops;
static struct mt_slow_op kept[MT_SLOW_OPS_MAX + 1];
static char last_line[LOG_LINE_BYTES_MAX];
static enum log_level last_level;
static uint32_t line_count;

static void
keep_line(enum log_level level, const char *line, void *arg)
{
	(void)arg;
	last_level = level;
	line_count++;
	(void)snprintf(last_line, sizeof(last_line), "%s", line);
}

static void
open_ops(void)
{
	ops = mt_slow_ops_create();
	cr_assert_not_null(ops);
	log_set_sink(keep_line, NULL);
}

static void
close_ops(void)
{
	log_set_sink(NULL, NULL);
	mt_slow_ops_destroy(ops);
}

TestSuite(slow_op, .init = open_ops, .fini = close_ops);

static struct mt_slow_op
slow_write(void)
{
	struct mt_slow_op op = { .opcode = WIRE_WRITE,
		.request_id = 0xabcdef,
		.offset_bytes = 8192,
		.length_bytes = 4096,
		.hops_ns = { [MT_WRITE_HOP_PARK] = NUM_US(1250),
		    [MT_WRITE_HOP_REPLICATE] = NUM_MS(810),
		    [MT_WRITE_HOP_TOTAL] = NUM_MS(812) },
		.volume = "disk1" };

	mt_slow_op_add_node(&op, &(struct mt_slow_part){ .node_id = 4, .took_ns = NUM_MS(41) });
	mt_slow_op_add_node(&op,
	    &(struct mt_slow_part){ .node_id = 2,
		.took_ns = NUM_US(798100),
		.own = { 12000, 6000, 779000 } });
	return op;
}

Test(slow_op, is_a_line_that_names_the_slowest_node_and_each_time)
{
	struct mt_slow_op op = slow_write();

	mt_slow_op(ops, &op);
	cr_assert_eq(last_level, LOG_WARN);
	cr_assert_str_eq(last_line,
	    "slow: a write took 812 ms volume=disk1 offset_bytes=8192 bytes=4096 class=standard "
	    "rc=0 trace=0000000000abcdef park_ms=1.2 engine_ms=0.0 batch_ms=0.0 replicate_ms=810.0 "
	    "reply_ms=0.0 node4_ms=41.0(queue_us=0,write_us=0,flush_us=0) "
	    "node2_ms=798.1(queue_us=12000,write_us=6000,flush_us=779000) longest=node2: cleave "
	    "slow has more");
	op.opcode = WIRE_READ;
	op.rc = -EIO;
	op.node_count = 1;
	op.nodes[0].is_lost = true;
	mt_slow_op(NULL, &op); /* nobody keeps it */
	cr_assert_not_null(strstr(last_line, "slow: a read took 812 ms "));
	cr_assert_not_null(strstr(last_line, " rc=-EIO "));
	cr_assert_not_null(strstr(last_line, " node4_ms=41.0(gave up)("));
	cr_assert_null(strstr(last_line, "park_ms"));
	cr_assert_eq(mt_slow_ops_read(ops, 0, kept, 10), 1, "the first alone was kept");
	cr_assert_eq(kept[0].number, 1);
	cr_assert_str_eq(kept[0].volume, "disk1");
	cr_assert_eq(kept[0].nodes[1].own.flush_us, 779000);
}

Test(slow_op, lines_are_few_and_the_last_of_all_are_kept)
{
	struct mt_slow_op op = slow_write();

	cr_assert_eq(mt_slow_ops_read(ops, 0, kept, 10), 0);
	for (uint32_t i = 1; i <= MT_SLOW_OPS_MAX + 5; i++) {
		op.request_id = i;
		mt_slow_op(ops, &op);
	}
	cr_assert_lt(line_count, MT_SLOW_OPS_MAX, "not each is a line");
	cr_assert_eq(mt_slow_ops_read(ops, 0, kept, MT_SLOW_OPS_MAX + 1), MT_SLOW_OPS_MAX);
	cr_assert(kept[0].number == 6 && kept[0].request_id == 6);
	cr_assert_eq(kept[MT_SLOW_OPS_MAX - 1].number, MT_SLOW_OPS_MAX + 5);
	cr_assert_eq(mt_slow_ops_read(ops, MT_SLOW_OPS_MAX + 3, kept, 1), 1, "a page");
	cr_assert_eq(kept[0].number, MT_SLOW_OPS_MAX + 4);
	cr_assert_eq(mt_slow_ops_read(ops, MT_SLOW_OPS_MAX + 5, kept, 1), 0);
	cr_assert_eq(mt_slow_ops_read(ops, UINT64_MAX - 1, kept, 1), 0, "no such number yet");
}

Test(slow_op, has_room_for_the_slowest_nodes)
{
	struct mt_slow_op op = { .node_count = 0 };

	cr_assert_null(mt_slow_op_longest(&op));
	for (uint32_t i = 1; i <= MT_SLOW_PARTS_MAX + 2; i++)
		mt_slow_op_add_node(&op, &(struct mt_slow_part){ .node_id = i, .took_ns = i });
	mt_slow_op_add_node(&op, &(struct mt_slow_part){ .node_id = 99, .took_ns = 1 });
	cr_assert_eq(op.node_count, MT_SLOW_PARTS_MAX);
	cr_assert_eq(mt_slow_op_longest(&op)->node_id, MT_SLOW_PARTS_MAX + 2);
	for (uint32_t i = 0; i < op.node_count; i++)
		cr_assert(op.nodes[i].node_id > 2 && op.nodes[i].node_id != 99);
}

Test(slow_op, every_request_has_a_name)
{
	cr_assert_str_eq(mt_slow_op_name(WIRE_WRITE), "write");
	cr_assert_str_eq(mt_slow_op_name(WIRE_READ), "read");
	cr_assert_str_eq(mt_slow_op_name(WIRE_DISCARD), "discard");
	cr_assert_str_eq(mt_slow_op_name(WIRE_WRITE_ZEROES), "zero");
	cr_assert_str_eq(mt_slow_op_name(WIRE_BLOCK_STATUS), "status");
	cr_assert_str_eq(mt_slow_op_name(WIRE_CHUNK_MAP), "map");
}

Test(slow_op, memory_for_the_ring_may_be_lacking)
{
	alloc_fail_at(ALLOC_GATEWAY, 1);
	cr_assert_null(mt_slow_ops_create());
	alloc_fail_at(ALLOC_GATEWAY, 0);
	mt_slow_ops_destroy(NULL);
}
