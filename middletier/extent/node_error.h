/* SPDX-License-Identifier: Apache-2.0 */
/* node_error.h -- what the error of a call to a storage node means for who has made it */
#ifndef CLEAVE_MIDDLETIER_EXTENT_NODE_ERROR_H
#define CLEAVE_MIDDLETIER_EXTENT_NODE_ERROR_H

#include <stdbool.h>

/* mt_is_fenced -- the node knows a newer owner of the shard: the caller has to stop. */
bool mt_is_fenced(int rc);
/* mt_is_busy -- the node, or the way to it, has too much to do: the same again, a little later. */
bool mt_is_busy(int rc);
/* mt_is_link_lost -- the node did not answer: whether it has done what was asked is not known. */
bool mt_is_link_lost(int rc);
/* mt_is_copy_bad -- @rc of a READ: the node answers, but not with what it once acknowledged. */
bool mt_is_copy_bad(int rc);
/*
 * mt_is_copy_lost -- @rc of a TRUNCATE at the sealed length: the copy can never be sealed there
 *
 * It is not what its node once acknowledged: shorter, damaged, gone. Or it was sealed at another length
 * (-EPERM: by a take-over that died before it recorded one), or has no batch that ends there (-EINVAL). Asked
 * again its node says the same; so the copy is replaced.
 */
bool mt_is_copy_lost(int rc);

#endif /* CLEAVE_MIDDLETIER_EXTENT_NODE_ERROR_H */
