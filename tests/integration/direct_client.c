/* SPDX-License-Identifier: Apache-2.0 */
/*
 * direct_client.c -- a gateway that makes a ticket, then the client that reads by it: test_direct.py's
 *
 *	direct_client NODE_ADDRESS NODE_ID CLUSTER_ID STORE_ID [GATEWAY_KEY CLIENT_KEY]
 *
 * As a gateway of that store: lists the node's extents, takes the first that is long enough, asks for the key of
 * tickets. As a client: presents a ticket for BYTES of that extent, and prints what each request is answered with, one
 * "what: answer" a line; what was read is in hex. Exits with 2 where nothing can be asked at all.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cleave/secure.h"
#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/ticket.h"
#include "cleave/wire.h"

#define FROM_BYTES 0u
#define BYTES 4096u
#define SESSION UINT64_C(0x5e5510)

static struct side {
	struct loop *loop;
	struct split_key *key;
	struct split_port *port;
	struct split_qp *qp;
	struct wire_header *sent, *answer;
	dev_ptr out, in;
	uint8_t text[WIRE_PAYLOAD_BYTES_MAX];
	uint32_t bytes; /* of text, that the last answer has brought */
} side;

static void __attribute__((noreturn)) fail(const char *what, const char *why)
{
	fprintf(stderr, "direct_client: %s: %s\n", what, why);
	exit(2);
}

/* 0, or why there is no connection. */
static int
side_open(const char *address, const char *key_path, const struct wire_hello *hello)
{
	struct split_port_options options = { .loop = side.loop };
	uint8_t bytes[WIRE_HELLO_BYTES];
	struct split_connect_options connect = { .address = address,
		.hello = bytes,
		.hello_bytes = sizeof(bytes),
		.peer_roles = SPLIT_ROLE_NODE };
	char why[SPLIT_KEY_WHY_BYTES_MAX];

	side.key = key_path == NULL ? NULL : split_key_load(key_path, why);
	if (key_path != NULL && side.key == NULL)
		fail(key_path, why);
	options.key = side.key;
	side.port = open_roce_instance(&options);
	if (side.port == NULL)
		fail("port", strerror(errno));
	side.sent = host_alloc(side.port, WIRE_HEADER_BYTES);
	side.answer = host_alloc(side.port, WIRE_HEADER_BYTES);
	side.out = dev_alloc(side.port, WIRE_PAYLOAD_BYTES_MAX);
	side.in = dev_alloc(side.port, WIRE_PAYLOAD_BYTES_MAX);
	wire_hello_encode(bytes, hello);
	side.qp = connect_qp(side.port, &connect);
	if (side.qp == NULL)
		fail(address, strerror(errno));
	return dev_wait_ready(side.qp);
}

static void
side_close(void)
{
	split_port_close(side.port);
	split_key_free(side.key);
	side.port = NULL;
	side.key = NULL;
}

static int
wait_for(struct dev_event *event, uint32_t *ret_bytes)
{
	struct dev_completion completion = { .rc = 0 };
	int rc = event == NULL ? -errno : dev_poll(event, &completion);

	*ret_bytes = completion.bytes;
	return rc != 0 ? rc : completion.rc;
}

/* side.sent, and @bytes of side.text behind it; the answer's status, or why there is none. */
static int
ask(uint32_t bytes)
{
	struct dev_event *answer, *sent;
	uint32_t sent_bytes;
	int rc;

	if (bytes > 0)
		dev_copy_from_host(side.port, side.out, side.text, bytes);
	answer = dev_mixed_recv(side.qp, side.answer, WIRE_HEADER_BYTES, side.in,
	    WIRE_PAYLOAD_BYTES_MAX);
	sent = dev_mixed_send(side.qp, side.sent, WIRE_HEADER_BYTES, side.out, bytes);
	rc = wait_for(sent, &sent_bytes);
	if (rc == 0)
		rc = wait_for(answer, &side.bytes);
	if (rc != 0)
		return rc;
	if (side.bytes > 0)
		dev_copy_to_host(side.port, side.text, side.in, side.bytes);
	return status_to_errno(side.answer->status);
}

static int
ask_node(const struct wire_node *request)
{
	wire_node_encode(side.sent, request);
	return ask(0);
}

static int
ask_read(const struct extent_id *id, uint64_t offset_bytes, uint32_t bytes)
{
	wire_direct_encode(side.sent,
	    &(struct wire_direct){ .opcode = WIRE_DIRECT_READ,
		.id = *id,
		.offset_bytes = offset_bytes,
		.length_bytes = bytes,
		.slot = 3 });
	return ask(0);
}

static void
tell(const char *what, int rc)
{
	printf("%s: %s\n", what, rc == 0 ? "ok" : strerror(-rc));
}

static void
find_extent(struct wire_ticket *ticket)
{
	int rc = ask_node(
	    &(struct wire_node){ .opcode = WIRE_EXTENT_LIST, .id = { .shard = UINT32_MAX } });

	if (rc != 0)
		fail("list", strerror(-rc));
	for (uint32_t at = 0; at < side.bytes; at += (uint32_t)sizeof(struct wire_extent_entry)) {
		struct wire_extent_entry entry;

		memcpy(&entry, side.text + at, sizeof(entry));
		if (entry.length_bytes < 2 * BYTES)
			continue;
		ticket->id = extent_id_unpack(entry.extent);
		return;
	}
	fail("list", "no extent is long enough");
}

static void
as_gateway(const struct ticket_bearer *bearer, struct wire_ticket *ticket)
{
	struct wire_ticket_key key;
	const char *field;
	int rc;

	find_extent(ticket);
	rc = ask_node(
	    &(struct wire_node){ .opcode = WIRE_TICKET_KEY, .id = { .shard = UINT32_MAX } });
	tell("key", rc);
	if (rc != 0)
		return;
	if (wire_ticket_key_decode(side.text, side.bytes, &key, &field) != 0)
		fail("key", field);
	if (ticket_make(&key, bearer, ticket) != 0)
		fail("ticket", "cannot be made");
}

static void
present(const struct wire_ticket *ticket)
{
	int rc;

	wire_direct_encode(side.sent,
	    &(struct wire_direct){ .opcode = WIRE_TICKETS, .ticket_count = 1 });
	wire_ticket_encode(side.text, ticket);
	rc = ask(WIRE_TICKET_BYTES);
	tell("ticket", rc == 0 && side.answer->offset_bytes != 1 ? -EKEYREJECTED : rc);
}

static void
as_client(struct wire_ticket *ticket)
{
	const struct wire_node list = { .opcode = WIRE_EXTENT_LIST, .id = { .shard = UINT32_MAX } };
	int rc;

	present(ticket);
	rc = ask_read(&ticket->id, FROM_BYTES, BYTES);
	tell("read", rc);
	if (rc == 0) {
		printf("bytes: ");
		for (uint32_t i = 0; i < side.bytes; i++)
			printf("%02x", side.text[i]);
		printf("\n");
	}
	tell("a byte more", ask_read(&ticket->id, FROM_BYTES, BYTES + 1));
	ticket->to_bytes++;
	present(ticket);
	tell("read by a forged one", ask_read(&ticket->id, FROM_BYTES, BYTES));
	tell("list", ask_node(&list));
}

int
main(int argc, char **argv)
{
	struct wire_hello gateway = { .role = WIRE_ROLE_GATEWAY, .level = 2 };
	struct wire_hello client = { .role = WIRE_ROLE_CLIENT, .level = 2, .session_id = SESSION };
	struct ticket_bearer bearer = { .session_id = SESSION };
	struct split_key *key = NULL; /* the client's */
	char why[SPLIT_KEY_WHY_BYTES_MAX];
	struct wire_ticket ticket = { .from_bytes = FROM_BYTES,
		.to_bytes = FROM_BYTES + BYTES,
		.volume_id = 1,
		.attach = 1,
		.slot = 3 };
	int rc;

	if (argc != 5 && argc != 7)
		fail("usage", "NODE_ADDRESS NODE_ID CLUSTER_ID STORE_ID [GATEWAY_KEY CLIENT_KEY]");
	gateway.cluster_id = client.cluster_id = strtoull(argv[3], NULL, 16);
	if (sscanf(argv[4], "%16" SCNx64 "%16" SCNx64, &gateway.session_id, &gateway.attach) != 2)
		fail("store", argv[4]);
	side.loop = loop_ev_create(0);
	rc = side_open(argv[1], argc == 7 ? argv[5] : NULL, &gateway);
	if (rc != 0)
		fail("gateway", strerror(-rc));
	if (argc == 7 && (key = split_key_load(argv[6], why)) == NULL)
		fail(argv[6], why);
	bearer.node_id = (uint32_t)strtoul(argv[2], NULL, 10);
	bearer.subject = key == NULL ? NULL : split_key_subject(key);
	as_gateway(&bearer, &ticket);
	split_key_free(key);
	side_close();
	rc = side_open(argv[1], argc == 7 ? argv[6] : NULL, &client);
	tell("client", rc);
	if (rc == 0)
		as_client(&ticket);
	side_close();
	loop_destroy(side.loop);
	return 0;
}
