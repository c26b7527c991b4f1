/* SPDX-License-Identifier: Apache-2.0 */
/* gateways.h -- which gateway a program turns to when its command line names none */
#ifndef CLEAVE_VM_CLIENT_GATEWAYS_H
#define CLEAVE_VM_CLIENT_GATEWAYS_H

#include <stdint.h>

#include "base/config.h"
#include "cleave/client.h"
#include "cleave/split.h"

/*
 * gateways_cut -- append the addresses of @list, "ADDRESS[,ADDRESS...]", to @gateways, tcp:// before what has no scheme
 *
 * Returns: 0; -EINVAL, and what is wrong with what: more than CLEAVE_GATEWAYS_MAX, or one that is no address.
 */
int gateways_cut(const char *list, char gateways[CLEAVE_GATEWAYS_MAX][SPLIT_ADDRESS_BYTES_MAX],
    uint32_t *count, char ret_error[CLEAVE_ERROR_BYTES_MAX]);
/*
 * gateways_default -- fill @gateways when it is empty
 *
 * With $CLEAVE_GATEWAY; else the cluster that `./dev up` starts at $CLEAVE_GATEWAY_PORT of this machine;
 * else CLEAVE_DEFAULT_GATEWAY. A variable that is empty counts as not set. Each may be a list.
 * Returns: 0; -EINVAL after a message of @program on stderr: more than CLEAVE_GATEWAYS_MAX, one that is no
 * address, or CLEAVE_GATEWAY_PORT is no port. Threads: one at a time; the text stays until the next call.
 */
int gateways_default(const char *program, struct config_list *gateways);

#endif /* CLEAVE_VM_CLIENT_GATEWAYS_H */
