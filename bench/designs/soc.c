/* SPDX-License-Identifier: Apache-2.0 */
/* soc -- all in the device's memory, served and compressed by the device's own few cores */
#include <errno.h>

#include "design.h"

struct write {
	struct design_server *server;
	struct wire_header *recv,
	    *send[DESIGN_REPLICAS]; /* what the device's cores call host memory */
	dev_ptr d_recv, d_send;     /* MAX_SIZE bytes of device memory each */
	struct wire_header *ack[DESIGN_REPLICAS];
	struct wire_io io;
	int waiting_count, rc;
};

static void receive(struct write *w);

static void
on_replied(const struct dev_completion *completion, void *arg)
{
	struct write *w = arg;

	if (completion->rc != 0) {
		design_over(w->server, completion->rc);
		return;
	}
	w->server->done_count++;
	receive(w);
}

static void
on_stored(const struct dev_completion *completion, void *arg)
{
	struct write *w = arg;

	if (completion->rc != 0)
		w->rc = completion->rc;
	if (--w->waiting_count > 0)
		return;
	for (uint32_t i = 0; i < DESIGN_REPLICAS && w->rc == 0; i++)
		w->rc = status_to_errno(w->ack[i]->status);
	wire_io_reply(w->send[0], &w->io, w->rc, 0, w->io.epoch);
	design_then(w->server,
	    dev_mixed_send(w->server->qp_vm, w->send[0], HEAD_SIZE, DEV_PTR_NULL, 0), on_replied,
	    w);
}

static void
replicate(struct write *w, dev_ptr payload, size_t size)
{
	w->waiting_count = 2 * DESIGN_REPLICAS;
	for (uint32_t i = 0; i < DESIGN_REPLICAS; i++) {
		struct split_qp *qp = w->server->qp_storage[i];

		design_then(w->server, dev_mixed_recv(qp, w->ack[i], HEAD_SIZE, DEV_PTR_NULL, 0),
		    on_stored, w);
		design_then(w->server, dev_mixed_send(qp, w->send[i], HEAD_SIZE, payload, size),
		    on_stored, w);
	}
}

static void
on_compressed(const struct dev_completion *completion, void *arg)
{
	struct write *w = arg;

	if (completion->rc != 0) { /* it does not compress */
		replicate(w, w->d_recv, w->io.length_bytes);
		return;
	}
	for (uint32_t i = 0; i < DESIGN_REPLICAS; i++)
		w->send[i]->engine = ENGINE_LZ4;
	replicate(w, w->d_send, completion->bytes);
}

static void
on_received(const struct dev_completion *completion, void *arg)
{
	struct write *w = arg;
	const char *field;

	if (completion->rc != 0 || wire_io_decode(w->recv, &w->io, &field) != 0) {
		design_over(w->server, completion->rc != 0 ? completion->rc : -EPROTO);
		return;
	}
	for (uint32_t i = 0; i < DESIGN_REPLICAS; i++)
		wire_io_encode(w->send[i], &w->io);
	if (w->io.service_class == SERVICE_LATENCY) {
		replicate(w, w->d_recv, w->io.length_bytes);
		return;
	}
	design_then(w->server,
	    dev_func(w->server->ctx, w->d_recv, w->io.length_bytes, w->d_send, MAX_SIZE,
		DEV_ENGINE_COMPRESS_LZ4),
	    on_compressed, w);
}

static void
receive(struct write *w)
{
	design_then(w->server,
	    dev_mixed_recv(w->server->qp_vm, w->recv, HEAD_SIZE, w->d_recv, MAX_SIZE), on_received,
	    w);
}

static int
open_write(struct design_server *server)
{
	struct write *w = host_alloc(server->ctx, sizeof(*w));

	if (w == NULL)
		return -ENOMEM;
	*w = (struct write){ .server = server };
	w->recv = host_alloc(server->ctx, HEAD_SIZE);
	w->d_recv = dev_alloc(server->ctx, MAX_SIZE);
	w->d_send = dev_alloc(server->ctx, MAX_SIZE);
	for (uint32_t i = 0; i < DESIGN_REPLICAS; i++) {
		w->send[i] = host_alloc(server->ctx, HEAD_SIZE);
		w->ack[i] = host_alloc(server->ctx, HEAD_SIZE);
	}
	receive(w);
	return 0;
}

int
main(int argc, char **argv)
{
	static const struct design_ops ops = { .name = "soc",
		.is_on_device = true,
		.is_payload_on_device = true,
		.open = open_write };

	return design_main(argc, argv, &ops);
}
