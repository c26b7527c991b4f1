/* SPDX-License-Identifier: Apache-2.0 */
/* write_record.h -- what the log says of a write */
#ifndef CLEAVE_MIDDLETIER_WRITE_WRITE_RECORD_H
#define CLEAVE_MIDDLETIER_WRITE_WRITE_RECORD_H

#include <stdbool.h>

struct engine_job;
struct mt_write;
struct mt_write_state;
struct record_desc;

/* mt_write_fill_tombstone -- of a discard or zero write. */
void mt_write_fill_tombstone(const struct mt_write *write, struct record_desc *record);
/* mt_write_fill_record -- what the engine made of it; a write of nothing but zeros becomes a tombstone, too. */
void mt_write_fill_record(const struct mt_write *write, const struct engine_job *job,
    struct record_desc *record);
/* mt_write_is_needless -- a discard or zero write where nothing is: as good as done, without a record (read/holes.c). */
bool mt_write_is_needless(const struct mt_write_state *state, const struct mt_write *write);

#endif /* CLEAVE_MIDDLETIER_WRITE_WRITE_RECORD_H */
