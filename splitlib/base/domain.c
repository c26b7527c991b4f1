/* SPDX-License-Identifier: Apache-2.0 */
/* domain.c -- see domain.h */
#include "domain.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

bool
domain_is_valid(const char *domain)
{
	uint32_t parts = 1, part_bytes = 0;
	size_t bytes = strnlen(domain, DOMAIN_BYTES_MAX);

	if (bytes == DOMAIN_BYTES_MAX)
		return false;
	for (size_t i = 0; i < bytes; i++) {
		if (domain[i] == '/') {
			if (part_bytes == 0 || ++parts > DOMAIN_PARTS_MAX)
				return false;
			part_bytes = 0;
			continue;
		}
		if ((unsigned char)domain[i] < ' ')
			return false;
		part_bytes++;
	}
	return bytes == 0 || part_bytes > 0;
}

const char *
domain_check(const char *domain)
{
	_Static_assert(DOMAIN_PARTS_MAX == 4, "the text says so");
	if (domain_is_valid(domain) && strpbrk(domain, " \177") == NULL)
		return NULL;
	return "one name, or up to 4 with a / between each two, without blanks";
}
