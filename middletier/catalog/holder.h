/* SPDX-License-Identifier: Apache-2.0 */
/* holder.h -- who has a volume open for writing: for people, in the volume's key */
#ifndef CLEAVE_MIDDLETIER_CATALOG_HOLDER_H
#define CLEAVE_MIDDLETIER_CATALOG_HOLDER_H

#include <jansson.h>
#include <stdint.h>

#include "catalog/volume.h"

#define MT_HOLDER_TEXT_BYTES (MT_HOLDER_CLIENT_BYTES + 2 * MT_HOLDER_ADDRESS_BYTES + 64)

/* mt_holder_text -- "NAME at ADDRESS since TIME (gateway ADDRESS)", as far as it is known. */
void mt_holder_text(const struct mt_volume *volume, char *out, uint32_t bytes);
/* mt_json_put_holder -- the member "holder", if anybody has it, into @object. 0; -1: no memory. */
int mt_json_put_holder(json_t *object, const struct mt_volume *volume);
/* mt_json_take_holder -- the value of that member; @object may be NULL. */
void mt_json_take_holder(const json_t *object, struct mt_holder *ret_holder);

#endif /* CLEAVE_MIDDLETIER_CATALOG_HOLDER_H */
