/* SPDX-License-Identifier: Apache-2.0 */
/* read_piece_index.h -- a piece of a read waits for the index of a run */
#ifndef CLEAVE_MIDDLETIER_READ_READ_PIECE_INDEX_H
#define CLEAVE_MIDDLETIER_READ_READ_PIECE_INDEX_H

struct read_piece;

/* mt_read_piece_load_index -- INDEXING: its stretch is looked up again once the index of its run, or a page, is here. */
void mt_read_piece_load_index(struct read_piece *piece);

#endif /* CLEAVE_MIDDLETIER_READ_READ_PIECE_INDEX_H */
