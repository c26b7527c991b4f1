/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mutants.c -- does the simulator find bugs that such systems had?
 *
 * This program holds the daemons' code with all of mutant.h compiled in, and switches on one of them,
 * or two that are two layers of the same safety. It runs seeds 1, 2, 3 ... with it until a checker, or
 * an assertion of the daemons, fails: the simulator has found it.
 *
 *	sim_mutants search [--seeds N] [--jobs N] [ROW...]   a table line for each, to standard output
 *	sim_mutants replay FILE [--jobs N]                   each line's seed finds its mutant, and
 *	                                                     passes without: once, and where no test of
 *	                                                     the seeds themselves says so
 *	sim_mutants list
 *
 * A table line has: mutant, its first finding seed ("-": none), and who found it. What ends in "@etcd" is found
 * in seeds on an etcd alone (run.h), as are the mutants of its code.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/config_value.h"
#include "base/mutant.h"
#include "base/num.h"
#include "encrypted.h"
#include "grouper.h"
#include "leases.h"
#include "peeker.h"
#include "run.h"
#include "thief.h"
#include "trasher.h"

#define SEEDS_DEFAULT 2000u
#define JOBS_MAX 64u
#define ROWS_MAX 128u
#define REPLAY_SLACK 30u
#define SEEDS_TESTED                                                                               \
	100u /* by sim.seeds_1 and _2, which run wherever this does (tests/CMakeLists.txt) */
#define TEXT_BYTES (SIM_RUN_TEXT_BYTES + 600u)

#define ON_ETCD "@etcd"

struct mutant_set mutants_on;

static const struct {
	const char *name, *text;
} mutants[MUTANT_NR] = {
#define MUTANT_INFO(name, text) { #name, text },
	MUTANT_LIST(MUTANT_INFO)
#undef MUTANT_INFO
};

/* A safety layer off, and a bug in, or the loss of, the other. */
static const char *const pairs[] = {
	"epoch_ignored+lease_ignored",
	"epoch_ignored+lease_from_answer",
	"lease_ignored+fence_forgotten",
	"gone_admitted+session_drop_skipped",
	"throttle_ignored+pace_ignored",
	/* No pair: by another way than in memory. */
	"lease_from_answer@etcd",
};

/* In code that runs with an etcd alone. */
static const char *const of_etcd[] = { "expiry_without_compare", "watch_gap_ignored",
	"generation_ignored" };

/* In code that runs while storage nodes come and go. */
static const char *const of_members[] = { "removed_unasked", "removed_taken_back",
	"nodes_imported_twice", "draining_taken", "drain_uncompared" };

/* In code that runs while shards are shared out by load. */
static const char *const of_balance[] = { "relief_restless", "relief_keeps" };

/* In code that judges who has a key. */
static const char *const of_keys[] = { "verdict_ignored", "accept_role_ignored",
	"connect_role_ignored", "number_ignored", "plain_believed", "claim_unasked",
	"right_unasked", "session_right_unasked", "session_kept" };

/* In code that deletes volumes and restores them. */
static const char *const of_trash[] = { "trash_early", "trash_name", "trash_forgotten" };

/* In code that takes snapshots of several volumes together. */
static const char *const of_groups[] = { "group_held_apart", "group_in_part" };

/* In code that encrypts. */
static const char *const of_encrypted[] = { "salt_not_drawn", "place_not_bound", "crcs_kept",
	"counter_kept", "merge_stores_plain", "key_missing_is_bad" };

/* In code that keeps hot blocks. */
static const char *const of_hot[] = { "hot_place_unchecked" };

/* In code that executes recipes. */
static const char *const of_recipes[] = { "part_unverified", "recipe_trusted" };

/* In code that takes what another gateway says for granted. */
static const char *const of_offload[] = { "told_short", "garbage_believed" };

/* In code that takes heads of batches from memory. */
static const char *const of_mirrors[] = { "mirror_unchecked" };

/* In code that waits for read leases, counts them, and goes by them. */
static const char *const of_leases[] = { "read_lease_unwaited", "read_lease_outlives_claim",
	"fence_unwaited", "map_log_ignored", "map_dirty_ignored", "map_cleared_under_write",
	"map_epoch_ignored", "reads_unfenced", "direct_lease_unjudged" };

/* In code that believes tickets. */
static const char *const of_tickets[] = { "ticket_unchecked", "fence_volume_ignored" };

/* In code that waits for what was given up. */
static const char *const of_haste[] = { "debt_ignored" };
/* In code that lets clients read hot blocks by themselves. */
static const char *const of_peeks[] = { "hot_not_hidden", "hot_shown_stale", "hot_page_unwiped",
	"hot_torn_accepted", "hot_name_ignored", "hot_lease_unjudged", "hot_kept_shown",
	"hot_change_ignored" };

/* In code that looks for changes of the session's own meanwhile. */
static const char *const of_changes[] = { "hot_change_ignored" };

#define NAMES(list) list, NUM_COUNT(list)

/* Code that runs in some seeds alone: the others are passed over. */
static const struct kind {
	const char *const *names;
	uint32_t name_count;
	bool (*is_in)(uint64_t seed);
} kinds[] = {
	{ NAMES(of_etcd), sim_run_is_on_etcd },
	{ NAMES(of_members), sim_run_has_members },
	{ NAMES(of_balance), sim_run_has_balance },
	{ NAMES(of_trash), sim_trasher_is_in },
	{ NAMES(of_keys), sim_run_has_keys },
	{ NAMES(of_groups), sim_grouper_is_in },
	{ NAMES(of_encrypted), sim_encrypted_is_in },
	{ NAMES(of_hot), sim_run_has_hot_blocks },
	{ NAMES(of_leases), sim_leases_is_in },
	{ NAMES(of_tickets), sim_thief_is_in },
	{ NAMES(of_recipes), sim_run_has_recipes },
	{ NAMES(of_haste), sim_run_has_haste },
	{ NAMES(of_peeks), sim_peeks_are_in },
	{ NAMES(of_changes), sim_peeks_are_changing },
	{ NAMES(of_offload), sim_run_has_offload },
	{ NAMES(of_mirrors), sim_run_has_mirrors },
};

/* A mutant that must not be found: the other layer alone keeps the promise. */
static const char *const harmless[] = { "throttle_ignored", "pace_ignored", "epoch_ignored",
	"gone_admitted", "maker_ignored", "run_order_ignored" };

/*
 * Mutants that histories cannot show, or hardly: clients keep the order of what overlaps themselves; somebody must
 * come in a moment that no seed has hit; enemies ask for what a node knows to be another's; hosts do not sleep there,
 * and clients say no id; no gateway asks at its own address there, no disk fails writes and no flush, or for a moment
 * all that is asked of it, slots are of one size, no authority's folder is put back, clones are seldom flattened
 * behind flushes of theirs, clients compare CRCs, how much of the nodes all logs take is not looked at, a copy that
 * goes has told of nothing that the others lack, and no disk that failed reads reads again while a node is away, or
 * before the next start, nobody is lent an extent that would change another, who works on after he was given up does no harm
 * but to himself, nobody makes a volume in a store that was set back and not compared yet, nodes that are to store a bad
 * record, which a merge has taken as it came, refuse it, few heads that are in memory as their shard is taken over are an
 * extent's last, hardly ever is one copy all that answers, and short, few gateways reach the store and no node at once, nobody tells another one's address, and a store is set
 * back under gateways that run where that loses nothing. Unit tests have them on (test_share_mutant.c,
 * test_drop.c, test_control_unused.c, test_claim.c, test_lease_mutant.c, test_control_attach.c, test_loss.c,
 * test_own_address.c, test_failing_node.c, test_small_slots.c, test_revoked.c, test_flatten.c, test_find.c, test_hot_blocks.c, test_hot_pages.c,
 * test_log_pool.c, test_agree.c, test_unreadable.c, test_cut.c, test_unread.c,
 * test_control_holder.c, test_control_fence.c, test_client_lease.c, test_peek.c,
 * test_rebuild_lease.c, test_worker.c, test_merge_read.c, test_replay_mirror.c, test_severed.c, test_mirror.c,
 * test_control_unjudged.c).
 */
static const char *const of_units[] = { "share_overtakes", "conflict_forgets", "newcomer_ignored",
	"claim_forgotten", "lease_sleeps", "opened_by_name", "loss_unverified", "address_ignored",
	"failing_ignored", "slots_ignored", "revoked_forgotten", "flatten_above", "find_wrong",
	"hot_hold_ignored", "hot_epoch_ignored", "pool_overlent", "lender_counted",
	"mark_forgotten", "damaged_unasked", "number_unpassed", "unread_left", "fence_unlisted",
	"holder_untold", "read_lease_from_answer", "recover_unwaited", "lent_all", "job_works_on",
	"gather_believed", "mirror_last_believed", "severed_blind", "address_asked_once",
	"backup_mirrored", "store_unjudged", "lone_answer" };

struct search {
	struct mutant_set mutants;
	uint64_t seed_max;
	const char *name;
	atomic_uint_fast64_t next_seed, found_seed; /* UINT64_MAX: none yet */
	struct {
		uint64_t seed;
		char text[TEXT_BYTES];
	} finds[JOBS_MAX]; /* of each worker, its lowest */
};

struct row {
	char name[64];
	uint64_t seed;  /* 0: none */
	bool is_proved; /* that the seed passes without a mutant: elsewhere */
};

struct options {
	uint64_t seed_max, job_count;
};

static const char usage_text[] = "usage: sim_mutants search [--seeds N] [--jobs N] [ROW...]\n"
				 "       sim_mutants replay FILE [--jobs N]\n"
				 "       sim_mutants list\n";

static void __attribute__((noreturn)) usage(const char *what, const char *word)
{
	(void)fprintf(stderr, "sim_mutants: %s%s\n%s", what, word, usage_text);
	exit(2);
}

static void *
shared_alloc(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("sim_mutants: mmap");
		exit(1);
	}
	return memory;
}

/* "a+b": 0, or -EINVAL. */
static int
mutants_parse(const char *name, struct mutant_set *ret_mutants)
{
	struct mutant_set set = { { 0 } };

	if (*name == 0)
		return -EINVAL;
	while (*name != 0) {
		size_t bytes = strcspn(name, "+@");
		uint32_t i = 0;

		while (i < MUTANT_NR &&
		    (strlen(mutants[i].name) != bytes || memcmp(mutants[i].name, name, bytes) != 0))
			i++;
		if (i == MUTANT_NR)
			return -EINVAL;
		mutant_set_add(&set, i);
		name += bytes + (name[bytes] == '+');
		if (strcmp(name, ON_ETCD) == 0)
			break;
	}
	*ret_mutants = set;
	return 0;
}

static bool
is_among(const char *const *names, uint32_t count, const char *name)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static bool
is_harmless(const char *name)
{
	return is_among(NAMES(harmless), name);
}

static bool
is_of_units(const char *name)
{
	return is_among(NAMES(of_units), name);
}

static bool
is_of_kind(const struct kind *kind, const char *name)
{
	return is_among(kind->names, kind->name_count, name) ||
	    (kind->is_in == sim_run_is_on_etcd && strstr(name, ON_ETCD) != NULL);
}

/* Is @seed of all kinds that the row is of? The others cannot find it. */
static bool
is_searched(const char *name, uint64_t seed)
{
	for (uint32_t i = 0; i < NUM_COUNT(kinds); i++)
		if (is_of_kind(&kinds[i], name) && !kinds[i].is_in(seed))
			return false;
	return true;
}

/* Which checker a violation's text comes from. */
static const char *
checker_of(const char *text)
{
	static const struct {
		const char *part, *checker;
	} checkers[] = {
		{ "what deletes at nodes", "a deletion without evidence" },
		{ "its fence of shard", "I6: a fence went back" },
		{ "believes in its lease", "I7: a lease is believed in too long" },
		{ "bytes are acknowledged", "I4: a replica lacks it" },
		{ "failed flush gave up", "I3: a failed flush is believed" },
		{ "no scrub has found", "a scrub passes over rot" },
		{ "counts as whole", "a copy is not what its owner believes" },
		{ "zeros, but", "linearizability: a block is gone" },
		{ "garbage (", "linearizability: garbage" },
		{ "were possible", "linearizability: another block" },
		{ "fenced before", "I11: a fenced session's write" },
		{ "was rolled back", "I11: a fenced session's write" },
		{ "which was given up", "I11: a write that was given up" },
		{ ", but it was ", "a snapshot or clone is not what it was" },
		{ "garbage in a snapshot", "a snapshot or clone is not what it was" },
		{ "had a read lease", "I7: a read lease is not waited for" },
		{ "a page of hot blocks", "a client may read another's block" },
		{ "a map of epoch", "I7: a map is gone by too long" },
		{ "was acknowledged before", "I5: a snapshot is no point in time" },
		{ "was served after", "I11: a fenced session is served" },
		{ "is sealed at", "replicas: lengths differ" },
		{ "differs at", "replicas: bytes differ" },
		{ "of another metadata store", "a node obeys another store" },
		{ "by an old metadata store", "a shard begins by an old store" },
		{ "a lease granted", "a lease is never ended" },
		{ "nobody renews is ended", "a lease is never ended" },
		{ "disk stalled", "a lease is lost to a disk that stalls" },
		{ "is gone before its time", "a volume of the trash is purged early" },
		{ "came back over another", "a volume of the trash comes back over another" },
		{ "came back without", "a volume of the trash comes back without its snapshot" },
		{ "is there in part", "snapshots of one moment are there in part" },
		{ "a second writer was let in", "a second writer" },
		{ "upgraded though", "an upgrade without asking all" },
		{ "is drained, and no other", "a drain that nobody takes" },
		{ "balancer: shard", "a shard moves too soon" },
		{ "limits: ", "more than a limit allows" },
		{ "has no room for all", "a gateway keeps too much" },
		{ "nobody is told", "a node is away, and nobody is told" },
		{ "as if added", "a node is imported twice" },
		{ "nodes were drained until", "too few nodes stay" },
		{ "has left, and", "a node that has left is back" },
		{ "and a manifest names", "a removed node has copies" },
		{ "a reader beside the writer", "an error to a reader" },
		{ "which may have", "a manifest beyond its room" },
		{ "orphan", "orphans" },
		{ "whose right was taken", "a session outlives its right" },
		{ "enemy: ", "an enemy is let in" },
		{ "thief: ", "a ticket of another's is believed" },
		{ "and one salt", "a nonce used twice" },
		{ "encrypted: ", "a disk tells of an encrypted volume" },
		{ "waited in vain", "liveness" },
		{ "timed out", "liveness" },
		{ "CPU time", "liveness" },
		{ ": op ", "an error to the client" },
		{ "Assertion", "an assertion" },
		{ "Aborted", "an assertion" },
		{ "Segmentation", "a crash" },
	};

	for (uint32_t i = 0; i < NUM_COUNT(checkers); i++)
		if (strstr(text, checkers[i].part) != NULL)
			return checkers[i].checker;
	return "other";
}

static int
seed_run(struct mutant_set set, uint64_t seed, char *ret_text)
{
	const struct sim_run_options options = { .seed = seed };

	mutants_on = set;
	return sim_run_seed(&options, NULL, ret_text, TEXT_BYTES);
}

/* Forks @job_count processes that run @fn, and waits for them. */
static void
jobs_run(uint64_t job_count, void (*fn)(void *arg, uint64_t job), void *arg)
{
	int status;

	(void)fflush(NULL);
	for (uint64_t i = 0; i < job_count; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			fn(arg, i);
			(void)fflush(NULL);
			_exit(0);
		}
		if (pid < 0) {
			perror("sim_mutants: fork");
			exit(1);
		}
	}
	while (wait(&status) > 0)
		if (status != 0) {
			(void)fprintf(stderr, "sim_mutants: a job died\n");
			exit(1);
		}
}

/* Searching. */

/* Seeds are given away in order, so none below the lowest finding one is left out. One that fails anyway finds nothing. */
static void
search_job(void *arg, uint64_t job)
{
	struct search *search = arg;
	char text[TEXT_BYTES], without[TEXT_BYTES];

	for (;;) {
		uint64_t seed = atomic_fetch_add(&search->next_seed, 1);
		uint64_t found = atomic_load(&search->found_seed);

		if (seed > search->seed_max || seed > found)
			return;
		if (!is_searched(search->name, seed))
			continue;
		if (seed_run(search->mutants, seed, text) == 0 ||
		    seed_run((struct mutant_set){ { 0 } }, seed, without) != 0)
			continue;
		search->finds[job].seed = seed;
		memcpy(search->finds[job].text, text, sizeof(text));
		while (seed < found &&
		    !atomic_compare_exchange_weak(&search->found_seed, &found, seed))
			;
		return; /* the next ones are higher */
	}
}

/* Returns whether it went as it should. */
static bool
search_row(const struct options *options, const char *name)
{
	struct search *search = shared_alloc(sizeof(*search));
	const char *text = "";
	uint64_t seed;

	*search = (struct search){ .seed_max = options->seed_max, .name = name };
	if (mutants_parse(name, &search->mutants) != 0) {
		(void)fprintf(stderr, "sim_mutants: there is no mutant %s\n", name);
		exit(2);
	}
	atomic_init(&search->next_seed, 1);
	atomic_init(&search->found_seed, UINT64_MAX);
	jobs_run(options->job_count, search_job, search);
	seed = atomic_load(&search->found_seed);
	for (uint64_t i = 0; i < options->job_count; i++)
		if (search->finds[i].seed == seed)
			text = search->finds[i].text;
	if (seed == UINT64_MAX)
		(void)printf("%s\t-\tnot in %" PRIu64 " seeds\n", name, search->seed_max);
	else
		(void)printf("%s\t%" PRIu64 "\t%s\n", name, seed, checker_of(text));
	(void)fflush(stdout);
	(void)fprintf(stderr, "%s: %s\n", name, text);
	(void)munmap(search, sizeof(*search));
	return (seed == UINT64_MAX) == is_harmless(name);
}

static int
search_all(const struct options *options, char *const *names, int name_count)
{
	bool is_good = true;

	for (int i = 0; i < name_count; i++)
		is_good &= search_row(options, names[i]);
	for (uint32_t i = 0; i < MUTANT_NR && name_count == 0; i++) {
		if (!is_of_units(mutants[i].name))
			is_good &= search_row(options, mutants[i].name);
	}
	for (uint32_t i = 0; i < NUM_COUNT(pairs) && name_count == 0; i++)
		is_good &= search_row(options, pairs[i]);
	return is_good ? 0 : 1;
}

/* Replaying. */

struct replay {
	struct row rows[ROWS_MAX];
	uint32_t row_count;
	atomic_uint_fast64_t next_row, wrong_count;
};

/*
 * The row's seed; or, since each change of the daemons makes another history of a seed, one of the
 * seeds up to a little behind it. Returns 0 where none finds it.
 */
static uint64_t
replay_find(struct mutant_set set, const struct row *row, char *ret_text)
{
	if (seed_run(set, row->seed, ret_text) != 0)
		return row->seed;
	for (uint64_t seed = 1; seed <= row->seed + REPLAY_SLACK; seed++)
		if (seed != row->seed && is_searched(row->name, seed) &&
		    seed_run(set, seed, ret_text) != 0)
			return seed;
	return 0;
}

static bool
replay_row(const struct row *row)
{
	char text[TEXT_BYTES];
	struct mutant_set set;
	uint64_t seed;

	if (mutants_parse(row->name, &set) != 0) {
		(void)printf("%s: there is no such mutant\n", row->name);
		return false;
	}
	seed = replay_find(set, row, text);
	if (seed == 0) {
		(void)printf("%s: not found any more: ./dev mutants\n", row->name);
		return false;
	}
	(void)printf("%s: found by seed %" PRIu64 ": %s%s\n", row->name, seed, checker_of(text),
	    seed == row->seed ? "" : " (the table is of an older state: ./dev mutants)");
	if (seed == row->seed && row->is_proved)
		return true;
	if (seed_run((struct mutant_set){ { 0 } }, seed, text) == 0)
		return true;
	(void)printf("seed %" PRIu64 " fails without a mutant: %s\n", seed, text);
	return false;
}

static void
replay_job(void *arg, uint64_t job)
{
	struct replay *replay = arg;
	uint64_t i;

	(void)job;
	while ((i = atomic_fetch_add(&replay->next_row, 1)) < replay->row_count)
		if (!replay_row(&replay->rows[i]))
			atomic_fetch_add(&replay->wrong_count, 1);
}

static bool
replay_read(struct replay *replay, const char *path)
{
	FILE *file = fopen(path, "r");
	char line[512];

	if (file == NULL) {
		perror(path);
		return false;
	}
	while (fgets(line, sizeof(line), file) != NULL && replay->row_count < ROWS_MAX) {
		struct row *row = &replay->rows[replay->row_count];

		/* Without a seed it is one that was not found: nothing to replay. */
		if (line[0] == '#' ||
		    sscanf(line, "%63[a-z_+@]\t%" SCNu64, row->name, &row->seed) != 2)
			continue;
		row->is_proved = row->seed <= SEEDS_TESTED;
		for (uint64_t i = 0; i < replay->row_count; i++)
			row->is_proved = row->is_proved || replay->rows[i].seed == row->seed;
		replay->row_count++;
	}
	(void)fclose(file);
	return replay->row_count > 0;
}

static int
replay_all(const struct options *options, const char *path)
{
	struct replay *replay = shared_alloc(sizeof(*replay));

	if (!replay_read(replay, path))
		return 1;
	jobs_run(num_min(options->job_count, replay->row_count), replay_job, replay);
	return atomic_load(&replay->wrong_count) != 0;
}

static int
list_all(void)
{
	for (uint32_t i = 0; i < MUTANT_NR; i++)
		(void)printf("%s\t%s\n", mutants[i].name, mutants[i].text);
	for (uint32_t i = 0; i < NUM_COUNT(pairs); i++)
		(void)printf("%s\n", pairs[i]);
	return 0;
}

int
main(int argc, char **argv)
{
	static const struct option long_options[] = { { "seeds", 1, NULL, 's' },
		{ "jobs", 1, NULL, 'j' }, { "help", 0, NULL, 'h' }, { 0 } };
	struct options options = { .seed_max = SEEDS_DEFAULT };
	int letter;

	options.job_count = (uint64_t)num_max(1, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	while ((letter = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		uint64_t value;

		if (letter == 'h') {
			(void)fputs(usage_text, stdout);
			return 0;
		}
		if (letter == '?') /* getopt_long has said which */
			usage("wrong option", "");
		if (config_parse_u64(optarg, &value) != 0 || value == 0)
			usage("not a number: ", optarg);
		*(letter == 's' ? &options.seed_max : &options.job_count) = value;
	}
	options.job_count = num_min(options.job_count, JOBS_MAX);
	if (optind == argc)
		usage("no command", "");
	if (strcmp(argv[optind], "search") == 0)
		return search_all(&options, &argv[optind + 1], argc - optind - 1);
	if (strcmp(argv[optind], "replay") == 0 && optind + 2 == argc)
		return replay_all(&options, argv[optind + 1]);
	if (strcmp(argv[optind], "list") == 0)
		return list_all();
	usage("no such command, or it wants other words: ", argv[optind]);
}
