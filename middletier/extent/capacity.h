/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capacity.h -- can the nodes that a gateway was given hold its shards? Failure domains, and slots
 *
 * Copies of one extent are on nodes of different domains. A node without a domain is one of its own.
 */
#ifndef CLEAVE_MIDDLETIER_EXTENT_CAPACITY_H
#define CLEAVE_MIDDLETIER_EXTENT_CAPACITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_link;
struct mt_node_config;
struct mt_shared;

#define MT_DOMAIN_WHOLE UINT32_MAX /* depth: the whole path */

/*
 * mt_node_is_same_domain -- do both fail together, as far as the first @depth parts of their domains say?
 *
 * A node without a domain does so with itself alone.
 */
bool mt_node_is_same_domain(const struct mt_node_config *a, const struct mt_node_config *b,
    uint32_t depth);
/*
 * mt_domain_depth -- how many parts of a domain copies must differ in: the fewest by which members make three domains
 *
 * So three copies are in three racks where there are three, else on three hosts; MT_DOMAIN_WHOLE where no depth has three.
 * Members count whether they are up or not: a node that restarts changes nothing. Nodes that drain or have left do not.
 */
uint32_t mt_domain_depth(const struct mt_link *links, uint32_t link_count);
/* mt_configs_domain_depth -- the same of nodes that need no links. */
uint32_t mt_configs_domain_depth(const struct mt_node_config *const *configs, uint32_t count);
/* mt_node_domain_count -- how many domains @nodes are of. */
uint32_t mt_node_domain_count(const struct mt_node_config *nodes, uint32_t count);
/*
 * mt_node_taking_count -- how many domains, as mt_domain_depth has them for all @count @nodes, those are of that are @taking
 *
 * So two hosts of one rack are one domain where all members are of three racks.
 */
uint32_t mt_node_taking_count(const struct mt_node_config *nodes, const bool *taking,
    uint32_t count);
/*
 * mt_capacity_check -- CLEAVE_SLOTS_PER_SHARD_MIN slots for each of @shard_count shards, in each copy
 *
 * Copies are CLEAVE_COPIES, or as many as there are domains.
 * Returns: 0 they are there, or a node has not told yet how many it has; -ENOSPC too few in all; -EXFULL
 * enough in all, but so few domains have most of them that not every copy finds a domain. In @ret_text
 * then: the numbers, and what to do.
 */
int mt_capacity_check(const struct mt_link *links, uint32_t link_count, uint32_t shard_count,
    char *ret_text, size_t text_bytes);
/*
 * mt_capacity_data_bytes -- what remains for data, in one copy: without what nodes keep back, and what logs and manifests of
 * @shard_count shards take. 0: a node has not told yet, or nothing remains.
 */
uint64_t mt_capacity_data_bytes(const struct mt_link *links, uint32_t link_count,
    uint32_t shard_count);
/*
 * mt_capacity_holds -- is a slot of @link's node large enough for a copy of @bytes?
 *
 * Slots differ where disks do. A new extent is as long as the smallest slot of its nodes lets it be; a copy goes to a
 * node that has longer slots, or as long ones.
 */
bool mt_capacity_holds(const struct mt_link *link, uint64_t bytes);
/* mt_capacity_note_slot -- a node has slots of @slot_bytes: the smallest ones bound manifests (manifest_room.c). */
void mt_capacity_note_slot(struct mt_shared *shared, uint64_t slot_bytes);

#endif /* CLEAVE_MIDDLETIER_EXTENT_CAPACITY_H */
