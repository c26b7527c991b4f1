/* SPDX-License-Identifier: Apache-2.0 */
/* edit_refusal.h -- as what mt_edit_decode refuses an edit, by the field that it blames */
#ifndef CLEAVE_TESTS_EDIT_REFUSAL_H
#define CLEAVE_TESTS_EDIT_REFUSAL_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/num.h"

/* edit_refusal -- -EPROTONOSUPPORT: a form that this release does not know, a newer one's; -EBADMSG: nobody's. */
static inline int
edit_refusal(const char *field)
{
	static const char *const forms[] = { "kind", "version", "value_bytes", "reserved", "flags",
		"replica_flags", "volume_flags", "level" };

	for (uint32_t i = 0; i < NUM_COUNT(forms); i++) {
		if (strcmp(field, forms[i]) == 0)
			return -EPROTONOSUPPORT;
	}
	return -EBADMSG;
}

#endif /* CLEAVE_TESTS_EDIT_REFUSAL_H */
