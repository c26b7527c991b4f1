/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_wire_direct.c -- TICKETS, DIRECT_READ, TICKET_KEY and VOLUME_FENCE round trip; wrong fields are named; bytes stay
 */
#include "base/num.h"
#include "cleave/wire.h"
#include "unit/wire_fields.h"

TestSuite(wire_direct, .timeout = 60);

static const struct wire_direct present = { .opcode = WIRE_TICKETS,
	.request_id = 79,
	.ticket_count = 1 };
static const struct wire_ticket ticket = { .id = { 9, 4, 1000 },
	.from_bytes = 4096,
	.to_bytes = 20480,
	.volume_id = 5,
	.attach = 6,
	.slot = WIRE_TICKET_SLOTS_MAX - 1,
	.key_number = 0x21222324,
	.mac = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 } };
static const struct wire_node_reply taken = { .opcode = WIRE_TICKETS,
	.request_id = 79,
	.id = { .shard = UINT32_MAX },
	.offset_bytes = 1 };
static const struct wire_direct read_request = { .opcode = WIRE_DIRECT_READ,
	.request_id = 80,
	.id = { 9, 4, 1000 },
	.offset_bytes = 4097,
	.length_bytes = 9000,
	.slot = WIRE_TICKET_SLOTS_MAX - 1 };
static const struct wire_node_reply read_reply = { .opcode = WIRE_DIRECT_READ,
	.request_id = 80,
	.id = { 9, 4, 1000 },
	.offset_bytes = 4097,
	.length_bytes = 9000,
	.epoch = 6 };
static const struct wire_node ask_key = { .opcode = WIRE_TICKET_KEY,
	.request_id = 81,
	.id = { .shard = UINT32_MAX } };
static const struct wire_node_reply told_key = { .opcode = WIRE_TICKET_KEY,
	.request_id = 81,
	.id = { .shard = UINT32_MAX },
	.length_bytes = WIRE_TICKET_KEY_ANSWER_BYTES };
static const struct wire_node fence = { .opcode = WIRE_VOLUME_FENCE,
	.request_id = 82,
	.id = { .shard = UINT32_MAX },
	.volume_id = WIRE_SNAPSHOT_ID | 5,
	.offset_bytes = 7 };
static const struct wire_node_reply fenced = { .opcode = WIRE_VOLUME_FENCE,
	.request_id = 82,
	.id = { .shard = UINT32_MAX } };

static void
encode_direct(struct wire_header headers[4])
{
	wire_direct_encode(&headers[0], &present);
	stamp(&headers[0], WIRE_TICKET_BYTES);
	wire_node_reply_encode(&headers[1], &taken);
	stamp(&headers[1], 0);
	wire_direct_encode(&headers[2], &read_request);
	stamp(&headers[2], 0);
	wire_node_reply_encode(&headers[3], &read_reply);
	stamp(&headers[3], read_reply.length_bytes);
}

static void
encode_node(struct wire_header headers[4])
{
	wire_node_encode(&headers[0], &ask_key);
	stamp(&headers[0], 0);
	wire_node_reply_encode(&headers[1], &told_key);
	stamp(&headers[1], WIRE_TICKET_KEY_ANSWER_BYTES);
	wire_node_encode(&headers[2], &fence);
	stamp(&headers[2], 0);
	wire_node_reply_encode(&headers[3], &fenced);
	stamp(&headers[3], 0);
}

static struct wire_ticket_key
some_key(void)
{
	struct wire_ticket_key key = { .number = 0x21222324 };

	for (uint32_t i = 0; i < sizeof(key.key); i++)
		key.key[i] = (uint8_t)i;
	return key;
}

Test(wire_direct, bytes_stay)
{
	const struct wire_ticket_key key = some_key();
	uint8_t payloads[WIRE_TICKET_BYTES + WIRE_TICKET_KEY_ANSWER_BYTES];
	struct wire_header headers[4];

	encode_direct(headers);
	golden_check("direct", headers, sizeof(headers));
	encode_node(headers);
	golden_check("ticket_key", headers, sizeof(headers));
	wire_ticket_encode(payloads, &ticket);
	wire_ticket_key_encode(payloads + WIRE_TICKET_BYTES, &key);
	golden_check("ticket", payloads, sizeof(payloads));
}

Test(wire_direct, messages_round_trip)
{
	struct wire_header headers[4], again;
	struct wire_node_reply reply;
	struct wire_direct direct;
	struct wire_node node;
	const char *field = NULL;

	encode_direct(headers);
	cr_assert_eq(wire_direct_decode(&headers[0], &direct, &field), 0, "%s", field);
	cr_assert_eq(direct.ticket_count, 1);
	cr_assert_eq(wire_node_reply_decode(&headers[1], &reply, &field), 0, "%s", field);
	cr_assert_eq(reply.offset_bytes, 1);
	cr_assert_eq(reply.id.shard, UINT32_MAX);
	cr_assert_eq(wire_direct_decode(&headers[2], &direct, &field), 0, "%s", field);
	cr_assert_eq(direct.slot, read_request.slot);
	cr_assert_eq(direct.offset_bytes, 4097);
	cr_assert_eq(direct.length_bytes, 9000);
	cr_assert_eq(direct.id.counter, 1000);
	cr_assert_eq(wire_node_reply_decode(&headers[3], &reply, &field), 0, "%s", field);
	cr_assert_eq(reply.length_bytes, 9000);
	encode_node(headers);
	for (uint32_t i = 0; i < 4; i += 2) {
		cr_assert_eq(wire_node_decode(&headers[i], &node, &field), 0, "%s", field);
		wire_node_encode(&again, &node);
		stamp(&again, 0);
		cr_assert_arr_eq(&again, &headers[i], sizeof(again));
		cr_assert_eq(wire_node_reply_decode(&headers[i + 1], &reply, &field), 0, "%s",
		    field);
	}
	cr_assert_eq(node.volume_id, fence.volume_id);
	cr_assert_eq(node.offset_bytes, 7);
	cr_assert_eq(node.id.shard, UINT32_MAX);
}

static int
decode_direct(const struct wire_header *header, const char **ret_field)
{
	struct wire_direct out = { .slot = 77 };
	int rc = wire_direct_decode(header, &out, ret_field);

	cr_assert(rc == 0 || out.slot == 77);
	return rc;
}

static int
decode_node(const struct wire_header *header, const char **ret_field)
{
	struct wire_node out;

	return wire_node_decode(header, &out, ret_field);
}

static int
decode_reply(const struct wire_header *header, const char **ret_field)
{
	struct wire_node_reply out;

	return wire_node_reply_decode(header, &out, ret_field);
}

Test(wire_direct, wrong_fields_of_clients_are_named)
{
	static const struct bad_field bad_tickets[] = {
		BAD(opcode, WIRE_EXTENT_READ, "opcode"),
		BAD(opcode, WIRE_TICKETS | WIRE_REPLY, "opcode"),
		BAD(service_class, 1, "service_class"),
		BAD(engine, 1, "engine"),
		BAD(object_id, 1, "object_id"),
		BAD(offset_bytes, 1, "offset_bytes"),
		BAD(length_bytes, WIRE_TICKET_BYTES, "length_bytes"),
		BAD(payload_bytes, 0, "payload_bytes"),
		BAD(payload_bytes, WIRE_TICKET_BYTES + 1, "payload_bytes"),
		BAD(payload_bytes, WIRE_TICKET_BYTES * (WIRE_TICKETS_MAX + 1), "payload_bytes"),
		BAD(vm_id, 1, "vm_id"),
		BAD(epoch, 1, "epoch"),
		BAD(flags, 1, "flags"),
		BAD(status, 1, "status"),
		BAD(payload_crc, 1, "payload_crc"),
	};
	static const struct bad_field bad_read[] = {
		BAD(object_id, UINT64_MAX, "object_id"),
		BAD(offset_bytes, CLEAVE_CHUNK_BYTES, "offset_bytes"),
		BAD(length_bytes, 0, "length_bytes"),
		BAD(length_bytes, WIRE_CLIENT_PAYLOAD_BYTES_MAX + 1, "length_bytes"),
		BAD(payload_bytes, 1, "payload_bytes"),
		BAD(vm_id, WIRE_TICKET_SLOTS_MAX, "vm_id"),
		BAD(epoch, 1, "epoch"),
	};
	struct wire_header headers[4];

	encode_direct(headers);
	bad_fields_check(&headers[0], decode_direct, bad_tickets, NUM_COUNT(bad_tickets));
	bad_fields_check(&headers[2], decode_direct, bad_read, NUM_COUNT(bad_read));
}

Test(wire_direct, wrong_fields_of_gateways_and_nodes_are_named)
{
	static const struct bad_field bad_key[] = {
		BAD(object_id, 1, "object_id"),
		BAD(offset_bytes, 1, "offset_bytes"),
		BAD(epoch, 1, "epoch"),
		BAD(vm_id, 1, "vm_id"),
	};
	static const struct bad_field bad_fence[] = {
		BAD(object_id, 0, "object_id"),
		BAD(length_bytes, 1, "length_bytes"),
		BAD(payload_bytes, 1, "payload_bytes"),
		BAD(epoch, 1, "epoch"),
	};
	static const struct bad_field bad_taken[] = {
		BAD(object_id, 1, "object_id"),
		BAD(payload_bytes, 1, "payload_bytes"),
	};
	static const struct bad_field bad_told[] = {
		BAD(object_id, 1, "object_id"),
		BAD(payload_bytes, 0, "payload_bytes"),
	};
	struct wire_header headers[4];

	encode_node(headers);
	bad_fields_check(&headers[0], decode_node, bad_key, NUM_COUNT(bad_key));
	bad_fields_check(&headers[1], decode_reply, bad_told, NUM_COUNT(bad_told));
	bad_fields_check(&headers[2], decode_node, bad_fence, NUM_COUNT(bad_fence));
	encode_direct(headers);
	bad_fields_check(&headers[1], decode_reply, bad_taken, NUM_COUNT(bad_taken));
}

static void
expect_bad_ticket(const struct wire_ticket *bad, const char *expected)
{
	uint8_t bytes[WIRE_TICKET_BYTES];
	struct wire_ticket out = { .slot = 77 };
	const char *field = NULL;

	wire_ticket_encode(bytes, bad);
	cr_assert_eq(wire_ticket_decode(bytes, &out, &field), -EPROTO, "%s", expected);
	cr_assert_str_eq(field, expected);
	cr_assert_eq(out.slot, 77);
}

Test(wire_direct, a_ticket_round_trips_and_its_wrong_fields_are_named)
{
	uint8_t bytes[WIRE_TICKET_BYTES], again[WIRE_TICKET_BYTES];
	struct wire_ticket out, bad;
	const char *field = NULL;

	wire_ticket_encode(bytes, &ticket);
	cr_assert_eq(wire_ticket_decode(bytes, &out, &field), 0, "%s", field);
	wire_ticket_encode(again, &out);
	cr_assert_arr_eq(again, bytes, sizeof(again));
	bad = ticket;
	bad.to_bytes = bad.from_bytes;
	expect_bad_ticket(&bad, "ticket_range");
	bad.to_bytes = CLEAVE_CHUNK_BYTES + 1;
	expect_bad_ticket(&bad, "ticket_range");
	bad = ticket;
	bad.volume_id = 0;
	expect_bad_ticket(&bad, "ticket_volume");
	bad = ticket;
	bad.slot = WIRE_TICKET_SLOTS_MAX;
	expect_bad_ticket(&bad, "ticket_slot");
	memset(bytes, 0xff, 8);
	cr_assert_eq(wire_ticket_decode(bytes, &out, &field), -EPROTO);
	cr_assert_str_eq(field, "ticket_extent");
}

Test(wire_direct, a_key_round_trips_and_its_wrong_fields_are_named)
{
	const struct wire_ticket_key key = some_key();
	uint8_t bytes[WIRE_TICKET_KEY_ANSWER_BYTES];
	struct wire_ticket_key out;
	const char *field = NULL;

	wire_ticket_key_encode(bytes, &key);
	cr_assert_eq(wire_ticket_key_decode(bytes, sizeof(bytes), &out, &field), 0, "%s", field);
	cr_assert_eq(out.number, key.number);
	cr_assert_arr_eq(out.key, key.key, sizeof(key.key));
	cr_assert_eq(wire_ticket_key_decode(bytes, sizeof(bytes) - 1, &out, &field), -EPROTO);
	cr_assert_str_eq(field, "payload_bytes");
	bytes[0]++;
	cr_assert_eq(wire_ticket_key_decode(bytes, sizeof(bytes), &out, &field), -EPROTO);
	cr_assert_str_eq(field, "ticket_key_format");
}
