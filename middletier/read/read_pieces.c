/* SPDX-License-Identifier: Apache-2.0 */
/* read_pieces.c -- see read_pieces.h; read_piece.c is what each of them does */
#include "read/read_pieces.h"

#include <errno.h>

#include "base/check.h"
#include "base/list.h"
#include "base/sm.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "common/alloc.h"
#include "read/read_path.h"
#include "read/read_piece.h"

static const struct sm_state read_piece_table[READ_PIECE_STATE_NR] = {
	[READ_PIECE_FREE] = { "free", SM_TO(READ_PIECE_CHOOSING), SM_INITIAL },
	[READ_PIECE_CHOOSING] = { "choosing",
	    SM_TO(READ_PIECE_ASKING) | SM_TO(READ_PIECE_LOADING) | SM_TO(READ_PIECE_WAITING) |
		SM_TO(READ_PIECE_INDEXING) | SM_TO(READ_PIECE_FILLING) | SM_TO(READ_PIECE_KEEPING) |
		SM_TO(READ_PIECE_FREE),
	    0 },
	[READ_PIECE_FILLING] = { "filling", SM_TO(READ_PIECE_CHOOSING), 0 },
	[READ_PIECE_INDEXING] = { "indexing", SM_TO(READ_PIECE_CHOOSING), 0 },
	[READ_PIECE_ASKING] = { "asking", SM_TO(READ_PIECE_CHOOSING), 0 },
	[READ_PIECE_LOADING] = { "loading", SM_TO(READ_PIECE_CHOOSING), 0 },
	[READ_PIECE_KEEPING] = { "keeping", SM_TO(READ_PIECE_CHOOSING), 0 },
	[READ_PIECE_WAITING] = { "waiting", SM_TO(READ_PIECE_CHOOSING), 0 },
};

int
mt_read_pieces_init(struct mt_read_state *state)
{
	assert(state->pieces == NULL);
	list_init(&state->free_pieces);
	list_init(&state->waiting);
	state->pieces = mt_calloc(READ_PIECES_MAX, sizeof(*state->pieces));
	if (state->pieces == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < READ_PIECES_MAX; i++) {
		struct read_piece *piece = &state->pieces[i];

		piece->magic = READ_PIECE_MAGIC;
		piece->state = state;
		piece->job.fn = mt_read_piece_on_job;
		piece->job.arg = piece;
		sm_init(&piece->sm, "read_piece", read_piece_table, READ_PIECE_FREE, i);
		list_push_back(&state->free_pieces, &piece->link);
	}
	return 0;
}

void
mt_read_pieces_fini(struct mt_read_state *state)
{
	mt_free(state->pieces);
	state->pieces = NULL;
}

void
mt_read_pieces_retry(struct mt_read_state *state)
{
	struct loop_link waiting;
	struct loop_link *link;

	/* A list of their own: a piece that has to wait again is not looked at twice. */
	list_init(&waiting);
	while ((link = list_pop_front(&state->waiting)) != NULL)
		list_push_back(&waiting, link);
	while ((link = list_pop_front(&waiting)) != NULL) {
		struct read_piece *piece = LIST_ENTRY(link, struct read_piece, link);

		CHECK_OBJ(piece, READ_PIECE_MAGIC);
		assert(piece->sm.state == READ_PIECE_WAITING);
		sm_move(&piece->sm, READ_PIECE_CHOOSING);
		mt_read_piece_choose(piece);
	}
}
