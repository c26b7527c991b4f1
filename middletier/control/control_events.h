/* SPDX-License-Identifier: Apache-2.0 */
/* control_events.h -- events: what happened here, page by page */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_EVENTS_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_EVENTS_H

struct mt_control_request;

/* mt_control_events -- those behind the number that the request names, oldest first, as many as an answer holds. */
void mt_control_events(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_EVENTS_H */
