/* SPDX-License-Identifier: Apache-2.0 */
/* agree_judge.h -- what the answers of an extent's replicas prove, together */
#ifndef CLEAVE_MIDDLETIER_SHARD_AGREE_JUDGE_H
#define CLEAVE_MIDDLETIER_SHARD_AGREE_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "shard/agree_replica.h"

struct mt_agree;

/* mt_agree_find_length -- agree->agreed_bytes, by what has been answered. NULL; or why the answers do not agree. */
const char *mt_agree_find_length(struct mt_agree *agree);
/* mt_agree_damage_short -- a length was found: replicas that lack what is known to be acknowledged are damaged. */
void mt_agree_damage_short(struct mt_agree *agree);
/* mt_agree_find -- a good replica that reaches (@has_it), or does not reach, agreed_bytes; NULL: there is none. */
struct mt_agree_replica *mt_agree_find(struct mt_agree *agree, bool has_it);
/* mt_agree_count -- replicas in @state. */
uint32_t mt_agree_count(const struct mt_agree *agree, enum mt_agree_replica_state state);
/* mt_agree_count_wanted -- how many undamaged copies must have answered before the longest is believed. */
uint32_t mt_agree_count_wanted(const struct mt_agree *agree);
/* mt_agree_is_proven -- as many have answered, or one that was sealed: by an earlier take-over, or as a copy made here. */
bool mt_agree_is_proven(const struct mt_agree *agree);
/* mt_agree_is_enough -- may what lies behind the highest mark count, on the good replicas that there are? */
bool mt_agree_is_enough(const struct mt_agree *agree);

#endif /* CLEAVE_MIDDLETIER_SHARD_AGREE_JUDGE_H */
