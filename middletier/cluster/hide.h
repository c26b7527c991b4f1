/* SPDX-License-Identifier: Apache-2.0 */
/* hide.h -- the shards are told what no scope shows any more: merges leave it out */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_HIDE_H
#define CLEAVE_MIDDLETIER_CLUSTER_HIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog/hidden.h"
#include "catalog/scope.h"
#include "cleave/loop.h"
#include "common/port.h"

struct mt_gateway;

/* Drop.c's; private to hide.c. While it is out the ports read what is hidden. */
struct mt_hide {
	struct mt_gateway *gateway;
	struct mt_hidden hidden[MT_HIDDEN_MAX];
	uint32_t hidden_count;
	uint32_t at; /* mt_hidden_find's: where the next turn begins */
	struct mt_hide_leg {
		struct loop_post post;
		struct mt_hide *hide;
		struct mt_port *port;
		bool is_left;
	} legs[MT_PORTS_MAX];
	uint32_t left_count; /* ports that have not answered */
	void (*fn)(bool is_left, void *arg);
	void *arg;
};

/*
 * mt_hide_start -- tell every shard that serves here what the tables hide
 *
 * Compares the key "cluster" first: nothing is told from tables that are old.
 *
 * Ownership: @hide is borrowed until @fn, or until nobody runs the ports' loops any more.
 * Returns:   true: @fn once, later, on main; @is_left: it must be told again, to somebody or to all. False: never;
 *            nothing is hidden, or there is no memory to ask the store.
 * Threads:   main.
 */
bool mt_hide_start(struct mt_hide *hide, struct mt_gateway *gateway,
    void (*fn)(bool is_left, void *arg), void *arg);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_HIDE_H */
