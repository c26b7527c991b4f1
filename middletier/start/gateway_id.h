/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gateway_id.h -- who this gateway is, and this start of it
 *
 * The metadata directory also holds "gateway-id", 16 hex digits chosen once: a shard's root names its
 * owner by it. Several gateways of one host share the directory, each with its --gateway-id; those that share
 * an etcd have no directory, and each must be given one. The boot id is new with every start.
 */
#ifndef CLEAVE_MIDDLETIER_START_GATEWAY_ID_H
#define CLEAVE_MIDDLETIER_START_GATEWAY_ID_H

struct mt_gateway_options;

/*
 * mt_gateway_ids_take -- gateway_id, where it is 0, from the directory @meta (NULL: it is not 0); and a new boot_id
 *
 * A directory without an id gets one. Returns 0; a negative errno, and the log says what is wrong with which file.
 */
int mt_gateway_ids_take(const char *meta, struct mt_gateway_options *options);
/* mt_store_id_take -- a new store_id, for a store that is made. 0; -EIO, and the log says so. */
int mt_store_id_take(struct mt_gateway_options *options);

#endif /* CLEAVE_MIDDLETIER_START_GATEWAY_ID_H */
