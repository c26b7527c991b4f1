/* SPDX-License-Identifier: Apache-2.0 */
/* unreached.c -- see unreached.h */
#include "cluster/unreached.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "catalog/volume_table.h"

static bool
is_of(const struct mt_unreached_word *word, uint64_t volume_id, const char *by)
{
	return word->node_id != 0 && word->volume_id == volume_id && strcmp(word->by, by) == 0;
}

static bool
is_fresh(const struct mt_unreached_word *word, uint64_t now_ns)
{
	return word->node_id != 0 && now_ns - word->told_ns < MT_UNREACHED_NS;
}

/* The session that wanted to read there does so still. */
static bool
is_wanted(const struct mt_unreached_word *word, const struct mt_volumes *volumes)
{
	const struct mt_volume_entry *entry = mt_volumes_by_id(volumes, word->volume_id);

	return entry != NULL && entry->volume.attach == word->attach &&
	    entry->volume.session_id != 0 && entry->volume.reads == MT_READS_DIRECT;
}

const struct mt_unreached_word *
mt_unreached_find(const struct mt_unreached *unreached, const struct mt_volumes *volumes,
    uint32_t node_id, const char *address, uint64_t now_ns)
{
	assert(node_id != 0);
	for (uint32_t i = 0; i < MT_UNREACHED_MAX; i++) {
		const struct mt_unreached_word *word = &unreached->words[i];

		if (word->node_id == node_id && is_fresh(word, now_ns) &&
		    strcmp(word->address, address) == 0 && is_wanted(word, volumes))
			return word;
	}
	return NULL;
}

void
mt_unreached_begin(struct mt_unreached *unreached, uint64_t volume_id, const char *by)
{
	for (uint32_t i = 0; i < MT_UNREACHED_MAX; i++) {
		if (is_of(&unreached->words[i], volume_id, by))
			unreached->words[i].is_repeated = false;
	}
}

void
mt_unreached_end(struct mt_unreached *unreached, uint64_t volume_id, const char *by)
{
	for (uint32_t i = 0; i < MT_UNREACHED_MAX; i++) {
		struct mt_unreached_word *word = &unreached->words[i];

		if (is_of(word, volume_id, by) && !word->is_repeated)
			*word = (struct mt_unreached_word){ .node_id = 0 };
	}
}

/* The word that @word says again, or the place that it gets: a free one, or the oldest. */
static struct mt_unreached_word *
place_of(struct mt_unreached *unreached, const struct mt_unreached_word *word)
{
	struct mt_unreached_word *place = &unreached->words[0];

	for (uint32_t i = 0; i < MT_UNREACHED_MAX; i++) {
		struct mt_unreached_word *known = &unreached->words[i];

		if (known->node_id == word->node_id && is_of(known, word->volume_id, word->by))
			return known;
		if (known->told_ns < place->told_ns)
			place = known;
	}
	return place;
}

int
mt_unreached_note(struct mt_unreached *unreached, const struct mt_unreached_word *word,
    uint64_t now_ns)
{
	struct mt_unreached_word *place = place_of(unreached, word);
	uint64_t first_ns = now_ns;
	bool is_news = true;

	assert(word->node_id != 0);
	for (uint32_t i = 0; i < MT_UNREACHED_MAX; i++) {
		const struct mt_unreached_word *known = &unreached->words[i];

		if (known->node_id != word->node_id || !is_fresh(known, now_ns))
			continue;
		is_news = false;
		first_ns = num_min(first_ns, known->first_ns);
	}
	*place = *word;
	place->told_ns = now_ns;
	place->first_ns = first_ns;
	place->is_repeated = true;
	return is_news;
}
