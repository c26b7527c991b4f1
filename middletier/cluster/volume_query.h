/* SPDX-License-Identifier: Apache-2.0 */
/* volume_query.h -- a session's question to main: the volume, and whether its client may have it */
#ifndef CLEAVE_MIDDLETIER_CLUSTER_VOLUME_QUERY_H
#define CLEAVE_MIDDLETIER_CLUSTER_VOLUME_QUERY_H

struct loop_post;
struct mt_port;
struct mt_volume_query;

/*
 * mt_volume_query_send -- a session's question, from its port; comes back by @query->post to @fn
 *
 * A volume that main does not know, or with an attach older than @query->attach, or which ends before
 * @query->end_bytes, is read anew first. Of a port with a key (@query->subject) it is judged whether who asks may have it:
 * -ENOKEY; -ENOMEDIUM and @query->why: a data key of it is not open here; -ENOENT also where there is such a volume, but not for that client; -EHOSTDOWN: rights were not read yet.
 */
void mt_volume_query_send(struct mt_volume_query *query, struct mt_port *port,
    void (*fn)(struct loop_post *post, void *arg), void *arg);

#endif /* CLEAVE_MIDDLETIER_CLUSTER_VOLUME_QUERY_H */
