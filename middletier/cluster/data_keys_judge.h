/* SPDX-License-Identifier: Apache-2.0 */
/* data_keys_judge.h -- has this gateway the data keys that a session needs? */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_DATA_KEYS_JUDGE_H
#define CLEAVE_MIDDLETIER_CLUSTER_DATA_KEYS_JUDGE_H

#include <stdbool.h>

#include "catalog/volume.h"
#include "session/session.h"

struct mt_gateway;

#define MT_DATA_KEY_WHY_BYTES                                                                      \
	MT_SESSION_WHY_BYTES /* of a sentence that says why a volume cannot be opened */

/*
 * mt_data_keys_judge -- are all keys there that a session of @volume, or of a snapshot of it, may need?
 *
 * Those of the volume and of what it is a clone of. Returns true; false and @ret_why, of MT_DATA_KEY_WHY_BYTES: which
 * KEK is missing at which gateway.
 */
bool mt_data_keys_judge(const struct mt_gateway *gateway, const struct mt_volume *volume,
    char *ret_why);
/*
 * mt_data_keys_kek_opens -- does this gateway's KEK @kek open all of the cluster's keys that name it?
 *
 * If not, it may be another one under the same name, and what is wrapped with it would open at no gateway that opens the
 * others. That it has wrapped some itself, since then, is no evidence.
 * Returns: 0; 1 some are not tried yet; -EBADMSG it is another one; -EIO, -ETIMEDOUT, -ENOMEM why one could not be tried.
 */
int mt_data_keys_kek_opens(const struct mt_gateway *gateway, const char *kek);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_DATA_KEYS_JUDGE_H */
