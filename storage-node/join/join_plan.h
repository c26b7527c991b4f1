/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join_plan.h -- what a disk and the cluster say of each other, and what is to be done next
 *
 * Nothing is remembered between two runs: each step is told by what the disk holds, and what the cluster knows of it.
 *
 *	the disk              the cluster's nodes              step
 *	absent, empty         -                                FORMAT: reserve a number, write it
 *	something else        -                                FORMAT, which refuses without --force
 *	of another cluster    -                                FORMAT, which refuses without --force
 *	of this cluster       neither number nor disk known    ADD: when somebody serves it
 *	                      number and disk: in, draining    MEMBER: nothing is left to be done, --force or not; of another
 *	                                                       address: refused while the node answers at its own
 *	                      number or disk: out, lost        LEFT: refused; --force: FORMAT, with a new number
 *	                      number of another disk, or       TAKEN: refused; --force: FORMAT, with a new number
 *	                      disk of another number
 */
#ifndef CLEAVE_STORAGE_JOIN_PLAN_H
#define CLEAVE_STORAGE_JOIN_PLAN_H

#include <stdint.h>

#include "base/domain.h"
#include "cleave/split.h"
#include "format/format.h"

#define JOIN_NODES_MAX 8u   /* nodes that have the number or the disk; there are two at most */
#define JOIN_LIST_MAX 1024u /* nodes of a cluster; there are fewer */
#define JOIN_DISK_BYTES 37u
#define JOIN_MEMBER_BYTES 16u

enum join_step { JOIN_FORMAT, JOIN_ADD, JOIN_MEMBER, JOIN_LEFT, JOIN_TAKEN };

struct join_disk {
	enum format_content content;
	struct node_format format;  /* FORMAT_DISK */
	char uuid[JOIN_DISK_BYTES]; /* likewise; else "" */
};

struct join_node {
	uint32_t id;
	char member[JOIN_MEMBER_BYTES]; /* in, draining, out, lost */
	char address[SPLIT_ADDRESS_BYTES_MAX];
	char disk[JOIN_DISK_BYTES]; /* "": the cluster does not know it */
	bool has_domain;            /* a gateway of a release before says none */
	char domain[DOMAIN_BYTES_MAX];
};

struct join_cluster {
	uint64_t cluster_id;
	struct join_node nodes[JOIN_NODES_MAX];
	uint32_t count;
};

/*
 * join_plan_read -- a gateway's answer to node.find
 *
 * Returns 0 and *@ret_cluster; -ENOMEM; -EPROTO: the answer is none.
 */
int join_plan_read(const char *reply, struct join_cluster *ret_cluster);
/*
 * join_plan_read_slots -- the slot size that most bytes of the cluster's nodes are in, by a gateway's answer to node.list
 *
 * Nodes that drain are about to go, and do not count. Of two sizes with as many bytes the smaller one counts, which is
 * how long new extents are. Returns 0 and *@ret_slot_bytes, which is 0 where no node tells; -ENOMEM; -EPROTO: the
 * answer is none.
 */
int join_plan_read_slots(const char *reply, uint64_t *ret_slot_bytes);
/* join_plan_read_up -- 1: by a gateway's answer to node.list it reaches node @id; 0: it does not. -ENOMEM; -EPROTO: it is none. */
int join_plan_read_up(const char *reply, uint32_t id);
/*
 * join_plan -- what comes next, by the table above
 *
 * @cluster: what was answered for @disk's number and uuid. *@ret_node: the node that says so, within @cluster; NULL
 * with FORMAT and ADD.
 */
enum join_step join_plan(const struct join_disk *disk, const struct join_cluster *cluster,
    const struct join_node **ret_node);

#endif /* CLEAVE_STORAGE_JOIN_PLAN_H */
