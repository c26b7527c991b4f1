/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_value.h -- numbers, sizes and durations from the text of an option
 *
 * All return 0; -EINVAL for what is none; -ERANGE for 2^64 and above. Outputs are untouched on failure.
 */
#ifndef CLEAVE_BASE_CONFIG_VALUE_H
#define CLEAVE_BASE_CONFIG_VALUE_H

#include <stdint.h>

/* config_parse_u64 -- decimal digits, nothing else. */
int config_parse_u64(const char *text, uint64_t *ret_value);
/*
 * config_parse_size -- bytes, or K, M, G, T, with B or iB behind or not: powers of 1024
 *
 * Up to three digits may stand behind a point: "1.5G". Such a part is rounded up to a multiple of 4096.
 */
int config_parse_size(const char *text, uint64_t *ret_bytes);
/* config_parse_duration -- ns, us, ms, s, m, h or d behind the digits, "1.5s", too; 0 alone needs none. */
int config_parse_duration(const char *text, uint64_t *ret_ns);

#endif /* CLEAVE_BASE_CONFIG_VALUE_H */
