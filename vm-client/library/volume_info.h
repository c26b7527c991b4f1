/* SPDX-License-Identifier: Apache-2.0 */
/* volume_info.h -- a volume as gateways describe it */
#ifndef CLEAVE_VM_CLIENT_VOLUME_INFO_H
#define CLEAVE_VM_CLIENT_VOLUME_INFO_H

#include "base/reader.h"
#include "cleave/client.h"

/* volume_info_read -- @object, a volume; what its attach is, and whether it is read-only, are another's business. */
void volume_info_read(struct reader *reader, const json_t *object,
    struct cleave_volume_info *ret_info);

/* volume_limits_read -- the member "qos" of @object, if there is one; without: no limits. */
void volume_limits_read(struct reader *reader, const json_t *object,
    struct cleave_limits *ret_limits);

#endif /* CLEAVE_VM_CLIENT_VOLUME_INFO_H */
