/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.h -- what the files of the `cleave` command share
 *
 *	command_parse --> command_execute --> run --command_ask.h--> gateway
 *	                                       '----> out: the reply (--json), or tables of it
 *
 * The program asks one or two questions, one after the other on its only thread, by the calls of cleave/manage.h; --json prints
 * the text that they were answered with. There is no call for a volume's usage, a gateway's metrics, gateway drain, scrub and sweep:
 * of their replies a member that is absent or of another type is shown as 0 or "?".
 */
#ifndef CLEAVE_COMMAND_H
#define CLEAVE_COMMAND_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/config.h"
#include "cleave/manage.h"
#include "cleave/secure_options.h"
#include "cleave/wire.h"

#define COMMAND_EXIT_FAILURE 1
#define COMMAND_EXIT_USAGE 2

struct command;

/* The words after `cleave`. Zero and NULL: not given. */
struct command_options {
	struct config_list gateways;
	struct secure_options secure;
	bool is_json;
	bool is_forced;
	bool is_read_only, is_persistent; /* attach */
	bool must_reload;                 /* exports: the agent's file first */
	bool must_shrink;
	bool is_confirmed;
	bool has_snapshots;         /* volume delete: they go, too */
	bool is_check;              /* cluster upgrade: only say whether it would be done */
	struct config_list without; /* cluster upgrade: nodes that may be left behind */
	bool is_purge, is_all;      /* volume delete: not into the trash; trash purge: all of it */
	bool is_id;                 /* trash restore, trash purge: the name is an id */
	uint64_t keep_ns;           /* volume delete: how long it is in the trash */
	bool must_take;             /* import: from whoever writes the volume */
	const char *domain, *note, *address, *with; /* node add, set, replace */
	const char *maintenance;                    /* node set: a time, or "off" */
	bool must_wait;                  /* node drain, replace, gateway drain: until it is empty */
	bool is_lost;                    /* node remove, replace: it never comes back */
	bool is_dry_run, must_stop;      /* cluster rebalance */
	bool is_cancel;                  /* volume flatten: no more */
	bool is_disable, is_enable;      /* user add, user set */
	bool has_counters, is_quiet;     /* status */
	bool must_follow;                /* events */
	const char *volume, *trace;      /* slow: of this one alone */
	bool is_once;                    /* top */
	uint64_t interval_ns;            /* likewise; 0: as usual */
	const char *log_level, *slow_op; /* gateway set; NULL: as it is */
	const char *agent;               /* its control socket */
	bool is_help;
	uint64_t timeout_ns;
	uint64_t size_bytes;
	uint64_t replicas;
	bool is_encrypted;
	const char *kek;        /* NULL: it was not given */
	unsigned service_class; /* of command_service_classes */
	unsigned engine;        /* of command_engines */
	const char *level_text;
	int level;
	const char *name;     /* the volume's, or VOLUME@SNAPSHOT */
	const char *new_name; /* clone, volume rename */
	const char *file;     /* an image */
	const char *format;   /* of it; NULL: as it looks */
	struct {              /* volume set: texts; NULL: as it is */
		const char *iops, *bytes_s, *read_iops, *read_bytes_s, *write_iops, *write_bytes_s;
		const char *burst_ms, *min_iops;
		const char *weight; /* also: node add, set, replace */
	} limits;
	const char *reads; /* volume set: one of command_reads; NULL: as it is */
	bool has_progress;
	const char *const
	    *files; /* backups, in order; snapshot create, rotate: behind options->name */
	uint32_t file_count;
	const char *from;                  /* backup: a snapshot */
	bool must_snapshot;                /* backup: take it first */
	bool must_verify;                  /* restore: read it back */
	uint64_t hourly, daily, weekly;    /* snapshot rotate */
	const char *ca, *cluster_id, *out; /* key */
	uint64_t days;                     /* likewise; 0: as usual */
	bool must_replace;                 /* key issue: --out may be there */
	struct config_list hosts;          /* key issue, renew */
	const struct command *command;     /* NULL: help about all of them */
	const char *noun;                  /* of those that help is about; NULL: all */
};

/* The choices' first word is the default, which the gateway is left to choose. */
extern const char *const command_service_classes[];
extern const char *const command_engines[];
extern const char *const command_reads[];
extern const struct config_option command_option_table[];

/* Options that not every command takes; a bit may be of more than one (command_options.c). */
#define COMMAND_SIZE (UINT64_C(1) << 0)
#define COMMAND_SERVICE_CLASS (UINT64_C(1) << 1)
#define COMMAND_ENGINE (UINT64_C(1) << 2)
#define COMMAND_LEVEL (UINT64_C(1) << 3)
#define COMMAND_REPLICAS (UINT64_C(1) << 4)
#define COMMAND_FORCE (UINT64_C(1) << 5)
#define COMMAND_READ_ONLY (UINT64_C(1) << 6)
#define COMMAND_AGENT (UINT64_C(1) << 7)
#define COMMAND_FORMAT (UINT64_C(1) << 8)
#define COMMAND_PROGRESS (UINT64_C(1) << 9)
#define COMMAND_SHRINK (UINT64_C(1) << 10)
#define COMMAND_CONFIRM (UINT64_C(1) << 11)
#define COMMAND_SNAPSHOTS (UINT64_C(1) << 12)
#define COMMAND_TAKE (UINT64_C(1) << 13)
#define COMMAND_UPGRADE (UINT64_C(1) << 14) /* --check, --without */
#define COMMAND_STATUS (UINT64_C(1) << 15)  /* --counters, --quiet */
#define COMMAND_PLACE (UINT64_C(1) << 16)   /* --domain, --weight, --note */
#define COMMAND_FOLLOW (UINT64_C(1) << 17)
#define COMMAND_ADDRESS (UINT64_C(1) << 18)
#define COMMAND_MAINTENANCE (UINT64_C(1) << 19)
#define COMMAND_WAIT (UINT64_C(1) << 20)
#define COMMAND_LOST (UINT64_C(1) << 21)
#define COMMAND_WITH (UINT64_C(1) << 22)
#define COMMAND_REBALANCE (UINT64_C(1) << 23) /* --dry-run, --stop */
#define COMMAND_SLOW (UINT64_C(1) << 24)      /* --volume, --trace */
#define COMMAND_SETTINGS (UINT64_C(1) << 25)  /* --log-level, --slow-op */
#define COMMAND_KEEP (UINT64_C(1) << 26)      /* --keep, --purge */
#define COMMAND_ALL (UINT64_C(1) << 27)
#define COMMAND_PERSISTENT (UINT64_C(1) << 28)
#define COMMAND_TOP (UINT64_C(1) << 29) /* --once, --interval */
#define COMMAND_RELOAD (UINT64_C(1) << 30)
#define COMMAND_ROTATE (UINT64_C(1) << 31) /* --hourly, --daily, --weekly, --dry-run */
#define COMMAND_BACKUP (UINT64_C(1) << 32) /* --from, --snapshot */
#define COMMAND_VERIFY (UINT64_C(1) << 33)
#define COMMAND_CANCEL (UINT64_C(1) << 35)
#define COMMAND_LIMITS (UINT64_C(1) << 34) /* --iops, --bandwidth, ... --weight */
#define COMMAND_CA (UINT64_C(1) << 39)
#define COMMAND_CLUSTER_ID (UINT64_C(1) << 36)
#define COMMAND_OUT (UINT64_C(1) << 37) /* --out, --replace */
#define COMMAND_DAYS (UINT64_C(1) << 38)
#define COMMAND_DISABLE (UINT64_C(1) << 40)
#define COMMAND_ENABLE (UINT64_C(1) << 41)
#define COMMAND_ENCRYPT (UINT64_C(1) << 42) /* --encrypt, --kek */
#define COMMAND_KEK (UINT64_C(1) << 43)     /* --kek alone */
#define COMMAND_HOST (UINT64_C(1) << 44)
#define COMMAND_ID (UINT64_C(1) << 45)
#define COMMAND_PURGE (UINT64_C(1) << 46) /* --purge alone */
#define COMMAND_READS (UINT64_C(1) << 47)

/* Words that follow a command's own, in their order. Those called MAY, and MORE, may be absent, and are the last. */
enum command_operand {
	COMMAND_NOTHING,      /* no more */
	COMMAND_VOLUME,       /* options->name: of a volume, or VOLUME@SNAPSHOT */
	COMMAND_SNAPSHOT,     /* options->name: VOLUME@SNAPSHOT */
	COMMAND_MAY_VOLUME,   /* options->name */
	COMMAND_NODE,         /* options->name: a node's number, or its address */
	COMMAND_GATEWAY,      /* options->name: a gateway's id */
	COMMAND_NEW_NAME,     /* options->new_name */
	COMMAND_MAY_NEW,      /* options->new_name: a later VOLUME@SNAPSHOT */
	COMMAND_FILE,         /* options->file */
	COMMAND_TRASH,        /* options->name: a volume in the trash, by its name or id */
	COMMAND_MAY_TRASH,    /* likewise */
	COMMAND_MAY_NEW_NAME, /* options->new_name */
	COMMAND_SUBJECT,      /* options->name: a key's, "gateway/1"; or a serial */
	COMMAND_FILES,        /* options->files: as many as leave a word for each operand behind */
	COMMAND_MORE,         /* options->files: further VOLUME@SNAPSHOT, the last operand */
	COMMAND_MORE_VOLUMES, /* likewise, volumes */
	COMMAND_USER,         /* options->name: what stands behind client/ in a key */
	COMMAND_NEW_USER,     /* likewise, of none yet */
	COMMAND_MAY_RIGHTS,   /* options->files: each PATTERN:LETTERS, the last operand */
};

#define COMMAND_OPERANDS_MAX 3 /* the last is COMMAND_NOTHING */

/* Where a command asks, and prints. */
struct command_session {
	const struct command_options *options;
	struct loop *loop;
	struct cleave_client *client;
	FILE *out;
	char error[2 * CLEAVE_ERROR_BYTES_MAX]; /* why a command failed, for people */
	int exit_status;                        /* not 0: instead of what done, or failed, has */
};

struct command {
	const char *noun;
	const char *verb; /* NULL: the noun is all */
	const char *synopsis;
	const char *help;
	enum command_operand operands[COMMAND_OPERANDS_MAX];
	uint64_t options; /* COMMAND_SIZE and so on: those it takes, beside the common ones */
	/* 0, or a negative errno with session->error set. */
	int (*run)(struct command_session *session);
};

/*
 * command_parse -- the command line, checked
 *
 * Returns 0; 1 when the version was printed (exit 0); -EINVAL after a message on stderr (exit 2), and
 * what config_parse returns. @ret_result keeps strings alive: config_result_fini.
 */
int command_parse(int argc, char *const argv[], struct command_options *ret_options,
    struct config_result *ret_result);
/* command_wants_help -- --help or -h is among the words. */
bool command_wants_help(int argc, char *const argv[]);
/* command_take_help -- what that help is about. Returns 0; -EINVAL after a message: there is no such command. */
int command_take_help(struct command_options *options, int argc, char *const argv[]);
/* command_print_help -- about options->command; where that is NULL, about those of options->noun, or all. */
void command_print_help(const struct command_options *options, FILE *out);
/* command_help.c: its words, as they are typed; and all about it, with its options alone. */
void command_synopsis(const struct command *command, char *ret_text, size_t bytes);
void command_print_one(const struct command *command, FILE *out);
/* command_options.c: those that every command takes included. */
bool command_takes_option(const struct command *command, const struct config_option *option);
/* command_foreign_option -- the first that was given and @command does not take; NULL: there is none. */
const char *command_foreign_option(const struct command *command,
    const struct command_options *options);
/* command_has_operand -- is it among the words that follow? */
bool command_has_operand(const struct command *command, enum command_operand operand);
/* command_table.c. command_at -- of the table; NULL behind its end. command_find: that @words begin with, *@ret_used of them; or NULL. */
const struct command *command_at(uint32_t index);
const struct command *command_find(const char *const words[], uint32_t count, uint32_t *ret_used);
/* command_version -- its own, with the commit; asks nobody. */
int command_version(struct command_session *session);
/* command_execute -- connect, run options->command, disconnect. Returns the exit status. */
int command_execute(const struct command_options *options, FILE *out);

/* command_fail -- set session->error; returns @rc. */
int command_fail(struct command_session *session, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* command_fail_output -- session->out cannot be written: @rc is what output_check said, and is returned; main says no more of it. */
int command_fail_output(struct command_session *session, int rc);
/* command_print_json -- indented, with a newline. 0 or -ENOMEM. */
int command_print_json(const json_t *value, FILE *out);

/* Members of a reply. Absent or of another type: 0 and "?". */
uint64_t command_u64(const json_t *object, const char *member);
const char *command_text(const json_t *object, const char *member);
/* command_plain -- each text in @value becomes plain (base/plain.h): others wrote it, and a terminal will obey. */
void command_plain(json_t *value);
/* command_failure -- what the process exits with when @options' command fails before it has set that itself. */
int command_failure(const struct command_options *options);

/* command_volume.c */
int command_volume_create(struct command_session *session);
int command_volume_list(struct command_session *session);
int command_volume_show(struct command_session *session);
int command_volume_delete(struct command_session *session);
int command_volume_rename(struct command_session *session);
/* command_create_options -- what `volume create` and `import` make; its texts are @options'. */
void command_create_options(const struct command_options *options,
    struct cleave_volume_options *ret_options);
/* command_show.c: what hangs on a volume, of volume.show's answer and command_usage's; a snapshot. */
int command_print_hanging(const json_t *shown, const struct cleave_snapshot *snapshots,
    uint32_t count, const json_t *usage, FILE *out);
int command_snapshot_show(struct command_session *session);
/* command_put_between -- a snapshot's part of @usage into its object @snapshot, as far as it is told. */
void command_put_between(json_t *snapshot, const json_t *usage);
/* command_volume_size -- 0, how large volume @name is, and its id; -ENOENT and others with session->error set. */
int command_volume_size(struct command_session *session, const char *name, uint64_t *ret_size_bytes,
    uint64_t *ret_id);
/*
 * command_check_given -- 0: volume @name, which is there, has all that the options of volume create say
 *
 * Else a negative errno with session->error set, which names the option, and says @instead as the way on; -ENOENT.
 */
int command_check_given(struct command_session *session, const char *name, const char *instead);
/* command_find_volume -- 0: the volume that is named is there, as *@ret_info says; of VOLUME@SNAPSHOT the one before the "@". */
int command_find_volume(struct command_session *session, struct cleave_volume_info *ret_info);
/* Tables of answers. @usage: command_usage's, or NULL. 0 or -ENOMEM. */
int command_print_volume(const struct cleave_volume_entry *volume, const char *reads,
    const json_t *usage, FILE *out);
/*
 * @told: the objects that @volumes were read from, with command_put_use's members; NULL: what these tell is "?". @is_whole:
 * all gateways have told.
 */
int command_print_volumes(const struct cleave_volume_entry *volumes, uint32_t count,
    const json_t *told, bool is_whole, FILE *out);
/* command_is_writer_silent -- no gateway has a session of @volume's writer: it died, or is cut off. @told: its object. */
bool command_is_writer_silent(const struct cleave_volume_entry *volume, const json_t *told,
    bool is_whole);

/* command_resize.c */
int command_volume_resize(struct command_session *session);

/* command_rotate_key.c */
int command_volume_rotate_key(struct command_session *session);
/* command_clone_encrypted -- clone, with --encrypt or --kek. */
int command_clone_encrypted(struct command_session *session);

/* command_reads.c */
#define COMMAND_READS_TEXT_BYTES 256u
/*
 * command_reads_text -- where @volume is read: "gateway"; "hot"; "direct, at nodes 1, 2, 3"; "hot, but at gateways now: WHY"
 *
 * A gateway is asked for nodes that take clients, and whether it lets them read its hot blocks. Returns 0; else a negative errno with the error set.
 */
int command_reads_text(struct command_session *session, const struct cleave_volume_entry *volume,
    char *ret_text, size_t bytes);
/* command_set_reads -- options->reads of options->name, and say it; a warning says that it comes to nothing yet, and why. */
int command_set_reads(struct command_session *session);

/* command_limits.c */
int command_volume_set(struct command_session *session);
#define COMMAND_LIMITS_TEXT_BYTES 320u
/* command_limits_text -- "iops 500, bandwidth 20 MiB/s"; "-": there are none. What is longer is cut. */
void command_limits_text(const struct cleave_limits *of, char *ret_text, size_t bytes);
/* command_limits_json -- the same of a member "qos"; @qos NULL: there are none. */
void command_limits_json(const json_t *qos, char *ret_text, size_t bytes);

/* command_snapshot.c */
int command_snapshot_create(struct command_session *session);
int command_snapshot_list(struct command_session *session);
int command_snapshot_delete(struct command_session *session);
int command_snapshot_rollback(struct command_session *session);
int command_snapshot_protect(struct command_session *session);
int command_snapshot_unprotect(struct command_session *session);
int command_snapshot_rename(struct command_session *session);
int command_clone(struct command_session *session);
/* command_snapshots_of -- a volume's, by rising number: 0 and *@ret_snapshots to free(), NULL for none; else with error set. */
int command_snapshots_of(struct command_session *session, const char *volume,
    struct cleave_snapshot **ret_snapshots, uint32_t *ret_count);
int command_print_snapshots(const struct cleave_snapshot *snapshots, uint32_t count, FILE *out);

/* command_flatten.c */
int command_volume_flatten(struct command_session *session);
/*
 * command_print_flattening -- how far a volume is flattened, with what command_usage has said of it; nothing where it is not
 *
 * @flattening: that member of volume.show's "volume", or an entry of status; NULL: it is not. @usage: NULL: not asked.
 */
void command_print_flattening(const json_t *flattening, const json_t *usage, FILE *out);
/* command_status_flattening -- a line for the clone at work, of status's answer, and how many wait. */
void command_status_flattening(struct command_session *session, const json_t *status);
/* command_user.c */
int command_user_list(struct command_session *session);
int command_user_show(struct command_session *session);
int command_user_add(struct command_session *session);
int command_user_set(struct command_session *session);
int command_user_remove(struct command_session *session);
/* command_ask_users -- all of them, in *@ret_reply, an object to json_decref: {"users":[...]} */
int command_ask_users(struct command_session *session, json_t **ret_reply);

/* command_trash.c */
int command_trash_list(struct command_session *session);
int command_trash_restore(struct command_session *session);
int command_trash_purge(struct command_session *session);
int command_print_trash(const struct cleave_trash_entry *volumes, uint32_t count, FILE *out);

/* command_agent.c */
int command_attach(struct command_session *session);
int command_detach(struct command_session *session);
int command_exports(struct command_session *session);

/* command_agent_link.c */
#define COMMAND_AGENT_WORDS_MAX (1 + 2 * CLEAVE_GATEWAYS_MAX + 6)
/*
 * command_agent_words -- how an agent's command line begins: the program, the gateways, and who this is
 *
 * @program is filled in: the agent beside this program, else the one in PATH. @ret_argv gets COMMAND_AGENT_WORDS_MAX
 * words at most, borrowed. Returns how many these are.
 */
int command_agent_words(const struct command_session *session, char program[PATH_MAX],
    const char **ret_argv);

/* command_usage.c */
struct table;
/*
 * command_check_use -- -EBUSY when somebody uses the volume: a copy of it would be of no one moment
 *
 * A snapshot does not change; nor is anything checked with --force.
 */
int command_check_use(struct command_session *session);
/* command_usage -- of volume @name, summed over all gateways. 0 and *@ret_usage to json_decref. */
int command_usage(struct command_session *session, const char *name, json_t **ret_usage);
/* command_use.c: the same of all volumes in short, as counted: put into the objects of @volumes. 0 or -ENOMEM. */
int command_put_use(struct command_session *session, json_t *volumes, bool *ret_is_whole);
/* Rows for a table of two columns. */
void command_print_usage(struct table *table, const json_t *usage, uint64_t size_bytes);

/* command_map.c */
int command_volume_map(struct command_session *session);
int command_snapshot_diff(struct command_session *session);

/* command_image.c */
int command_import(struct command_session *session);
int command_export(struct command_session *session);

/* command_backup.c, command_chain.c, command_restore.c, command_rotate.c */
int command_backup(struct command_session *session);
int command_backup_verify(struct command_session *session);
int command_backup_merge(struct command_session *session);
int command_restore(struct command_session *session);
int command_snapshot_rotate(struct command_session *session);

/* command_status.c */
int command_status(struct command_session *session);
/* The head of `cleave status` is made of this. */
struct command_health;
struct command_summary {
	const struct cleave_gateway_status *status; /* of the gateway that was asked */
	const struct command_health *health;        /* of all */
	const struct cleave_node_entry *nodes;
	uint32_t node_count;
};
int command_print_summary(const struct command_summary *summary, FILE *out);
int command_node_list(struct command_session *session);
int command_print_nodes(const struct cleave_node_entry *nodes, uint32_t count, FILE *out);
int command_scrub(struct command_session *session);
int command_sweep(struct command_session *session);
/* command_gateway.c */
int command_gateway_list(struct command_session *session);
int command_gateway_drain(struct command_session *session);
int command_gateway_undrain(struct command_session *session);
/* command_gateway_id -- of options->name, as --gateway-id has it or as the list shows it. 0; -EINVAL, with the error set. */
int command_gateway_id(struct command_session *session, uint64_t *ret_id);
/* command_gateway_set.c */
int command_gateway_set(struct command_session *session);

/* command_cluster.c */
int command_cluster_upgrade(struct command_session *session);
/* command_print_level -- and the next step, or who keeps the cluster from it. */
void command_print_level(const struct cleave_cluster_level *level, FILE *out);
int command_print_gateways(const struct cleave_gateway_entry *gateways, uint32_t count, FILE *out);
/* command_print_status -- @reply: the answer that @status was read from, which has the metrics of its ports. */
int command_print_status(const struct cleave_gateway_status *status, const json_t *reply,
    FILE *out);
int command_print_shards(const struct cleave_shard_entry *shards, uint32_t count, FILE *out);
/* command_print_ports -- the metrics of @reply's ports that are not 0, a table a port. */
int command_print_ports(const json_t *reply, FILE *out);

/* command_rebalance.c */
int command_cluster_rebalance(struct command_session *session);
/* command_node_wait.c: wait until a node is empty; say once what it holds, and what that waits for; wait. */
int command_wait_empty(struct command_session *session, uint64_t id);
int command_print_left(struct command_session *session, uint64_t id);
/* command_node.c */
int command_node_add(struct command_session *session);
int command_node_set(struct command_session *session);
int command_node_drain(struct command_session *session);
int command_node_undrain(struct command_session *session);
int command_node_remove(struct command_session *session);
int command_node_replace(struct command_session *session);

/* command_events.c */
int command_events(struct command_session *session);
/* command_complete.c: print what may stand for the last of @words, a line each; 0. And what `complete` is elsewhere. */
int command_complete(int count, char *const words[], FILE *out);
/* command_word_is_plain -- a shell that finds @word on its line sees a word and no command, and we no option. */
bool command_word_is_plain(const char *word);
int command_complete_late(struct command_session *session);
/* command_slow.c */
int command_slow(struct command_session *session);
/* command_print_slow -- a request that took long, as a gateway tells it, with "gateway". */
void command_print_slow(const json_t *entry, FILE *out);
/* command_top.c */
int command_top(struct command_session *session);
/* command_recover.c */
int command_recover(struct command_session *session);
#define COMMAND_NOT_OURS (-1)
/*
 * command_recover_exec -- `cleave recover` and `cleave meta ...`: become cleave-gateway, with the options behind
 *
 * @argv: from the command's first word on. The program beside this one, else the one in a build's middletier
 * folder, else that of $PATH. Returns the exit status, after a message, when none can be run; COMMAND_NOT_OURS:
 * it is another command.
 */
int command_recover_exec(int argc, char *const argv[]);

#endif /* CLEAVE_COMMAND_H */
