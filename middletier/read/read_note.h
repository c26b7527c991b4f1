/* SPDX-License-Identifier: Apache-2.0 */
/* read_note.h -- what is said, and counted, of a read whose record could not be loaded */
#ifndef CLEAVE_MIDDLETIER_READ_READ_NOTE_H
#define CLEAVE_MIDDLETIER_READ_READ_NOTE_H

struct read_piece;

/* mt_read_note_bad_copy -- the copy that @piece asked last is bad, as @rc says: another is read, and it will be verified. */
void mt_read_note_bad_copy(struct read_piece *piece, int rc);
/* mt_read_note_no_key -- the data key of @piece's record is not here: nothing is said of any copy. */
void mt_read_note_no_key(const struct read_piece *piece);

#endif /* CLEAVE_MIDDLETIER_READ_READ_NOTE_H */
