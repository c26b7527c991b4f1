/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listing1 -- the example program of SmartDS (ISCA '23), section 4.3, against this library
 *
 *	listing1 VM_ADDRESS STORAGE_ADDRESS
 *
 * Takes write requests from a VM, one at a time: the header comes to host memory, where it decides;
 * the block stays in device memory. A latency-sensitive block goes to the storage server as it is, any
 * other one is compressed first (`engine` in the header says how). The VM has its answer when the
 * storage server has given its own. Ends when the VM closes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/units.h"

#define HEAD_SIZE WIRE_HEADER_BYTES
#define MAX_SIZE WIRE_CLIENT_PAYLOAD_BYTES_MAX

/* The two queue pairs and their buffers: to and from the VM, to and from storage. */
struct middle {
	struct split_port *ctx;
	struct split_qp *qp_recv, *qp_send;
	struct wire_header *h_recv, *h_send, *h_answer;
	dev_ptr d_recv, d_send;
};

/* Poll one event to its end. Returns its bytes or a negative errno. */
static int64_t
wait_for(struct dev_event *event)
{
	struct dev_completion completion;
	int rc;

	if (event == NULL)
		return -errno;
	rc = dev_poll(event, &completion);
	if (rc == 0)
		rc = completion.rc;
	return rc != 0 ? rc : (int64_t)completion.bytes;
}

static int
middle_open(struct middle *m, const char *vm, const char *storage)
{
	struct split_connect_options to_vm = { .address = vm }, to_storage = { .address = storage };

	m->h_recv = host_alloc(m->ctx, HEAD_SIZE);
	m->h_send = host_alloc(m->ctx, HEAD_SIZE);
	m->h_answer = host_alloc(m->ctx, HEAD_SIZE);
	m->d_recv = dev_alloc(m->ctx, MAX_SIZE);
	m->d_send = dev_alloc(m->ctx, MAX_SIZE);
	m->qp_recv = connect_qp(m->ctx, &to_vm);
	m->qp_send = connect_qp(m->ctx, &to_storage);
	if (m->qp_recv == NULL || m->qp_send == NULL)
		return -errno;
	if (dev_wait_ready(m->qp_recv) != 0 || dev_wait_ready(m->qp_send) != 0)
		return -ENOTCONN;
	return 0;
}

/* Send the block to storage and wait until it has it. Returns the status for the VM's answer. */
static int
middle_store(struct middle *m, dev_ptr block, size_t bytes, uint8_t engine)
{
	struct dev_event *answer, *sent;
	int64_t rc;

	*m->h_send = *m->h_recv;
	m->h_send->engine = engine;
	answer = dev_mixed_recv(m->qp_send, m->h_answer, HEAD_SIZE, DEV_PTR_NULL, 0);
	sent = dev_mixed_send(m->qp_send, m->h_send, HEAD_SIZE, block, bytes);
	rc = wait_for(sent);
	if (rc >= 0)
		rc = wait_for(answer);
	return rc < 0 ? (int)rc : status_to_errno(m->h_answer->status);
}

/* The answer to the VM: its request's header, less what only a request has. */
static void
middle_answer(struct middle *m, int rc)
{
	*m->h_send = *m->h_recv;
	m->h_send->opcode = (uint8_t)(m->h_recv->opcode | WIRE_REPLY);
	m->h_send->status = status_from_errno(rc);
	m->h_send->payload_crc = 0;
}

/* Serve one request. Returns 0, or what ended the conversation. */
static int
middle_serve(struct middle *m)
{
	int64_t payload_size, size;
	uint8_t engine = ENGINE_NONE;
	int rc;

	payload_size = wait_for(
	    dev_mixed_recv(m->qp_recv, m->h_recv, HEAD_SIZE, m->d_recv, MAX_SIZE));
	if (payload_size < 0)
		return (int)payload_size;
	if (m->h_recv->opcode != WIRE_WRITE || m->h_recv->length_bytes != payload_size) {
		fprintf(stderr, "listing1: not a write request\n");
		return -EPROTO;
	}
	if (m->h_recv->service_class == CLEAVE_SERVICE_LATENCY) {
		rc = middle_store(m, m->d_recv, (size_t)payload_size, engine);
	} else {
		size = wait_for(dev_func(m->ctx, m->d_recv, (size_t)payload_size, m->d_send,
		    MAX_SIZE, DEV_ENGINE_COMPRESS_LZ4));
		if (size >= 0 && size < payload_size) /* else it does not compress */
			engine = ENGINE_LZ4;
		rc = middle_store(m, engine == ENGINE_NONE ? m->d_recv : m->d_send,
		    (size_t)(engine == ENGINE_NONE ? payload_size : size), engine);
	}
	middle_answer(m, rc);
	return (int)wait_for(dev_mixed_send(m->qp_recv, m->h_send, HEAD_SIZE, DEV_PTR_NULL, 0));
}

int
main(int argc, char **argv)
{
	struct engine_set_options inline_engines = { .thread_count = 0 };
	struct split_port_options options = { .engine_ops = &engine_set_gate_ops };
	struct middle m = { 0 };
	int rc;

	if (argc != 3) {
		fprintf(stderr, "usage: listing1 VM_ADDRESS STORAGE_ADDRESS\n");
		return 2;
	}
	options.loop = loop_ev_create(0);
	options.engines = engine_set_create(options.loop, &inline_engines);
	m.ctx = open_roce_instance(&options);
	rc = middle_open(&m, argv[1], argv[2]);
	while (rc == 0)
		rc = middle_serve(&m);
	split_port_close(m.ctx);
	engine_set_destroy(options.engines);
	loop_destroy(options.loop);
	if (rc == -ECONNRESET)
		return 0;
	fprintf(stderr, "listing1: %s\n", strerror(-rc));
	return 1;
}
