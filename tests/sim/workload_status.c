/* SPDX-License-Identifier: Apache-2.0 */
/* workload_status.c -- what a volume says of its blocks, held against what a verification has read */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "history.h"
#include "workload.h"
#include "workload_inside.h"

uint64_t
workload_bytes(const struct workload *workload)
{
	const struct workload_options *options = &workload->options;

	return options->chunk_count == 1 ? options->volume_bytes
					 : options->chunk_count * CLEAVE_CHUNK_BYTES;
}

static void
on_status(struct cleave_io *io, int rc, void *arg)
{
	struct workload *workload = arg;

	(void)io;
	(void)rc;
	workload->is_status_done = true;
}

static bool
is_status_done(void *arg)
{
	return ((const struct workload *)arg)->is_status_done;
}

void
workload_check_status(struct workload *workload, uint64_t limit_ns, const char *what)
{
	uint32_t extent_max = workload->block_count + workload->options.chunk_count;
	struct cleave_extent *extents = calloc(extent_max, sizeof(*extents));
	struct cleave_io *io = &workload->status_io;
	uint64_t at = 0;

	assert(extents != NULL);
	*io = (struct cleave_io){ .op = CLEAVE_BLOCK_STATUS,
		.length_bytes = workload_bytes(workload),
		.extents = extents,
		.extent_max = extent_max,
		.fn = on_status,
		.arg = workload };
	workload->is_status_done = false;
	if (cleave_submit(workload->present->volume, io) == 0) {
		sim_cluster_run_until(workload->cluster, is_status_done, workload, limit_ns, what);
		if (io->rc != 0 && io->rc != -ETIMEDOUT && io->rc != -ESHUTDOWN)
			sim_cluster_fail(workload->cluster, "%s: block status: %s", workload->name,
			    strerror(-io->rc));
	}
	for (uint32_t i = 0; io->rc == 0 && i < io->extent_count; i++) {
		uint64_t end = at + extents[i].length_bytes;

		for (; at < end; at += CLEAVE_BLOCK_BYTES) {
			uint64_t block = history_block(workload->history, at);

			if (extents[i].flags != 0 && block < workload->block_count &&
			    workload->looks[block] != LOOK_ZEROS)
				sim_cluster_fail(workload->cluster,
				    "%s block %" PRIu64 ": is no hole, and told to be one",
				    workload->name, block);
		}
	}
	if (io->rc == 0 && workload->is_status_done && at != workload_bytes(workload))
		sim_cluster_fail(workload->cluster, "%s: block status ends at %" PRIu64,
		    workload->name, at);
	free(extents);
}
