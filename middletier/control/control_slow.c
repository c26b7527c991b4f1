/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_slow.c -- slow: requests of clients that took long, page by page
 *
 *	{"op":"slow","after":N}
 *	{"boot":ID,"slow_op_ms":N,"more":false,"slow":[{"number":N,"age_ms":N,"op":"write","class":"standard",
 *	    "volume":"v","offset_bytes":N,"bytes":N,"trace":"000000000000002a","rc":0,"took_us":N,
 *	    "hops_us":{"park":N,"engine":N,"batch":N,"replicate":N,"reply":N},"longest_node":2,
 *	    "nodes":[{"node":2,"took_us":N,"lost":false,"queue_us":N,"write_us":N,"flush_us":N}, ...]}, ...]}
 *
 * hops_us is there of writes and what takes their way. Ages and numbers are as control_events.c says.
 */
#include "control/control_slow.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "base/check.h"
#include "base/num.h"
#include "catalog/json.h"
#include "cleave/loop.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "common/slow_op.h"
#include "control/control_request.h"

#define SLOW_PAGE 64u /* each is less than 1 KiB: they fit into an answer */

static json_int_t
to_us(uint64_t ns)
{
	return (json_int_t)(ns / NUM_US(1));
}

static json_t *
json_hops(const struct mt_slow_op *op)
{
	json_t *hops = json_object();

	for (uint32_t i = 0; i < MT_WRITE_HOP_TOTAL; i++)
		json_object_set_new(hops, mt_write_hop_name((enum mt_write_hop)i),
		    json_integer(to_us(op->hops_ns[i])));
	return hops;
}

static json_t *
json_parts(const struct mt_slow_op *op)
{
	json_t *parts = json_array();

	assert(op->node_count <= MT_SLOW_PARTS_MAX);
	for (uint32_t i = 0; i < op->node_count; i++) {
		const struct mt_slow_part *part = &op->nodes[i];

		json_array_append_new(parts,
		    json_pack("{s:I, s:I, s:b, s:I, s:I, s:I}", "node", (json_int_t)part->node_id,
			"took_us", to_us(part->took_ns), "lost", (int)part->is_lost, "queue_us",
			(json_int_t)part->own.queue_us, "write_us", (json_int_t)part->own.write_us,
			"flush_us", (json_int_t)part->own.flush_us));
	}
	return parts;
}

static json_t *
json_slow_op(const struct mt_slow_op *op, uint64_t now_ns)
{
	const struct mt_slow_part *longest = mt_slow_op_longest(op);
	uint64_t age_ns = now_ns - num_min(op->at_ns, now_ns);
	char trace[17];
	json_t *object;

	(void)snprintf(trace, sizeof(trace), "%016" PRIx64, op->request_id);
	object = json_pack("{s:I, s:I, s:s, s:s, s:s, s:I, s:I, s:s, s:i, s:I, s:o}", "number",
	    (json_int_t)op->number, "age_ms", (json_int_t)(age_ns / NUM_MS(1)), "op",
	    mt_slow_op_name(op->opcode), "class", service_class_name(op->service_class), "volume",
	    op->volume, "offset_bytes", (json_int_t)op->offset_bytes, "bytes",
	    (json_int_t)op->length_bytes, "trace", trace, "rc", op->rc, "took_us",
	    to_us(op->hops_ns[MT_WRITE_HOP_TOTAL]), "nodes", json_parts(op));
	if (object != NULL && mt_slow_op_has_hops(op))
		json_object_set_new(object, "hops_us", json_hops(op));
	if (object != NULL && longest != NULL)
		json_object_set_new(object, "longest_node", json_integer(longest->node_id));
	return object;
}

static json_t *
json_slow(const struct mt_gateway *gateway, const struct mt_slow_op *ops, uint32_t count)
{
	uint64_t now_ns = loop_now_ns(gateway->options.loop);
	json_t *list = json_array();
	char boot[17];

	assert(count <= SLOW_PAGE);
	(void)snprintf(boot, sizeof(boot), "%016" PRIx64, gateway->options.boot_id);
	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(list, json_slow_op(&ops[i], now_ns));
	return json_pack("{s:s, s:I, s:o, s:b}", "boot", boot, "slow_op_ms",
	    (json_int_t)(atomic_load_explicit(&gateway->shared.slow_op_ns, memory_order_relaxed) /
		NUM_MS(1)),
	    "slow", list, "more", count == SLOW_PAGE);
}

void
mt_control_slow(struct mt_control_request *request)
{
	struct mt_gateway *gateway = request->gateway;
	struct mt_slow_op *ops = mt_calloc(SLOW_PAGE, sizeof(*ops));
	uint64_t after = 0;
	const struct reader_member members[] = {
		{ "after", READER_U64, false, 0, INT64_MAX, { .u64 = &after } },
	};
	char error[MT_ERROR_BYTES];
	int rc = reader_strict(request->in, members, NUM_COUNT(members), error);

	assert(request->sm.state == MT_CONTROL_RUNNING);
	if (rc != 0)
		mt_control_fail(request, rc, error);
	else if (ops == NULL)
		mt_control_finish(request, NULL);
	else
		mt_control_finish(request,
		    json_slow(gateway, ops,
			mt_slow_ops_read(gateway->shared.slow, after, ops, SLOW_PAGE)));
	mt_free(ops);
}
