/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop_sim.c -- see loop_sim.h
 *
 * A heap holds what is to happen: timers, and "turn" entries for loops that have posts or deferred
 * calls. An entry's key is (due, order, rank, sequence), all of them functions of seed and history.
 * A paused loop's entries are keyed at the end of its pause, ranked by when they were due.
 *
 * A loop destroyed from one of its own handlers is halted, unlinked from the heap at once, and freed
 * when its turn is over.
 */
#include "loop_sim.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/loop_internal.h"
#include "base/random.h"
#include "base/timer_heap.h"

#define SIM_WORLD_MAGIC 0x444c5257u /* "WRLD" */
#define SIM_TRACE_TEXT_BYTES 512
#define SIM_PPM 1000000

struct sim_loop {
	struct loop base;      /* first */
	struct loop_link link; /* in world->loops */
	struct sim_world *world;
	char name[SIM_LOOP_NAME_BYTES];
	uint32_t id;
	struct loop_post *posts;     /* newest first; reversed into posts_due at a turn */
	struct loop_post *posts_due; /* oldest first */
	uint64_t paused_until_ns;    /* world time */
	/* The loop's clock reads base_local_ns at base_world_ns and runs drift_ppm faster. */
	uint64_t base_world_ns, base_local_ns;
	int32_t drift_ppm;
	bool is_turn_queued; /* a turn entry is in the heap */
	bool is_dead;        /* destroyed in its own turn */
};

struct sim_world {
	uint32_t magic;
	uint64_t now_ns;
	struct timer_heap events;
	uint64_t event_sequence;
	uint64_t turn_count;
	uint64_t random_state[4];
	uint64_t shuffle_seed;
	bool is_shuffled;
	bool is_running;
	struct loop_link loops;
	uint32_t loop_id_next;
	struct loop *nature;
	struct sim_loop *current; /* whose turn it is */
	uint64_t trace_hash;
	FILE *trace_file;
};

static struct sim_loop *
sim_loop_of(const struct loop *loop)
{
	CHECK_OBJ(loop, LOOP_MAGIC);
	return NUM_CONTAINER_OF(loop, struct sim_loop, base);
}

/* Traces. */

static void
trace_mix(struct sim_world *world, uint64_t word)
{
	world->trace_hash = num_mix_u64((world->trace_hash ^ word) + 0x9e3779b97f4a7c15u);
}

static void
trace_event(struct sim_world *world, const char *kind, uint64_t sequence)
{
	const struct sim_loop *self = world->current;

	assert(world->is_running);
	assert(self != NULL); /* only what runs in a turn is traced so */
	trace_mix(world, world->now_ns);
	trace_mix(world, ((uint64_t)kind[0] << 32) | self->id);
	trace_mix(world, sequence);
	if (world->trace_file != NULL)
		fprintf(world->trace_file, "%llu %s %s %llu\n", (unsigned long long)world->now_ns,
		    self->name, kind, (unsigned long long)sequence);
}

void
sim_world_trace(struct sim_world *world, const char *format, ...)
{
	char text[SIM_TRACE_TEXT_BYTES] = { 0 };
	va_list args;

	assert(format != NULL);
	CHECK_OBJ(world, SIM_WORLD_MAGIC);
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args); /* cut where it is too long */
	va_end(args);

	trace_mix(world, world->now_ns);
	trace_mix(world, world->current != NULL ? world->current->id : UINT32_MAX);
	for (size_t i = 0, bytes = strlen(text); i < bytes; i += sizeof(uint64_t))
		trace_mix(world, num_get_le64(text + i));
	if (world->trace_file != NULL)
		fprintf(world->trace_file, "%llu %s %s\n", (unsigned long long)world->now_ns,
		    world->current != NULL ? world->current->name : "-", text);
}

uint64_t
sim_world_trace_hash(const struct sim_world *world)
{
	CHECK_OBJ(world, SIM_WORLD_MAGIC);
	return world->trace_hash;
}

void
sim_world_set_trace_file(struct sim_world *world, FILE *file)
{
	CHECK_OBJ(world, SIM_WORLD_MAGIC);
	world->trace_file = file;
}

/* Clocks. */

static uint64_t
saturating_add(uint64_t a, uint64_t b)
{
	return a < UINT64_MAX - b ? a + b : UINT64_MAX;
}

static uint64_t
local_now_ns(const struct sim_loop *self)
{
	unsigned __int128 elapsed_ns = self->world->now_ns - self->base_world_ns;

	assert(self->world->now_ns >= self->base_world_ns);
	assert(self->drift_ppm > -SIM_PPM);
	return self->base_local_ns +
	    (uint64_t)(elapsed_ns * (unsigned)(SIM_PPM + self->drift_ppm) / SIM_PPM);
}

/* The first world time at which the loop's own clock has reached @local_ns. */
static uint64_t
world_time_of(const struct sim_loop *self, uint64_t local_ns)
{
	unsigned rate = (unsigned)(SIM_PPM + self->drift_ppm);
	unsigned __int128 elapsed_ns;

	assert(self->drift_ppm > -SIM_PPM);
	assert(rate > 0);
	if (local_ns <= self->base_local_ns)
		return self->base_world_ns;
	if (local_ns == UINT64_MAX)
		return UINT64_MAX;
	elapsed_ns = ((unsigned __int128)(local_ns - self->base_local_ns) * SIM_PPM + rate - 1) /
	    rate;
	if (elapsed_ns > UINT64_MAX)
		return UINT64_MAX;
	return saturating_add(self->base_world_ns, (uint64_t)elapsed_ns);
}

/* Events. */

static void
event_set_keys(struct sim_loop *self, struct timer_entry *entry)
{
	struct sim_world *world = self->world;

	assert(entry->loop == &self->base);
	if (entry->timer != NULL)
		entry->rank_ns = world_time_of(self, entry->timer->due_ns);
	entry->due_ns = num_max(num_max(entry->rank_ns, self->paused_until_ns), world->now_ns);
	entry->order = 0;
	/* The same value for all that a loop has due at one time: its own order stays as it is. */
	if (world->is_shuffled)
		entry->order = num_mix_u64(
		    world->shuffle_seed ^ num_mix_u64(entry->due_ns + ((uint64_t)self->id << 40)));
}

static void
event_push(struct sim_loop *self, struct loop_timer *timer)
{
	struct sim_world *world = self->world;
	struct timer_entry entry = {
		.rank_ns = world->now_ns,
		.sequence = world->event_sequence++,
		.loop = &self->base,
		.timer = timer,
	};

	assert(timer == NULL || !timer->is_active);
	assert(!self->is_dead);
	event_set_keys(self, &entry);
	timer_heap_push(&world->events, &entry);
}

/* After a change of @self's clock or pause. */
static void
events_rekey(struct sim_loop *self)
{
	struct timer_heap *heap = &self->world->events;

	assert(!self->is_dead);
	for (uint32_t i = 0; i < heap->count; i++) {
		if (heap->entries[i].loop == &self->base)
			event_set_keys(self, &heap->entries[i]);
	}
	timer_heap_rebuild(heap);
}

static void
turn_request(struct sim_loop *self)
{
	/* The end of a turn looks for itself whether anything is left. */
	if (self->is_dead || self->is_turn_queued || self->world->current == self)
		return;
	self->is_turn_queued = true;
	event_push(self, NULL);
}

static uint64_t
sim_now_ns(struct loop *loop)
{
	return local_now_ns(sim_loop_of(loop));
}

static void
sim_timer_start(struct loop *loop, struct loop_timer *timer, uint64_t delay_ns)
{
	struct sim_loop *self = sim_loop_of(loop);

	if (self->is_dead)
		return;
	timer->due_ns = saturating_add(local_now_ns(self), delay_ns);
	assert(timer->due_ns >= delay_ns);
	timer->sequence = self->world->event_sequence;
	assert(!timer->is_active);
	event_push(self, timer);
}

static void
sim_timer_stop(struct loop *loop, struct loop_timer *timer)
{
	struct sim_loop *self = sim_loop_of(loop);

	if (!self->is_dead)
		timer_heap_remove(&self->world->events, timer);
}

static int
sim_fd_start(struct loop *loop, struct loop_fd *watcher)
{
	(void)loop;
	(void)watcher;
	return -ENOTSUP;
}

static void
sim_post(struct loop *loop, struct loop_post *post)
{
	struct sim_loop *self = sim_loop_of(loop);

	assert(post->fn != NULL && post != self->posts);
	if (self->is_dead)
		return;
	post->next = self->posts;
	self->posts = post;
	turn_request(self);
}

static void
sim_wake(struct loop *loop)
{
	turn_request(sim_loop_of(loop));
}

/* Turns. */

static void
on_task_run(struct loop *loop)
{
	struct sim_world *world = sim_loop_of(loop)->world;

	assert(world->current == sim_loop_of(loop));
	trace_event(world, "task", world->event_sequence++);
}

static void
posts_run(struct sim_loop *self)
{
	assert(self->world->current == self);
	if (self->posts_due == NULL) {
		self->posts_due = loop_post_reverse(self->posts);
		self->posts = NULL;
	}
	while (self->posts_due != NULL && !self->base.is_halted) {
		struct loop_post *post = self->posts_due;

		self->posts_due = post->next;
		trace_event(self->world, "post", self->world->event_sequence++);
		post->fn(post, post->arg);
	}
}

static void
event_run(struct sim_loop *self, const struct timer_entry *entry)
{
	assert(entry->loop == &self->base && entry->due_ns == self->world->now_ns);
	assert(self->world->current == self);
	if (entry->timer == NULL) {
		self->is_turn_queued = false;
		return;
	}
	trace_event(self->world, "timer", entry->sequence);
	entry->timer->fn(entry->timer, entry->timer->arg);
}

static void
turn_run(struct sim_world *world)
{
	/* Timers started from here on belong to the next turn: a zero delay never spins. */
	uint64_t sequence_end = world->event_sequence;
	const struct timer_entry *first = timer_heap_first(&world->events);
	struct sim_loop *self = sim_loop_of(first->loop);
	struct timer_entry entry;

	assert(world->current == NULL && first->due_ns >= world->now_ns);
	world->now_ns = first->due_ns;
	world->current = self;
	world->turn_count++;
	self->base.is_running = true;
	do {
		(void)timer_heap_pop(&world->events, &entry); /* not empty */
		event_run(self, &entry);
		first = timer_heap_first(&world->events);
	} while (first != NULL && !self->base.is_halted && first->loop == &self->base &&
	    first->due_ns == world->now_ns && first->sequence < sequence_end);
	posts_run(self);
	(void)loop_tasks_run(&self->base, on_task_run);
	loop_turn_ends_run(&self->base);
	self->base.is_running = false;
	world->current = NULL;
	if (self->is_dead) {
		free(self);
		return;
	}
	/* Halted by a pause, the rest of the turn comes when that has ended. */
	if (self->base.is_halted || !list_is_empty(&self->base.tasks) || self->posts != NULL ||
	    self->posts_due != NULL)
		turn_request(self);
	self->base.is_halted = false;
}

/* @stop: also end when this loop was stopped; NULL: none. */
static int
world_run(struct sim_world *world, struct sim_loop *stop, bool (*until)(void *arg), void *arg,
    uint64_t deadline_ns)
{
	assert(stop == NULL || stop->world == world);
	CHECK_OBJ(world, SIM_WORLD_MAGIC);
	if (world->is_running)
		return -EBUSY;
	for (;;) {
		const struct timer_entry *first = timer_heap_first(&world->events);

		if (stop != NULL && stop->base.is_stopping)
			return 0;
		if (until != NULL && until(arg))
			return 0;
		/* @until may have started or stopped something. */
		first = timer_heap_first(&world->events);
		if (first == NULL || first->due_ns == SIM_FOR_EVER)
			return -EDEADLK;
		if (first->due_ns > deadline_ns) {
			world->now_ns = num_max(world->now_ns, deadline_ns);
			return -ETIME;
		}
		world->is_running = true;
		turn_run(world);
		world->is_running = false;
	}
}

static int
sim_run(struct loop *loop, bool (*until)(void *arg), void *arg)
{
	struct sim_loop *self = sim_loop_of(loop);

	assert(!self->is_dead);
	return world_run(self->world, self, until, arg, SIM_FOR_EVER);
}

int
sim_world_run(struct sim_world *world, bool (*until)(void *arg), void *arg, uint64_t deadline_ns)
{
	CHECK_OBJ(world, SIM_WORLD_MAGIC);
	return world_run(world, NULL, until, arg, deadline_ns);
}

/* Making and unmaking. */

static void
sim_destroy(struct loop *loop)
{
	struct sim_loop *self = sim_loop_of(loop);
	struct sim_world *world = self->world;

	assert(world->loop_id_next > self->id);
	if (self->is_dead)
		return;
	timer_heap_drop_loop(&world->events, loop);
	list_remove(&self->link);
	list_init(&loop->tasks);
	self->posts = self->posts_due = NULL;
	self->is_dead = true;
	loop->is_halted = true;
	/* From its own handler: turn_run frees it. */
	if (world->current != self)
		free(self);
}

static const struct loop_ops loop_sim_ops = {
	.name = "sim",
	.destroy = sim_destroy,
	.now_ns = sim_now_ns,
	.now_fresh_ns = sim_now_ns,
	.now_boot_ns = sim_now_ns,
	.timer_start = sim_timer_start,
	.timer_stop = sim_timer_stop,
	.fd_start = sim_fd_start,
	.post = sim_post,
	.wake = sim_wake,
	.run = sim_run,
};

struct loop *
sim_loop_create(struct sim_world *world, const char *name)
{
	struct sim_loop *self = calloc(1, sizeof(*self));

	assert(world->loop_id_next < UINT32_MAX);
	CHECK_OBJ(world, SIM_WORLD_MAGIC);
	assert(name[0] != '\0');
	if (self == NULL)
		return NULL;
	loop_base_init(&self->base, &loop_sim_ops, random_u64(world->random_state));
	self->world = world;
	self->id = world->loop_id_next++;
	(void)snprintf(self->name, sizeof(self->name), "%s", name); /* cut where too long */
	self->base_world_ns = self->base_local_ns = world->now_ns;
	list_push_back(&world->loops, &self->link);
	return &self->base;
}

struct sim_world *
sim_world_create(uint64_t seed)
{
	struct sim_world *world = calloc(1, sizeof(*world));
	int rc;

	if (world == NULL)
		return NULL;
	world->magic = SIM_WORLD_MAGIC;
	world->now_ns = SIM_WORLD_START_NS;
	list_init(&world->loops);
	random_seed(world->random_state, seed);
	world->shuffle_seed = random_u64(world->random_state);
	rc = timer_heap_init(&world->events);
	if (rc != 0)
		goto err_free;
	world->nature = sim_loop_create(world, "nature");
	if (world->nature == NULL) {
		rc = -ENOMEM;
		goto err_fini_events;
	}
	return world;

err_fini_events:
	timer_heap_fini(&world->events);
err_free:
	free(world);
	errno = -rc;
	return NULL;
}

void
sim_world_destroy(struct sim_world *world)
{
	struct loop_link *link;

	if (world == NULL)
		return;
	CHECK_OBJ(world, SIM_WORLD_MAGIC);
	assert(!world->is_running);
	/* At once: the timers of any of them may lie in memory that is gone. */
	world->events.count = 0;
	while ((link = list_first(&world->loops)) != NULL)
		sim_destroy(&LIST_ENTRY(link, struct sim_loop, link)->base);
	timer_heap_fini(&world->events);
	world->magic = 0;
	free(world);
}

struct loop *
sim_world_nature(struct sim_world *world)
{
	CHECK_OBJ(world, SIM_WORLD_MAGIC);
	return world->nature;
}

uint64_t
sim_world_now_ns(const struct sim_world *world)
{
	assert(world->now_ns >= SIM_WORLD_START_NS);
	CHECK_OBJ(world, SIM_WORLD_MAGIC);
	return world->now_ns;
}

uint64_t
sim_world_random_below(struct sim_world *world, uint64_t limit)
{
	assert(limit > 0);
	CHECK_OBJ(world, SIM_WORLD_MAGIC);
	return random_below(world->random_state, limit);
}

uint64_t
sim_world_event_count(const struct sim_world *world)
{
	assert(world->turn_count <= world->event_sequence);
	CHECK_OBJ(world, SIM_WORLD_MAGIC);
	return world->turn_count;
}

const char *
sim_world_running(const struct sim_world *world)
{
	CHECK_OBJ(world, SIM_WORLD_MAGIC);
	return world->current != NULL ? world->current->name : "-";
}

void
sim_world_set_shuffle(struct sim_world *world, bool is_on)
{
	CHECK_OBJ(world, SIM_WORLD_MAGIC);
	world->is_shuffled = is_on;
}

void
sim_loop_set_skew(struct loop *loop, uint64_t offset_ns, int32_t drift_ppm)
{
	struct sim_loop *self = sim_loop_of(loop);

	assert(!self->is_dead);
	assert(drift_ppm > -SIM_PPM);
	self->base_local_ns = local_now_ns(self) + offset_ns;
	self->base_world_ns = self->world->now_ns;
	self->drift_ppm = drift_ppm;
	events_rekey(self);
}

void
sim_loop_pause(struct loop *loop, uint64_t duration_ns)
{
	struct sim_loop *self = sim_loop_of(loop);

	if (self->is_dead)
		return;
	self->paused_until_ns = saturating_add(self->world->now_ns, duration_ns);
	if (self->world->current == self)
		loop->is_halted = duration_ns > 0;
	events_rekey(self);
}

uint32_t
sim_loop_id(const struct loop *loop)
{
	return sim_loop_of(loop)->id;
}

const char *
sim_loop_name(const struct loop *loop)
{
	assert(sim_loop_of(loop)->name[0] != '\0');
	return sim_loop_of(loop)->name;
}

struct sim_world *
sim_loop_world(const struct loop *loop)
{
	assert(sim_loop_of(loop)->world->magic == SIM_WORLD_MAGIC);
	return sim_loop_of(loop)->world;
}
