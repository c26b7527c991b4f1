/* SPDX-License-Identifier: Apache-2.0 */
/* gateways.h -- which gateway a program turns to when its command line names none */
#ifndef CLEAVE_VM_CLIENT_GATEWAYS_H
#define CLEAVE_VM_CLIENT_GATEWAYS_H

#include "base/config.h"

/*
 * gateways_default -- fill @gateways when it is empty
 *
 * With $CLEAVE_GATEWAY; else the cluster that `./dev up` starts at $CLEAVE_GATEWAY_PORT of this machine;
 * else CLEAVE_DEFAULT_GATEWAY. A variable that is empty counts as not set.
 * Returns: 0; -EINVAL after a message of @program on stderr: more than CLEAVE_GATEWAYS_MAX, one that is no
 * address, or CLEAVE_GATEWAY_PORT is no port. Threads: one at a time; the text stays until the next call.
 */
int gateways_default(const char *program, struct config_list *gateways);

#endif /* CLEAVE_VM_CLIENT_GATEWAYS_H */
