/* SPDX-License-Identifier: Apache-2.0 */
/*
 * read_hot.h -- which blocks of a read come from the table of hot blocks (hot.h), and which go there
 *
 * Reads of up to READ_HOT_BLOCKS_MAX blocks take part; longer ones cost little a block. What a node was asked for is
 * counted when it is loaded, and what was found when it is taken, so that a block is counted once a read. Reads that
 * go on where the one before them ended take what is there, and are not counted: a scan makes nothing hot.
 */
#ifndef CLEAVE_MIDDLETIER_READ_READ_HOT_H
#define CLEAVE_MIDDLETIER_READ_READ_HOT_H

#include <stdbool.h>

struct read_piece;

#define READ_HOT_BLOCKS_MAX 4u

/*
 * mt_read_hot_take -- CHOOSING, STORED: make the piece's job the LOAD of the first block of its stretch from the table
 *
 * Returns false where not all blocks of the stretch are there: a node must be asked anyway. True: the stretch is that
 * block alone, and piece->hot is held.
 */
bool mt_read_hot_take(struct read_piece *piece);
/* mt_read_hot_spoil -- piece->hot, which is held: its memory did not match. */
void mt_read_hot_spoil(struct read_piece *piece);

/*
 * mt_read_hot_keep -- CHOOSING: the piece's stretch has just been loaded from a node's answer: what is hot of it is copied
 *
 * Returns false: that is done. True: a thread is at it, and the piece is KEEPING until the job has ended: then
 * mt_read_hot_kept, which is CHOOSING again, and says the same.
 */
bool mt_read_hot_keep(struct read_piece *piece);
bool mt_read_hot_kept(struct read_piece *piece);

#endif /* CLEAVE_MIDDLETIER_READ_READ_HOT_H */
