/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.h -- lines of the log that are kept: what happened, to what, and when, for `cleave events`
 *
 * A gateway keeps its last MT_EVENTS_MAX warnings and errors, and as many of the others, so that who opens and closes
 * volumes in a loop pushes no lost node out. It counts all by code. Main and every port add: there is a lock, which is
 * held for a copy, and events are rare: nothing on the data path is one.
 */
#ifndef CLEAVE_MIDDLETIER_COMMON_EVENT_H
#define CLEAVE_MIDDLETIER_COMMON_EVENT_H

#include <stdint.h>

#include "cleave/event.h"

#define MT_EVENTS_MAX 512u /* of each kind */
#define MT_EVENTS_KINDS 2u
#define MT_EVENT_OBJECT_BYTES 64u
#define MT_EVENT_TEXT_BYTES 256u
#define MT_EVENT_WHO_BYTES 64u

struct mt_events;

struct mt_event {
	uint64_t number;  /* from 1 on, in order; some in between may be gone before others */
	uint64_t at_ns;   /* by the loops' clock */
	uint64_t wall_ms; /* by the clock on the wall, since 1970: for people */
	enum cleave_event_code code;
	char object[MT_EVENT_OBJECT_BYTES]; /* "node 3", "shard 5", "volume disk1" */
	char text[MT_EVENT_TEXT_BYTES];     /* the line, cut if it is longer */
	/* An act of a person or a client: its own name, and the address that it came from; "": not told, or no act. */
	char by[MT_EVENT_WHO_BYTES], from[MT_EVENT_WHO_BYTES];
};

/* mt_event_who -- on whose behalf something was done */
struct mt_event_who {
	const char *by; /* its own name for itself: "cleave[1234]@host"; "": it does not say */
	const char *from;
};

/* mt_events_create -- none yet. NULL: out of memory. */
struct mt_events *mt_events_create(void);
/* mt_events_destroy -- nobody adds any more; NULL is a no-op. */
void mt_events_destroy(struct mt_events *events);
/*
 * mt_event -- log a line at the level of @code, and keep it
 *
 * @events: NULL: it is only logged. @object is copied. @format: as log_info's.
 * Threads: any.
 */
void mt_event(struct mt_events *events, uint64_t now_ns, enum cleave_event_code code,
    const char *object, const char *format, ...) __attribute__((format(printf, 5, 6)));
/* mt_event_by -- mt_event of an act: by="NAME", where it is told, and from=ADDRESS end the line. @who NULL: nobody's. */
void mt_event_by(struct mt_events *events, uint64_t now_ns, enum cleave_event_code code,
    const char *object, const struct mt_event_who *who, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
#define MT_EVENT_WHO_TEXT_BYTES (2 * MT_EVENT_WHO_BYTES + 16)
/* mt_event_who_text -- "by=\"NAME\" from=ADDRESS", as such a line ends */
const char *mt_event_who_text(const struct mt_event_who *who,
    char ret_text[MT_EVENT_WHO_TEXT_BYTES]);
/* mt_event_of -- mt_event of a "NOUN NUMBER". mt_shard_event -- of a shard, on its port's thread. */
#define mt_event_of(events, now_ns, code, noun, number, ...)                                       \
	mt_event((events), (now_ns), (code),                                                       \
	    mt_event_object((char[MT_EVENT_OBJECT_BYTES]){ 0 }, (noun), (number)), __VA_ARGS__)
#define mt_shard_event(shard, code, ...)                                                           \
	mt_event_of((shard)->port->shared->events, loop_now_ns((shard)->port->loop), (code),       \
	    "shard", (shard)->index, __VA_ARGS__)
/* mt_event_object -- "NOUN NUMBER" into @ret_text, which is returned. */
const char *mt_event_object(char ret_text[MT_EVENT_OBJECT_BYTES], const char *noun,
    uint64_t number);
/* mt_events_read -- up to @max of those behind number @after that are still kept, oldest first. Returns how many. */
uint32_t mt_events_read(struct mt_events *events, uint64_t after, struct mt_event *ret_events,
    uint32_t max);
/* mt_events_count -- how many of @code there were since the gateway has run. */
uint64_t mt_events_count(struct mt_events *events, enum cleave_event_code code);

#endif /* CLEAVE_MIDDLETIER_COMMON_EVENT_H */
