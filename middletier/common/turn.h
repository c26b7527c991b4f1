/* SPDX-License-Identifier: Apache-2.0 */
/* turn.h -- are the turns of a port's loop to be short, since the latency class is at work? */
#ifndef CLEAVE_MIDDLETIER_COMMON_TURN_H
#define CLEAVE_MIDDLETIER_COMMON_TURN_H

#include <stdbool.h>

#include "cleave/wire.h"

struct mt_port;

/* mt_turn_on_ahead -- a volume's request has come, or is answered: SERVICE_LATENCY cuts turns short. */
void mt_turn_on_ahead(struct mt_port *port, enum service_class service_class);
/* mt_turn_is_short -- the latency class was at work within the last second: turns are to be short. */
bool mt_turn_is_short(const struct mt_port *port);

#endif /* CLEAVE_MIDDLETIER_COMMON_TURN_H */
