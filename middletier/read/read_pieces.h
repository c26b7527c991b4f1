/* SPDX-License-Identifier: Apache-2.0 */
/* read_pieces.h -- a port's pieces: made at its start, and those that wait */
#ifndef CLEAVE_MIDDLETIER_READ_READ_PIECES_H
#define CLEAVE_MIDDLETIER_READ_READ_PIECES_H

struct mt_read_state;

/* mt_read_pieces_init -- READ_PIECES_MAX of them, all FREE. Returns 0; -ENOMEM: there are none. */
int mt_read_pieces_init(struct mt_read_state *state);
/* mt_read_pieces_fini -- frees them, whatever their state; none there is a no-op. */
void mt_read_pieces_fini(struct mt_read_state *state);
/* mt_read_pieces_retry -- each piece that waits for a node, or for room in an engine's queue, tries again. */
void mt_read_pieces_retry(struct mt_read_state *state);

#endif /* CLEAVE_MIDDLETIER_READ_READ_PIECES_H */
