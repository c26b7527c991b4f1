/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_address.h -- does the address that a port tells clients lead to this gateway?
 *
 * The main loop's, all of it.
 */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_OWN_ADDRESS_H
#define CLEAVE_MIDDLETIER_CLUSTER_OWN_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "cleave/split.h"
#include "cluster/peer.h"
#include "common/limits.h"

struct mt_gateway;
struct mt_own_address;

#define MT_OWN_SILENT_MAX 4u /* questions without an answer: then nobody is there */
#define MT_OWN_LED_MAX 8u    /* gateways of which it is known that their address leads to us */

/* A port's address, as its last questions found it. */
struct mt_own_port {
	struct mt_own_address *own;
	struct mt_peer_call call;
	uint64_t asked_ns, since_ns; /* since_ns: of the first question that found it wrong */
	uint64_t other_id;           /* the gateway that answers there instead; 0: none */
	uint32_t silent_count; /* questions in a row that nobody has answered, so many at most */
	bool has_answered;     /* somebody has, since the start */
	int rc;                /* why there was no answer */
};

/* A gateway that has asked for itself at an address, and has found us. */
struct mt_own_led {
	uint64_t gateway_id;
	uint64_t since_ns, seen_ns;            /* the first and the last time */
	char address[SPLIT_ADDRESS_BYTES_MAX]; /* that one, as it calls it */
};

struct mt_own_address {
	struct mt_gateway *gateway;
	struct loop_timer timer;
	struct mt_own_port ports[MT_PORTS_MAX];
	uint32_t out_count; /* questions that are under way */
	struct mt_own_led led[MT_OWN_LED_MAX];
	bool
	    is_kept_out; /* nobody has said yet that no other gateway answers: no lease is asked for */
	bool is_stopped;
};

/*
 * mt_own_address_start -- begin to become a member, once no other gateway answers at our ports' addresses
 *
 * The addresses are asked now, and then again. Nobody may answer, or one that does not tell who it is. The others are
 * seen from now on. Where the options do not say is_address_asked nobody is asked, and the lease is got at once.
 * Returns 0; -ENOMEM. Where memory is out later, the gateway fails.
 */
int mt_own_address_start(struct mt_gateway *gateway);
/* mt_own_address_keeps_out -- another gateway answers at one of them, and has from the start: no shards are taken. */
bool mt_own_address_keeps_out(const struct mt_gateway *gateway);
/* mt_own_address_on_led -- gateway @gateway_id has asked for itself at @address, and has come to us. */
void mt_own_address_on_led(struct mt_gateway *gateway, uint64_t gateway_id, const char *address);
/* mt_own_address_led -- the @index-th of those that have done so lately; NULL: there are no more. */
const struct mt_own_led *mt_own_address_led(const struct mt_gateway *gateway, uint32_t index);
/* mt_own_address_is_silent -- nobody answers at the @index-th port's address, and people are to be told */
bool mt_own_address_is_silent(const struct mt_gateway *gateway, uint32_t index);
/* mt_own_address_stop -- ask no more; again: a no-op. */
void mt_own_address_stop(struct mt_gateway *gateway);
/* mt_own_address_fini -- nobody runs the ports' loops any more. */
void mt_own_address_fini(struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_OWN_ADDRESS_H */
