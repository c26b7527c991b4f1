/* SPDX-License-Identifier: Apache-2.0 */
/* control_data_key.h -- what is asked about data keys: an encrypted volume is made, its key is rotated */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_DATA_KEY_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_DATA_KEY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct meta_op;
struct mt_control_request;
struct mt_data_key;
struct mt_volume;

/*
 * mt_control_data_key_is_made -- a data key for the volume that a change is about to make, @volume, wrapped with @kek
 *
 * @kek NULL: the default's name. True: mt_data_keys_made has it, for that volume, with the cluster's next id. False: it
 * is being made, and the op runs again; or the request has ended: the level, no such KEK here, a KMS that fails.
 */
bool mt_control_data_key_is_made(struct mt_control_request *request, uint64_t volume,
    const char *kek);
/*
 * mt_control_data_key_lacks -- has this gateway the keys that @volume, called @name, needs?
 *
 * True: it has not, and the request has ended; or they are being read, and the op runs again.
 */
bool mt_control_data_key_lacks(struct mt_control_request *request, const struct mt_volume *volume,
    const char *name);
/* mt_control_data_key_tell -- "encrypted", and of a volume that is "kek" and "key_count", into @object. */
void mt_control_data_key_tell(const struct mt_control_request *request,
    const struct mt_volume *volume, json_t *object);
/* mt_control_volume_rotate_key -- the op: what is stored from now on is encrypted with a new key. */
void mt_control_volume_rotate_key(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_DATA_KEY_H */
