/* SPDX-License-Identifier: Apache-2.0 */
/* gateway_options.h -- what a gateway is told when it is made: checked, made whole, and handed to its ports */
#ifndef CLEAVE_MIDDLETIER_GATEWAY_GATEWAY_OPTIONS_H
#define CLEAVE_MIDDLETIER_GATEWAY_GATEWAY_OPTIONS_H

#include <stddef.h>

struct mt_gateway;
struct mt_gateway_options;
struct mt_port_host;

/* mt_gateway_options_check -- 0; -EINVAL, and @ret_error names the option, and what it may be. */
int mt_gateway_options_check(const struct mt_gateway_options *options, char *ret_error,
    size_t error_bytes);
/*
 * mt_gateway_options_take -- @gateway gets checked options, with the defaults, and makes its ports' of them
 *
 * Ownership: what @options points to is borrowed until the gateway is destroyed; @host, too.
 */
void mt_gateway_options_take(struct mt_gateway *gateway, const struct mt_gateway_options *options,
    const struct mt_port_host *host);

#endif /* CLEAVE_MIDDLETIER_GATEWAY_GATEWAY_OPTIONS_H */
