/* SPDX-License-Identifier: Apache-2.0 */
/* data_keys_tell.h -- data keys on their way to every port's keyring */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_DATA_KEYS_TELL_H
#define CLEAVE_MIDDLETIER_CLUSTER_DATA_KEYS_TELL_H

#include <stdint.h>

#include "kms/kek.h"

struct mt_gateway;

/*
 * mt_data_keys_tell -- every port's keyring gets the key @id; with @dek NULL it is wiped there
 *
 * Whatever main posts to a port behind it finds it so. The secret is copied, and wiped when all ports have it.
 * Returns 0; -ENOMEM; -ESHUTDOWN: the gateway stops.
 */
int mt_data_keys_tell(struct mt_gateway *gateway, uint32_t id, const uint8_t dek[MT_DEK_BYTES]);
/* mt_data_keys_tells_drop -- nobody runs the ports' loops any more: secrets that are out are wiped. */
void mt_data_keys_tells_drop(struct mt_gateway *gateway);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_DATA_KEYS_TELL_H */
