/* SPDX-License-Identifier: Apache-2.0 */
/* merge_port.h -- what a port has for its merges: made before its shards, gone after them */
#ifndef CLEAVE_MIDDLETIER_MERGE_MERGE_PORT_H
#define CLEAVE_MIDDLETIER_MERGE_MERGE_PORT_H

#include <stdbool.h>
#include <stdint.h>

struct mt_port;
struct mt_shard;

/*
 * mt_merge_port_init -- the memory for one merge at a time; the port is open, its receives are counted
 *
 * @device_bytes: the port's device memory, of which mt_merge_device_bytes is taken. Returns 0; -ENOMEM:
 * nothing is left. Threads: the port's.
 */
int mt_merge_port_init(struct mt_port *port, uint64_t device_bytes);
/* mt_merge_port_fini -- after the port's shards; also without init. */
void mt_merge_port_fini(struct mt_port *port);
/* mt_merge_is_quiet -- the shard has no merge, and nothing of one is on its way. */
bool mt_merge_is_quiet(const struct mt_shard *shard);
/* mt_merge_fini -- the process is being taken down: the shard's merges are freed without a word to anybody. */
void mt_merge_fini(struct mt_shard *shard);

#endif /* CLEAVE_MIDDLETIER_MERGE_MERGE_PORT_H */
