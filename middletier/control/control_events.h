/* SPDX-License-Identifier: Apache-2.0 */
/* control_events.h -- events: what happened here, page by page */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_EVENTS_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_EVENTS_H

#include <jansson.h>
#include <stdint.h>

struct mt_control_request;
struct mt_event;

/* mt_control_events -- those behind the number that the request names, oldest first, as many as an answer holds. */
void mt_control_events(struct mt_control_request *request);
/* mt_json_event -- as one of "events". NULL: out of memory. */
json_t *mt_json_event(const struct mt_event *event, uint64_t now_ns);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_EVENTS_H */
