/* SPDX-License-Identifier: Apache-2.0 */
/* enemy_inside.h -- for the enemy's own files */
#ifndef CLEAVE_TESTS_SIM_ENEMY_INSIDE_H
#define CLEAVE_TESTS_SIM_ENEMY_INSIDE_H

#include <stdbool.h>
#include <stdint.h>

#define ENEMY_ROGUE "gateway/66" /* a valid key of a gateway that is none of the cluster's */
#define ENEMY_ROGUE_NUMBER 66u
#define ENEMY_MESSAGE_BYTES 4096u

struct sim_cluster;
struct sim_enemy;
struct wire_hello;
struct wire_node;

/* sim_enemy_below -- the enemy's own dice. */
uint32_t sim_enemy_below(struct sim_enemy *enemy, uint32_t limit);
/* sim_enemy_node_hello -- the store that node @index obeys, for who says that it is a gateway. False: the node is not there. */
bool sim_enemy_node_hello(const struct sim_cluster *cluster, uint32_t index,
    struct wire_hello *hello);
/* sim_enemy_node_request -- about a copy at node @index, under its owner's epoch. False: it does not run by now, or no owner has come since. */
bool sim_enemy_node_request(struct sim_enemy *enemy, const struct sim_cluster *cluster,
    uint32_t index, struct wire_node *ret_request);

#endif /* CLEAVE_TESTS_SIM_ENEMY_INSIDE_H */
