/* SPDX-License-Identifier: Apache-2.0 */
/* control_volume.h -- the volume.* ops */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_VOLUME_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_VOLUME_H

#include <stdbool.h>

struct mt_control_request;
struct mt_holder_answer;
struct mt_volume;

#define MT_VOLUMES_PER_LIST 64u /* in one answer to volume.list */

/* mt_control_take_name -- into request->volume.name. False: it is no name, and the request has ended. */
bool mt_control_take_name(struct mt_control_request *request, const char *name);
void mt_control_volume_create(struct mt_control_request *request);
void mt_control_volume_list(struct mt_control_request *request);
void mt_control_volume_show(struct mt_control_request *request);
void mt_control_volume_delete(struct mt_control_request *request);

/*
 * mt_control_refuse_users -- @answer says that somebody uses @volume: true, and the request has ended
 *
 * The text says who that is, and how to insist.
 */
bool mt_control_refuse_users(struct mt_control_request *request, const struct mt_volume *volume,
    const struct mt_holder_answer *answer);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_VOLUME_H */
