/* SPDX-License-Identifier: Apache-2.0 */
/* test_ticket.c -- a ticket's mac: known bytes, and every part that it is about */
#include <criterion/criterion.h>
#include <string.h>

#include "base/num.h"
#include "cleave/ticket.h"

TestSuite(ticket, .timeout = 60);

static const struct split_subject subject = { 0xc1, SPLIT_ROLE_CLIENT, "db1" };
static const struct ticket_bearer bearer = { .node_id = 7,
	.session_id = 0x1122334455667788,
	.subject = &subject };

static struct wire_ticket_key
some_key(void)
{
	struct wire_ticket_key key = { .number = 0x21222324 };

	for (uint32_t i = 0; i < sizeof(key.key); i++)
		key.key[i] = (uint8_t)i;
	return key;
}

static struct wire_ticket
some_ticket(void)
{
	return (struct wire_ticket){ .id = { 9, 4, 1000 },
		.from_bytes = 4096,
		.to_bytes = 20480,
		.volume_id = 5,
		.attach = 6,
		.slot = 3 };
}

/* By Python's hmac and struct, from the layout in cleave/ticket.h. */
Test(ticket, has_the_mac_that_others_make)
{
	static const uint8_t known[WIRE_TICKET_MAC_BYTES] = { 0x7d, 0xcc, 0xd6, 0xac, 0x8b, 0xb2,
		0xd6, 0x5b, 0x7d, 0x65, 0x04, 0x6a, 0x27, 0x55, 0xea, 0xec };
	static const uint8_t without_key[WIRE_TICKET_MAC_BYTES] = { 0xdc, 0x5b, 0x02, 0xa3, 0x66,
		0x0a, 0x02, 0x83, 0xe3, 0x6b, 0xe8, 0x8e, 0x29, 0xde, 0x6e, 0xfd };
	const struct ticket_bearer nobody = { bearer.node_id, bearer.session_id, NULL };
	const struct wire_ticket_key key = some_key();
	struct wire_ticket ticket = some_ticket();

	cr_assert_eq(ticket_make(&key, &bearer, &ticket), 0);
	cr_assert_eq(ticket.key_number, key.number);
	cr_assert_arr_eq(ticket.mac, known, sizeof(known));
	cr_assert(ticket_is_good(&key, &bearer, &ticket));
	cr_assert_eq(ticket_make(&key, &nobody, &ticket), 0);
	cr_assert_arr_eq(ticket.mac, without_key, sizeof(without_key));
}

/* A ticket with another @member than it was made with. */
#define EXPECT_FORGED(member)                                                                      \
	do {                                                                                       \
		struct wire_ticket forged = ticket;                                                \
                                                                                                   \
		forged.member++;                                                                   \
		cr_assert_not(ticket_is_good(&key, &bearer, &forged), #member);                    \
	} while (0)

Test(ticket, is_forged_whatever_of_it_is_changed)
{
	const struct wire_ticket_key key = some_key();
	struct wire_ticket_key other_key = key;
	struct ticket_bearer other = bearer;
	struct wire_ticket ticket = some_ticket();

	cr_assert_eq(ticket_make(&key, &bearer, &ticket), 0);
	EXPECT_FORGED(id.shard);
	EXPECT_FORGED(id.epoch);
	EXPECT_FORGED(id.counter);
	EXPECT_FORGED(from_bytes);
	EXPECT_FORGED(to_bytes);
	EXPECT_FORGED(volume_id);
	EXPECT_FORGED(attach);
	for (uint32_t i = 0; i < WIRE_TICKET_MAC_BYTES; i++)
		EXPECT_FORGED(mac[i]);
	other.node_id++;
	cr_assert_not(ticket_is_good(&key, &other, &ticket));
	other = bearer;
	other.session_id++;
	cr_assert_not(ticket_is_good(&key, &other, &ticket));
	other.session_id--;
	other.subject = &(struct split_subject){ subject.cluster_id, SPLIT_ROLE_CLIENT, "db2" };
	cr_assert_not(ticket_is_good(&key, &other, &ticket));
	other.subject = &(struct split_subject){ subject.cluster_id, SPLIT_ROLE_ADMIN, "db1" };
	cr_assert_not(ticket_is_good(&key, &other, &ticket));
	other.subject = NULL;
	cr_assert_not(ticket_is_good(&key, &other, &ticket));
	other_key.key[31] ^= 1;
	cr_assert_not(ticket_is_good(&other_key, &bearer, &ticket));
	/* The client chooses slots: they are no part of what it may do. */
	ticket.slot++;
	cr_assert(ticket_is_good(&key, &bearer, &ticket));
}

Test(ticket, keys_are_drawn_one_after_another_and_are_not_alike)
{
	struct wire_ticket_key key = { 0 }, before;

	cr_assert_eq(ticket_key_draw(&key), 0);
	cr_assert_neq(key.number, 0);
	before = key;
	cr_assert_eq(ticket_key_draw(&key), 0);
	cr_assert_neq(memcmp(key.key, before.key, sizeof(key.key)), 0);
	cr_assert_eq(key.number, before.number == UINT32_MAX ? 1 : before.number + 1);
	key.number = UINT32_MAX;
	cr_assert_eq(ticket_key_draw(&key), 0);
	cr_assert_eq(key.number, 1, "0 is none");
	ticket_key_wipe(&key);
	before = (struct wire_ticket_key){ 0 };
	cr_assert_eq(memcmp(&key, &before, sizeof(key)), 0);
}
