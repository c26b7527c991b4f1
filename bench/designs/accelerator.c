/* SPDX-License-Identifier: Apache-2.0 */
/* accelerator -- header and payload in one host buffer, compressed in an accelerator's memory */
#include <errno.h>
#include <string.h>

#include "design.h"

struct write {
	struct design_server *server;
	uint8_t *recv, *send[DESIGN_REPLICAS]; /* HEAD_SIZE + MAX_SIZE bytes of host memory each */
	dev_ptr source, result;                /* MAX_SIZE bytes of the accelerator's memory each */
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
	wire_io_reply((struct wire_header *)w->send[0], &w->io, w->rc, 0, w->io.epoch);
	design_then(w->server,
	    dev_mixed_send(w->server->qp_vm, w->send[0], HEAD_SIZE, DEV_PTR_NULL, 0), on_replied,
	    w);
}

static void
replicate(struct write *w, size_t size)
{
	w->waiting_count = 2 * DESIGN_REPLICAS;
	for (uint32_t i = 1; i < DESIGN_REPLICAS;
	     i++) /* each header is stamped for its queue pair */
		memcpy(w->send[i], w->send[0], HEAD_SIZE + size);
	for (uint32_t i = 0; i < DESIGN_REPLICAS; i++) {
		struct split_qp *qp = w->server->qp_storage[i];

		design_then(w->server, dev_mixed_recv(qp, w->ack[i], HEAD_SIZE, DEV_PTR_NULL, 0),
		    on_stored, w);
		design_then(w->server,
		    dev_mixed_send(qp, w->send[i], HEAD_SIZE + size, DEV_PTR_NULL, 0), on_stored,
		    w);
	}
}

/* The accelerator's result comes back to where the network device finds it. */
static void
on_compressed(const struct dev_completion *completion, void *arg)
{
	struct write *w = arg;
	size_t size = MAX_SIZE;

	if (completion->rc == 0) {
		size = completion->bytes;
		dev_copy_to_host(w->server->ctx, w->send[0] + HEAD_SIZE, w->result, size);
		((struct wire_header *)w->send[0])->engine = ENGINE_LZ4;
	} else {
		memcpy(w->send[0] + HEAD_SIZE, w->recv + HEAD_SIZE, size);
		w->server->core_bytes += 2 * size;
	}
	replicate(w, size);
}

static void
on_received(const struct dev_completion *completion, void *arg)
{
	struct write *w = arg;
	const char *field;

	if (completion->rc != 0 ||
	    wire_io_decode((struct wire_header *)w->recv, &w->io, &field) != 0) {
		design_over(w->server, completion->rc != 0 ? completion->rc : -EPROTO);
		return;
	}
	wire_io_encode((struct wire_header *)w->send[0], &w->io);
	if (w->io.service_class == SERVICE_LATENCY) {
		memcpy(w->send[0] + HEAD_SIZE, w->recv + HEAD_SIZE, MAX_SIZE);
		w->server->core_bytes += 2 * MAX_SIZE;
		replicate(w, MAX_SIZE);
		return;
	}
	dev_copy_from_host(w->server->ctx, w->source, w->recv + HEAD_SIZE, w->io.length_bytes);
	design_then(w->server,
	    dev_func(w->server->ctx, w->source, w->io.length_bytes, w->result, MAX_SIZE,
		DEV_ENGINE_COMPRESS_LZ4),
	    on_compressed, w);
}

static void
receive(struct write *w)
{
	design_then(w->server,
	    dev_mixed_recv(w->server->qp_vm, w->recv, HEAD_SIZE + MAX_SIZE, DEV_PTR_NULL, 0),
	    on_received, w);
}

static int
open_write(struct design_server *server)
{
	struct write *w = host_alloc(server->ctx, sizeof(*w));

	if (w == NULL)
		return -ENOMEM;
	*w = (struct write){ .server = server };
	w->recv = host_alloc(server->ctx, HEAD_SIZE + MAX_SIZE);
	w->source = dev_alloc(server->ctx, MAX_SIZE);
	w->result = dev_alloc(server->ctx, MAX_SIZE);
	for (uint32_t i = 0; i < DESIGN_REPLICAS; i++) {
		w->send[i] = host_alloc(server->ctx, HEAD_SIZE + MAX_SIZE);
		w->ack[i] = host_alloc(server->ctx, HEAD_SIZE);
	}
	receive(w);
	return 0;
}

int
main(int argc, char **argv)
{
	static const struct design_ops ops = { .name = "accelerator",
		.engine_threads = 1,
		.open = open_write };

	return design_main(argc, argv, &ops);
}
