/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_listing1.c -- the paper's example, between a VM and a storage server made here
 *
 * The program runs in a child process; both of its peers are in this one.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "unit/split_fixture.h"

int listing1_main(int argc, char **argv);
#define main listing1_main
#include "splitlib/examples/listing1.c"
#undef main

#define WRITES 60u

static struct fixture f;
static struct side vm, storage;
static char vm_address[SPLIT_ADDRESS_BYTES_MAX], storage_address[SPLIT_ADDRESS_BYTES_MAX];
static uint8_t blocks[3][16384]; /* compressible, and not */
static uint32_t compressed_count, raw_count;

static void
storage_check(struct split_msg *msg)
{
	const struct wire_header *header = msg->header;
	const uint8_t *block = blocks[header->request_id % 3];
	uint8_t stored[16384], plain[16384];
	const struct engine_ops *lz4 = engine_by_id(ENGINE_LZ4);
	void *state = lz4->create();

	cr_assert_eq(header->opcode, WIRE_WRITE);
	cr_assert_leq(msg->payload_bytes, header->length_bytes);
	dev_copy_to_host(f.server_port, stored, msg->payload, msg->payload_bytes);
	if (header->engine == ENGINE_LZ4) {
		cr_assert_eq(header->service_class, SERVICE_STANDARD);
		cr_assert_lt(msg->payload_bytes, header->length_bytes);
		cr_assert_eq(lz4->decompress(state, stored, msg->payload_bytes, plain,
				 header->length_bytes),
		    0);
		cr_assert_arr_eq(plain, block, header->length_bytes);
		compressed_count++;
	} else {
		cr_assert_eq(header->engine, ENGINE_NONE);
		cr_assert_eq(msg->payload_bytes, header->length_bytes);
		cr_assert_arr_eq(stored, block, header->length_bytes);
		raw_count++;
	}
	cr_assert_eq(header->payload_crc, crc32c(0, block, header->length_bytes));
	lz4->destroy(state);
}

static void
storage_on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	(void)qp;
	for (uint32_t i = 0; i < count; i++) {
		struct wire_header header = *msgs[i]->header;

		((struct side *)arg)->message_count++;
		storage_check(msgs[i]);
		header = (struct wire_header){ .opcode = WIRE_WRITE | WIRE_REPLY,
			.request_id = header.request_id,
			/* A copy fails: the VM must hear of it. */
			.status = header.request_id == 11 ? CLEAVE_STATUS_NO_SPACE : 0 };
		split_msg_reply(msgs[i], &header, NULL, 0, NULL, NULL);
	}
}

static const struct split_qp_ops storage_ops = {
	.on_ready = side_on_ready,
	.on_messages = storage_on_messages,
	.on_closed = side_on_closed,
};

static void
on_vm_accept(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	(void)hello;
	(void)hello_bytes;
	vm.qp = qp;
	split_qp_accept(qp, &side_ops, arg, NULL, 0);
}

static void
on_storage_accept(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	(void)hello;
	(void)hello_bytes;
	split_qp_accept(qp, &storage_ops, arg, NULL, 0);
}

static bool
peers_ready(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	(void)wanted;
	return vm.ready_count > 0 && storage.ready_count > 0;
}

static bool
vm_answered(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return vm.message_count >= wanted;
}

static pid_t
program_start(void)
{
	pid_t child = fork();

	cr_assert_geq(child, 0);
	if (child == 0) {
		char name[] = "listing1";
		char *argv[] = { name, vm_address, storage_address, NULL };
		const char *program = getenv("CLEAVE_TEST_LISTING1");

		/* RDMA libraries keep what does not survive a fork: a program of its own, then. */
		if (program != NULL) {
			(void)execv(program, argv);
			_exit(127);
		}
		_exit(listing1_main(3, argv));
	}
	return child;
}

static void
write_send(struct test_send *send, uint32_t i, dev_ptr payload)
{
	struct wire_io io = { .opcode = WIRE_WRITE,
		.service_class = i % 2 == 0 ? SERVICE_STANDARD : SERVICE_LATENCY,
		.request_id = i,
		.offset_bytes = i * 65536ull,
		.length_bytes = (1 + i % 4) * CLEAVE_BLOCK_BYTES };

	io.payload_crc = crc32c(0, blocks[i % 3], io.length_bytes);
	test_send_init(send, &vm, WIRE_WRITE, i, dev_ptr_add(payload, (i % 3) * sizeof(blocks[0])),
	    io.length_bytes);
	wire_io_encode(&send->header, &io);
	cr_assert_eq(split_send(vm.qp, &send->send), 0);
}

Test(listing1, storage_gets_what_the_vm_sent, .timeout = 60)
{
	static struct test_send sends[WRITES];
	dev_ptr payload;
	int status = -1;
	pid_t child;

	for (size_t i = 0; i < sizeof(blocks[0]); i++) {
		blocks[0][i] = (uint8_t)(i / 64);
		blocks[1][i] = (uint8_t)(num_mix_u64(i + 1));
		blocks[2][i] = (uint8_t)(i % 7);
	}
	fixture_open(&f, fixture_real(), NULL, NULL);
	cr_assert_eq(split_listen(f.server_port, fixture_any_address(fixture_real(), ""),
			 on_vm_accept, &vm, vm_address),
	    0);
	cr_assert_eq(split_listen(f.server_port, fixture_any_address(fixture_real(), ""),
			 on_storage_accept, &storage, storage_address),
	    0);
	payload = dev_alloc(f.server_port, sizeof(blocks));
	dev_copy_from_host(f.server_port, payload, blocks, sizeof(blocks));
	child = program_start();
	fixture_run(&f, peers_ready, 0);
	for (uint32_t i = 0; i < WRITES; i++)
		write_send(&sends[i], i, payload);
	fixture_run(&f, vm_answered, WRITES);
	for (uint32_t i = 0; i < WRITES; i++) {
		struct wire_io_reply reply;
		const char *field = NULL;

		cr_assert_eq(wire_io_reply_decode(vm.held[i]->header, &reply, &field), 0, "%s",
		    field);
		cr_assert_eq(reply.request_id, i);
		cr_assert_eq(reply.rc, i == 11 ? -ENOSPC : 0);
	}
	cr_assert_eq(storage.message_count, WRITES);
	cr_assert_eq(compressed_count, 20);
	cr_assert_eq(raw_count, 40);
	/* The VM goes, and so does the program. */
	fixture_close(&f);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), 0);
}
