/* SPDX-License-Identifier: Apache-2.0 */
/*
 * health.h -- what is wrong, as one gateway sees it: reasons, by the list of cleave/health.h
 *
 * Nothing is kept between two looks: the age of a reason is that of its cause, where that is known.
 */
#ifndef CLEAVE_MIDDLETIER_HEALTH_HEALTH_H
#define CLEAVE_MIDDLETIER_HEALTH_HEALTH_H

#include <inttypes.h>
#include <stdint.h>

#include "base/num.h"
#include "cleave/health.h"
#include "extent/room.h"

struct mt_ask;
struct mt_gateway;

#define MT_HEALTH_REASONS_MAX 128u /* more are counted alone */
#define MT_HEALTH_OBJECT_BYTES 32u
#define MT_HEALTH_TEXT_BYTES 256u

/* Writes that have waited so long are told of as slow; so long, as not served. */
#define MT_HEALTH_SLOW_NS NUM_S(2)
#define MT_HEALTH_WAIT_NS NUM_S(10)
/* Merges that find no copy of some blocks: a chunk is tried again after half a minute. */
#define MT_HEALTH_UNREAD_NS NUM_S(60)
/* A store that has not answered for so long is slow; a link that came to be just now may be on its way. */
#define MT_HEALTH_STORE_NS NUM_S(1)
#define MT_HEALTH_STORE_SLOW_NS                                                                    \
	NUM_MS(300) /* in the 99th percentile: a renewal takes a tenth of a lease */
#define MT_HEALTH_LINK_NS NUM_S(1)
/* A port that has refused a connection so lately is full; its gateway asks it every ten seconds (own_address.c). */
#define MT_HEALTH_FULL_NS NUM_S(15)
/* Clocks on the wall that are apart by so much are told. */
#define MT_HEALTH_CLOCK_MS 1000
/* Slots that are so many times as large as others, or they as these, are told: half of a slot is wasted. */
#define MT_HEALTH_SLOTS_FACTOR 2u
/* Percent of the room for data in use. */
#define MT_HEALTH_ROOM_LOW 85u
#define MT_HEALTH_ROOM_END 95u

struct mt_health_reason {
	enum cleave_health_code code;
	char object[MT_HEALTH_OBJECT_BYTES]; /* "node 3", "gateway 0000000000000001", "cluster" */
	char text[MT_HEALTH_TEXT_BYTES];     /* for people */
	uint64_t age_ns;                     /* it has been so for; 0: not known */
};

struct mt_health {
	enum cleave_health_level level;
	struct mt_health_reason reasons[MT_HEALTH_REASONS_MAX]; /* as they were found */
	uint32_t count, left_out;
	struct mt_room room;
};

/*
 * mt_health_judge -- what is wrong now
 *
 * @ask: a question that had the ports tell their status (MT_ASK_STATUS and others), answered or by mt_ask_so_far.
 * Ownership: borrows both; *@ret_health has no pointers.
 * Errors:    none. What a port had no memory to tell is not judged.
 * Threads:   the main loop's.
 */
void mt_health_judge(const struct mt_gateway *gateway, const struct mt_ask *ask,
    struct mt_health *ret_health);

/* For the files of this folder: */
/* Where another gateway answers: the object, its address, the other one's id. */
#define MT_HEALTH_ADDRESS_TEXT                                                                     \
	"%s tells clients that it is at %s, where gateway %016" PRIx64                             \
	" answers: its advertise= is wrong"
#define MT_HEALTH_TRASH_BYTES 128u
/* mt_health_trash_text -- "" where the trash is empty; else what may be added to a reason that room is short. */
void mt_health_trash_text(const struct mt_gateway *gateway, char ret_text[MT_HEALTH_TRASH_BYTES]);
/*
 * mt_health_clock -- a reason, where the clock on the wall of @object at @address is far from this gateway's
 *
 * @gap_ms: as clock_gap_ms has it.
 */
void mt_health_clock(const struct mt_gateway *gateway, struct mt_health *health, const char *object,
    const char *address, int64_t gap_ms);
/* mt_health_key -- a reason, where the key of @object ends soon, or has; @expires_s as of split_key_expires_s */
void mt_health_key(struct mt_health *health, const char *object, uint64_t expires_s);
/*
 * mt_health_add -- one reason more; or a text more, for one of this code and object: there is one of each
 *
 * Where there is no room an error is told in place of a warning. @age_ns: 0 where it is not known. Bytes that are not UTF-8 are told as question marks.
 */
void mt_health_add(struct mt_health *health, enum cleave_health_code code, const char *object,
    uint64_t age_ns, const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif /* CLEAVE_MIDDLETIER_HEALTH_HEALTH_H */
