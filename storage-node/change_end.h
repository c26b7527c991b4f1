/* SPDX-License-Identifier: Apache-2.0 */
/* change_end.h -- the end of a change: its extent, and the answer; for change.c */
#ifndef CLEAVE_STORAGE_CHANGE_END_H
#define CLEAVE_STORAGE_CHANGE_END_H

struct sn_request;

/* sn_change_apply -- move the extent of @req, whose change has ended with @rc, 0 or a negative errno. */
void sn_change_apply(struct sn_request *req, int rc);
/* sn_change_reply -- answer @req, whose change is DONE (@rc 0) or FAILED (@rc < 0); it is free after this. */
void sn_change_reply(struct sn_request *req, int rc);

#endif /* CLEAVE_STORAGE_CHANGE_END_H */
