/* SPDX-License-Identifier: Apache-2.0 */
/* control_settings.h -- options of a gateway that change while it runs */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_SETTINGS_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_SETTINGS_H

#include <stdint.h>

#include "base/log.h"

struct mt_control_request;
struct mt_event_who;
struct mt_gateway;

/*
 * mt_settings_log_level, mt_settings_slow_op -- from here on, until the gateway ends; nothing where it is so already
 *
 * @why: what wanted it, for the event that says so; @who: NULL: no request. @slow_op_ns: 0: no request is slow.
 * Threads: main.
 */
void mt_settings_log_level(struct mt_gateway *gateway, enum log_level level, const char *why,
    const struct mt_event_who *who);
void mt_settings_slow_op(struct mt_gateway *gateway, uint64_t slow_op_ns, const char *why,
    const struct mt_event_who *who);

/* The op, as control.h says. */
void mt_control_gateway_set(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_SETTINGS_H */
