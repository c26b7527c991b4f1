/* SPDX-License-Identifier: Apache-2.0 */
/* control_allow.h -- whether who asks may: the right of an op, for the volumes that a request names */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_ALLOW_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_ALLOW_H

#include <stdbool.h>
#include <stdint.h>

struct mt_control_request;
struct mt_volume_entry;
struct split_subject;

/*
 * mt_control_allow -- may who asked have the op run, with the volumes that the request names?
 *
 * On main, each time that the op is about to run. False: the request has ended, with what it would be told if there were
 * no such volume, or with -ENOKEY; a line of the log says who asked for what. A request of a connection without an
 * identity may all. What is no text where a name should be is left to the op, which refuses it.
 */
bool mt_control_allow(struct mt_control_request *request);
/* mt_control_sees -- may who asked look at volume @name? For answers with several of them. */
bool mt_control_sees(const struct mt_control_request *request, const char *name);
/* mt_control_knows -- may who asked do anything with volume @name? Whoever may not is told that there is none. */
bool mt_control_knows(const struct mt_control_request *request, const char *name);
/*
 * mt_control_may -- has who asked the right of the op to volume @name? Where the request has an id in a name's place; who
 * has not is to be told that there is no such volume, and a line of the log says who asked.
 */
bool mt_control_may(const struct mt_control_request *request, const char *name);
/* mt_control_may_open -- likewise, of MT_NAMES_ID: open and close it. */
bool mt_control_may_open(const struct mt_control_request *request, const char *name);
/*
 * mt_control_volume_of_id -- the volume of a request that has its "id" and nothing else, if @may lets who asked have it
 *
 * NULL: the request has ended, with -EINVAL, or with -ENOENT as where there is none.
 */
const struct mt_volume_entry *mt_control_volume_of_id(struct mt_control_request *request,
    bool (*may)(const struct mt_control_request *request, const char *name));
/* mt_control_volume_with_id -- likewise, where the caller has read @id, and what else there is, from the request. */
const struct mt_volume_entry *mt_control_volume_with_id(struct mt_control_request *request,
    uint64_t id, bool (*may)(const struct mt_control_request *request, const char *name));
/* mt_control_subject -- who asked; NULL: the connection is open. The session's, as long as the request is there. */
const struct split_subject *mt_control_subject(const struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_ALLOW_H */
