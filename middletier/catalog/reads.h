/* SPDX-License-Identifier: Apache-2.0 */
/* reads.h -- who may read a volume past its gateway: the member "reads" of its key, by name */
#ifndef CLEAVE_MIDDLETIER_CATALOG_READS_H
#define CLEAVE_MIDDLETIER_CATALOG_READS_H

#include <stdbool.h>

#include "catalog/volume.h"

/* mt_reads_name -- a static text. */
const char *mt_reads_name(enum mt_reads reads);
/* mt_reads_parse -- false: there is none of that name, and *@ret_reads is untouched. */
bool mt_reads_parse(const char *name, enum mt_reads *ret_reads);

#endif /* CLEAVE_MIDDLETIER_CATALOG_READS_H */
