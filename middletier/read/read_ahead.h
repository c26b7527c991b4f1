/* SPDX-License-Identifier: Apache-2.0 */
/* read_ahead.h -- which frames are kept, and filled ahead, for a client that reads them piece by piece */
#ifndef CLEAVE_MIDDLETIER_READ_READ_AHEAD_H
#define CLEAVE_MIDDLETIER_READ_READ_AHEAD_H

#include <stdbool.h>

struct mt_read;
struct read_frame;
struct read_stretch;

/*
 * mt_read_ahead -- a frame that holds @stretch of @read, or will
 *
 * READY: load it from there, at once. FILLING: wait for it. NULL: there is none, and there should be none. A read that goes
 * on where the one before it ended, and wants a part of a frame, has that filled, and the next ones when it comes to the
 * last that is kept.
 */
struct read_frame *mt_read_ahead(const struct read_stretch *stretch, const struct mt_read *read);
/*
 * mt_read_warm -- @stretch, as it was looked up just now, is decompressed for @read alone, and came with a reply for more
 *
 * @is_first: of those that the reply was for.
 */
void mt_read_warm(const struct read_stretch *stretch, const struct mt_read *read, bool is_first);

#endif /* CLEAVE_MIDDLETIER_READ_READ_AHEAD_H */
