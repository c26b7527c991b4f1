/* SPDX-License-Identifier: Apache-2.0 */
/*
 * design.h -- what the four designs run in: a VM that writes, three storage servers that answer
 *
 * A design is a middle-tier server of the smallest kind: it receives a write, compresses it, sends it to
 * three storage servers and answers the VM when all three have. Everything else is here, so that the
 * lines of a design's own file say what the design costs a programmer. Each server has a thread, a port
 * and `DESIGN_SLOTS` writes in flight; its peers have a thread of their own.
 */
#ifndef CLEAVE_BENCH_DESIGN_H
#define CLEAVE_BENCH_DESIGN_H

#include "cleave/split.h"
#include "cleave/status.h"
#include "cleave/wire.h"

#define DESIGN_SLOTS 32u
#define DESIGN_REPLICAS 3u
#define HEAD_SIZE WIRE_HEADER_BYTES
#define MAX_SIZE CLEAVE_BLOCK_BYTES

struct design_server {
	struct loop *loop;
	struct split_port *ctx;
	struct split_qp *qp_vm, *qp_storage[DESIGN_REPLICAS];
	void *lz4;           /* state of the codec, for designs that compress on a core */
	uint64_t core_bytes; /* of payloads, that a core read or wrote in host memory */
	uint64_t done_count;
};

struct design_ops {
	const char *name;
	uint32_t engine_threads;   /* 0: the engine runs on the server's own thread */
	bool is_on_device;         /* header memory is the device's, too: nothing crosses a link */
	bool is_payload_on_device; /* payloads do not cross the link */
	/* Memory for one write in flight, and its first receive. 0 or a negative errno. */
	int (*open)(struct design_server *server);
};

/* design_over -- the VM has gone, or something failed: the server ends. */
void design_over(struct design_server *server, int rc);

/* design_then -- complete @event into @fn; NULL: it could not begin, and errno says why. */
void design_then(struct design_server *server, struct dev_event *event,
    void (*fn)(const struct dev_completion *completion, void *arg), void *arg);

/* design_main -- --writes N, --threads N, --pressure N, data files; prints one JSON object. */
int design_main(int argc, char **argv, const struct design_ops *ops);

#endif /* CLEAVE_BENCH_DESIGN_H */
