/* SPDX-License-Identifier: Apache-2.0 */
/* read_hops.h -- how long a read took: counted, and kept where it was long */
#ifndef CLEAVE_MIDDLETIER_READ_READ_HOPS_H
#define CLEAVE_MIDDLETIER_READ_READ_HOPS_H

#include <stdint.h>

struct mt_call;
struct mt_link;
struct mt_read;

/* mt_read_hops_answer -- @call, which @read made, has ended with @rc. */
void mt_read_hops_answer(struct mt_read *read, const struct mt_call *call, int rc);
/* mt_read_hops_node -- likewise, a call to @node that took so long. */
void mt_read_hops_node(struct mt_read *read, const struct mt_link *node, uint64_t took_ns, int rc);
/* mt_read_hops_end -- @read is about to be answered with @rc. */
void mt_read_hops_end(const struct mt_read *read, int rc);

#endif /* CLEAVE_MIDDLETIER_READ_READ_HOPS_H */
