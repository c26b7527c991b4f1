/* SPDX-License-Identifier: Apache-2.0 */
/* reads.c -- who may read a volume past its gateway: the member "reads" of its key, by name */
#include "catalog/reads.h"

#include <string.h>

#include "base/check.h"
#include "base/num.h"

static const char *const names[MT_READS_NR] = {
	[MT_READS_GATEWAY] = "gateway",
	[MT_READS_HOT] = "hot",
	[MT_READS_DIRECT] = "direct",
};

const char *
mt_reads_name(enum mt_reads reads)
{
	assert((unsigned)reads < MT_READS_NR);
	return names[reads];
}

bool
mt_reads_parse(const char *name, enum mt_reads *ret_reads)
{
	for (unsigned i = 0; i < MT_READS_NR; i++) {
		if (strcmp(names[i], name) != 0)
			continue;
		*ret_reads = (enum mt_reads)i;
		return true;
	}
	return false;
}
