/* SPDX-License-Identifier: Apache-2.0 */
/* gateway_load.h -- the key "cluster" and the volumes are read, and it is judged whether this store may be served */
#ifndef CLEAVE_MIDDLETIER_GATEWAY_GATEWAY_LOAD_H
#define CLEAVE_MIDDLETIER_GATEWAY_GATEWAY_LOAD_H

struct mt_gateway;

/* mt_gateway_load_init -- @fn, on main: the cluster is known, and may be served. */
void mt_gateway_load_init(struct mt_gateway *gateway, void (*fn)(struct mt_gateway *gateway));
/*
 * mt_gateway_load -- main: of one that is starting: ends in @fn, or in mt_gateway_fail
 *
 * A store that does not answer is asked again, for as long as the gateway is starting. Else nothing happens.
 */
void mt_gateway_load(struct mt_gateway *gateway);
/* mt_gateway_load_stop -- main: the gateway goes; @fn is not called any more. */
void mt_gateway_load_stop(struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_GATEWAY_GATEWAY_LOAD_H */
