/* SPDX-License-Identifier: Apache-2.0 */
/* command_options.c -- the options of all commands (base/config.h), and which of them a command takes */
#include <stddef.h>
#include <string.h>

#include "base/check.h"
#include "base/config.h"
#include "base/num.h"
#include "cleave/client.h"
#include "cleave/wire.h"
#include "command.h"
#include "keys/ca.h"

#define COMMAND_REPLICAS_MAX 3u
#define COMMAND_PERIODS_MAX 100000u /* hours, days or weeks */

const char *const command_service_classes[] = {
#define COMMAND_CLASS(symbol, name) [SERVICE_##symbol] = (name),
	SERVICE_CLASS_LIST(COMMAND_CLASS)
#undef COMMAND_CLASS
	    [SERVICE_CLASS_NR] = NULL
};
const char *const command_engines[] = { "default", "auto", "lz4", "snappy", "deflate", "zstd",
	"none", NULL };

const struct config_option command_option_table[] = {
	{ "gateway", 'g', CONFIG_LIST, offsetof(struct command_options, gateways), "ADDR[,ADDR...]",
	    "Gateways, HOST:PORT or verbs://HOST:PORT; the first that can be reached is asked. Default: "
	    "$CLEAVE_GATEWAY, else " CLEAVE_DEFAULT_GATEWAY ".",
	    NULL, false, 0, 0, NULL },
	SECURE_CLIENT_ROWS(struct command_options, secure),
	{ "json", 'j', CONFIG_FLAG, offsetof(struct command_options, is_json), NULL,
	    "Print the gateway's reply; what fails, as an object with \"error\", too.", NULL, false,
	    0, 0, NULL },
	{ "timeout", 't', CONFIG_DURATION, offsetof(struct command_options, timeout_ns), "DURATION",
	    "Give up after this long.", "15s", false, NUM_MS(1), NUM_S(3600), NULL },
	{ "size", 's', CONFIG_SIZE, offsetof(struct command_options, size_bytes), "SIZE",
	    "volume create, volume resize: its size, a multiple of 4096 bytes. 1G, 1GB and 1GiB are 2^30 bytes.",
	    NULL, false, CLEAVE_BLOCK_BYTES, CLEAVE_VOLUME_BYTES_MAX, NULL },
	{ "service-class", 0, CONFIG_CHOICE, offsetof(struct command_options, service_class),
	    "CLASS", "volume create: what it is used for.", NULL, false, 0, 0,
	    command_service_classes },
	{ "engine", 0, CONFIG_CHOICE, offsetof(struct command_options, engine), "ENGINE",
	    "volume create: what compresses it; by default what the service class asks for. none: nothing "
	    "does before it is merged, but LZ4 while a lot is written.",
	    NULL, false, 0, 0, command_engines },
	{ "level", 0, CONFIG_STRING, offsetof(struct command_options, level_text), "N",
	    "volume create: the engine's level.", NULL, false, 0, 0, NULL },
	{ "replicas", 0, CONFIG_U64, offsetof(struct command_options, replicas), "N",
	    "volume create: copies of each block.", NULL, false, 1, COMMAND_REPLICAS_MAX, NULL },
	{ "encrypt", 0, CONFIG_FLAG, offsetof(struct command_options, is_encrypted), NULL,
	    "volume create, clone, import, restore: with a data key of its own. A clone of an encrypted volume always "
	    "is.",
	    NULL, false, 0, 0, NULL },
	{ "kek", 0, CONFIG_STRING, offsetof(struct command_options, kek), "NAME",
	    "The same, and which of the gateways' KEKs wraps the key, by default the one called default. volume "
	    "rotate-key: another one from now on.",
	    NULL, false, 0, 0, NULL },
	{ "force", 'f', CONFIG_FLAG, offsetof(struct command_options, is_forced), NULL,
	    "volume delete, resize, set --reads, snapshot rollback, detach: even while somebody uses it. "
	    "import, export, backup, restore: write over what is there. node drain, remove, replace: with fewer copies or "
	    "less room than there should be. node set: an --address that it comes to later, or where it answers beside its own; a --domain that leaves fewer of them than copies. volume flatten: with less room. gateway drain: also where no other one takes its shards.",
	    NULL, false, 0, 0, NULL },
	{ "shrink", 0, CONFIG_FLAG, offsetof(struct command_options, must_shrink), NULL,
	    "volume resize: make it smaller, and discard what is behind the new end. snapshot "
	    "rollback: also to a snapshot that is smaller than the volume is now.",
	    NULL, false, 0, 0, NULL },
	{ "snapshots", 0, CONFIG_FLAG, offsetof(struct command_options, has_snapshots), NULL,
	    "volume delete: its snapshots as well.", NULL, false, 0, 0, NULL },
	{ "keep", 0, CONFIG_DURATION, offsetof(struct command_options, keep_ns), "DURATION",
	    "volume delete: how long it stays in the trash, such as 7d; 24h by default.", NULL,
	    false, NUM_S(1), NUM_S(3155760000), NULL },
	{ "purge", 0, CONFIG_FLAG, offsetof(struct command_options, is_purge), NULL,
	    "volume delete: for good, not into the trash. import, restore: over what is there for good, without a "
	    "snapshot of it.",
	    NULL, false, 0, 0, NULL },
	{ "all", 0, CONFIG_FLAG, offsetof(struct command_options, is_all), NULL,
	    "trash purge: every volume that is in the trash.", NULL, false, 0, 0, NULL },
	{ "id", 0, CONFIG_FLAG, offsetof(struct command_options, is_id), NULL,
	    "trash restore, trash purge: the ID is no name, where a volume in the trash was called as another one's id.",
	    NULL, false, 0, 0, NULL },
	{ "take", 0, CONFIG_FLAG, offsetof(struct command_options, must_take), NULL,
	    "import, restore: take the volume from whoever has it open for writing, who gets errors from then on.",
	    NULL, false, 0, 0, NULL },
	{ "confirm", 0, CONFIG_FLAG, offsetof(struct command_options, is_confirmed), NULL,
	    "sweep: delete them now.", NULL, false, 0, 0, NULL },
	{ "check", 0, CONFIG_FLAG, offsetof(struct command_options, is_check), NULL,
	    "cluster upgrade: change nothing; say who keeps it from being done.", NULL, false, 0, 0,
	    NULL },
	{ "without", 0, CONFIG_LIST, offsetof(struct command_options, without), "NODE",
	    "cluster upgrade: leave this node behind, by its address or number, if it is not up: an "
	    "older release is refused when it comes back. May be given again for another.",
	    NULL, false, 0, 0, NULL },
	{ "read-only", 'r', CONFIG_FLAG, offsetof(struct command_options, is_read_only), NULL,
	    "attach: refuse changes.", NULL, false, 0, 0, NULL },
	{ "persistent", 0, CONFIG_FLAG, offsetof(struct command_options, is_persistent), NULL,
	    "attach: for good: the agent exports it when it is started again, too, until detach.",
	    NULL, false, 0, 0, NULL },
	{ "reload", 0, CONFIG_FLAG, offsetof(struct command_options, must_reload), NULL,
	    "exports: have the agent read its file of persistent exports first.", NULL, false, 0, 0,
	    NULL },
	{ "agent", 'a', CONFIG_STRING, offsetof(struct command_options, agent), "PATH",
	    "attach, detach, exports: the agent's control socket. Default: $CLEAVE_AGENT; the service's, "
	    "/run/cleave/agent, where there is one; else cleave-agent in $XDG_RUNTIME_DIR or /run.",
	    NULL, false, 0, 0, NULL },
	{ "format", 0, CONFIG_STRING, offsetof(struct command_options, format), "FORMAT",
	    "import, export: raw, qcow2, or another that qemu-img knows. Default: as the image looks, unless "
	    "it is made of other files, too, which a guest may have written to a raw disk; by the end of "
	    "FILE's name, else raw.",
	    NULL, false, 0, 0, NULL },
	{ "progress", 'p', CONFIG_FLAG, offsetof(struct command_options, has_progress), NULL,
	    "import, export, backup, restore: show how far it is.", NULL, false, 0, 0, NULL },
	{ "from", 0, CONFIG_STRING, offsetof(struct command_options, from), "SNAPSHOT",
	    "backup: only what changed since this older snapshot of the volume, which is backed up "
	    "already.",
	    NULL, false, 0, 0, NULL },
	{ "snapshot", 0, CONFIG_FLAG, offsetof(struct command_options, must_snapshot), NULL,
	    "backup: take the snapshot first.", NULL, false, 0, 0, NULL },
	{ "verify", 0, CONFIG_FLAG, offsetof(struct command_options, must_verify), NULL,
	    "restore: read all of the volume back, and compare.", NULL, false, 0, 0, NULL },
	{ "hourly", 0, CONFIG_U64, offsetof(struct command_options, hourly), "N",
	    "snapshot rotate: keep the newest of each of the last N hours that have one (UTC).",
	    NULL, false, 1, COMMAND_PERIODS_MAX, NULL },
	{ "daily", 0, CONFIG_U64, offsetof(struct command_options, daily), "N",
	    "snapshot rotate: likewise of the last N days.", NULL, false, 1, COMMAND_PERIODS_MAX,
	    NULL },
	{ "weekly", 0, CONFIG_U64, offsetof(struct command_options, weekly), "N",
	    "snapshot rotate: likewise of the last N weeks, which begin on Monday.", NULL, false, 1,
	    COMMAND_PERIODS_MAX, NULL },
	{ "domain", 0, CONFIG_STRING, offsetof(struct command_options, domain), "PATH",
	    "node add, set, replace: what fails together with it, from the largest: dc/rack/host, or a part "
	    "of it. Copies of a block are in different ones.",
	    NULL, false, 0, 0, NULL },
	{ "weight", 0, CONFIG_STRING, offsetof(struct command_options, limits.weight), "N",
	    "node add, set, replace: what its free room counts beside that of others, 1 to 1000; volume set: its "
	    "part of what several volumes want, 10 to 1000, or off. 100 by default.",
	    NULL, false, 0, 0, NULL },
	{ "note", 0, CONFIG_STRING, offsetof(struct command_options, note), "TEXT",
	    "node add, set, replace: for people.", NULL, false, 0, 0, NULL },
	{ "address", 0, CONFIG_STRING, offsetof(struct command_options, address), "ADDR",
	    "node set: where it is now.", NULL, false, 0, 0, NULL },
	{ "maintenance", 0, CONFIG_STRING, offsetof(struct command_options, maintenance),
	    "DURATION|off",
	    "node set: it may be away for so long, and its copies are not made anew elsewhere meanwhile.",
	    NULL, false, 0, 0, NULL },
	{ "log-level", 0, CONFIG_STRING, offsetof(struct command_options, log_level), "LEVEL",
	    "gateway set: least level to log: trace, debug, info, warn, error or off.", NULL, false,
	    0, 0, NULL },
	{ "slow-op", 0, CONFIG_STRING, offsetof(struct command_options, slow_op), "DURATION",
	    "gateway set: a read or write that takes this long is kept for cleave slow; 0s: none is.",
	    NULL, false, 0, 0, NULL },
	{ "wait", 0, CONFIG_FLAG, offsetof(struct command_options, must_wait), NULL,
	    "node drain, replace; gateway drain; cluster rebalance; volume flatten: until it is done; says how far it "
	    "is.",
	    NULL, false, 0, 0, NULL },
	{ "cancel", 0, CONFIG_FLAG, offsetof(struct command_options, is_cancel), NULL,
	    "volume flatten: no more; what was copied stays, and the next time goes on from there.",
	    NULL, false, 0, 0, NULL },
	{ "disable", 0, CONFIG_FLAG, offsetof(struct command_options, is_disable), NULL,
	    "user add, user set: none of its rights counts until --enable.", NULL, false, 0, 0,
	    NULL },
	{ "enable", 0, CONFIG_FLAG, offsetof(struct command_options, is_enable), NULL,
	    "user set: its rights count again.", NULL, false, 0, 0, NULL },
	{ "dry-run", 0, CONFIG_FLAG, offsetof(struct command_options, is_dry_run), NULL,
	    "cluster rebalance: only show how much would be moved. snapshot rotate: only show what would be "
	    "deleted.",
	    NULL, false, 0, 0, NULL },
	{ "stop", 0, CONFIG_FLAG, offsetof(struct command_options, must_stop), NULL,
	    "cluster rebalance: no more; what was moved stays.", NULL, false, 0, 0, NULL },
	{ "counters", 0, CONFIG_FLAG, offsetof(struct command_options, has_counters), NULL,
	    "status: also all that the gateway counts, its ports and its shards.", NULL, false, 0,
	    0, NULL },
	{ "follow", 0, CONFIG_FLAG, offsetof(struct command_options, must_follow), NULL,
	    "events: go on until interrupted, and show what happens.", NULL, false, 0, 0, NULL },
	{ "volume", 0, CONFIG_STRING, offsetof(struct command_options, volume), "NAME",
	    "slow: requests of this volume alone.", NULL, false, 0, 0, NULL },
	{ "trace", 0, CONFIG_STRING, offsetof(struct command_options, trace), "ID",
	    "slow: the request of this id alone, 16 hex digits, as logs and lists show it.", NULL,
	    false, 0, 0, NULL },
	{ "once", 0, CONFIG_FLAG, offsetof(struct command_options, is_once), NULL,
	    "top: one table, after one interval.", NULL, false, 0, 0, NULL },
	{ "interval", 0, CONFIG_DURATION, offsetof(struct command_options, interval_ns), "DURATION",
	    "top: between two looks; 1s by default.", NULL, false, NUM_MS(100), NUM_S(3600), NULL },
	{ "quiet", 'q', CONFIG_FLAG, offsetof(struct command_options, is_quiet), NULL,
	    "status: print nothing; the exit status tells.", NULL, false, 0, 0, NULL },
	{ "iops", 0, CONFIG_STRING, offsetof(struct command_options, limits.iops), "N|off",
	    "volume set: operations a second; a request of more than 16 KiB is one for each 16 KiB that it begins.",
	    NULL, false, 0, 0, NULL },
	{ "bandwidth", 0, CONFIG_STRING, offsetof(struct command_options, limits.bytes_s),
	    "SIZE|off", "volume set: bytes a second that it may read and write.", NULL, false, 0, 0,
	    NULL },
	{ "read-iops", 0, CONFIG_STRING, offsetof(struct command_options, limits.read_iops),
	    "N|off", "volume set: as --iops, of reads alone.", NULL, false, 0, 0, NULL },
	{ "read-bandwidth", 0, CONFIG_STRING, offsetof(struct command_options, limits.read_bytes_s),
	    "SIZE|off", "volume set: as --bandwidth, of reads alone.", NULL, false, 0, 0, NULL },
	{ "write-iops", 0, CONFIG_STRING, offsetof(struct command_options, limits.write_iops),
	    "N|off", "volume set: as --iops, of writes alone.", NULL, false, 0, 0, NULL },
	{ "write-bandwidth", 0, CONFIG_STRING,
	    offsetof(struct command_options, limits.write_bytes_s), "SIZE|off",
	    "volume set: as --bandwidth, of writes alone.", NULL, false, 0, 0, NULL },
	{ "burst", 0, CONFIG_STRING, offsetof(struct command_options, limits.burst_ms),
	    "DURATION|off",
	    "volume set: how much of a limit's time may be used at once after a pause; 250ms by default.",
	    NULL, false, 0, 0, NULL },
	{ "min-iops", 0, CONFIG_STRING, offsetof(struct command_options, limits.min_iops), "N|off",
	    "volume set: while it has had less than so many operations a second, it goes before others.",
	    NULL, false, 0, 0, NULL },
	{ "reads", 0, CONFIG_STRING, offsetof(struct command_options, reads), "WHERE",
	    "volume set: where who writes the volume reads it: at gateways; or, as far as may be, by itself: what is hot "
	    "out of gateways' memory, or what was flushed at storage nodes that take clients.",
	    NULL, false, 0, 0, command_reads },
	{ "lost", 0, CONFIG_FLAG, offsetof(struct command_options, is_lost), NULL,
	    "node remove, replace: it never comes back, whatever it holds.", NULL, false, 0, 0,
	    NULL },
	{ "with", 0, CONFIG_STRING, offsetof(struct command_options, with), "ADDR",
	    "node replace: the new node.", NULL, false, 0, 0, NULL },
	{ "ca", 0, CONFIG_STRING, offsetof(struct command_options, ca), "DIR",
	    "key: the folder of the cluster's authority. Default: $CLEAVE_CA.", NULL, false, 0, 0,
	    NULL },
	{ "cluster-id", 0, CONFIG_STRING, offsetof(struct command_options, cluster_id), "HEX",
	    "key init: the cluster's id, 1 to 16 hex digits, as its gateways and nodes have it.",
	    NULL, false, 0, 0, NULL },
	{ "out", 'o', CONFIG_STRING, offsetof(struct command_options, out), "FILE",
	    "key issue: where the key goes, mode 0600.", NULL, false, 0, 0, NULL },
	{ "replace", 0, CONFIG_FLAG, offsetof(struct command_options, must_replace), NULL,
	    "key issue: the file may be there, and goes.", NULL, false, 0, 0, NULL },
	{ "host", 0, CONFIG_LIST, offsetof(struct command_options, hosts), "NAME",
	    "key issue, renew: a DNS name or an IP address of the host, for --metrics over TLS: by it who asks knows "
	    "the daemon. Default: none; of renew those of before.",
	    NULL, false, 0, 0, NULL },
	{ "days", 0, CONFIG_U64, offsetof(struct command_options, days), "N",
	    "key init, issue, renew: how long it is valid. Default: 397, a year and a month in which who renews "
	    "each year may be late; an authority's: 3650.",
	    NULL, false, 1, CA_DAYS_MAX, NULL },
	{ .name = NULL },
};

/* Options that not every command takes. */
static const struct {
	const char *name;
	uint64_t of; /* COMMAND_SIZE and so on */
} owned[] = {
	{ "size", COMMAND_SIZE },
	{ "service-class", COMMAND_SERVICE_CLASS },
	{ "engine", COMMAND_ENGINE },
	{ "level", COMMAND_LEVEL },
	{ "replicas", COMMAND_REPLICAS },
	{ "encrypt", COMMAND_ENCRYPT },
	{ "kek", COMMAND_ENCRYPT | COMMAND_KEK },
	{ "force", COMMAND_FORCE },
	{ "read-only", COMMAND_READ_ONLY },
	{ "agent", COMMAND_AGENT },
	{ "persistent", COMMAND_PERSISTENT },
	{ "reload", COMMAND_RELOAD },
	{ "format", COMMAND_FORMAT },
	{ "progress", COMMAND_PROGRESS },
	{ "shrink", COMMAND_SHRINK },
	{ "confirm", COMMAND_CONFIRM },
	{ "snapshots", COMMAND_SNAPSHOTS },
	{ "keep", COMMAND_KEEP },
	{ "purge", COMMAND_KEEP | COMMAND_PURGE },
	{ "all", COMMAND_ALL },
	{ "id", COMMAND_ID },
	{ "take", COMMAND_TAKE },
	{ "check", COMMAND_UPGRADE },
	{ "without", COMMAND_UPGRADE },
	{ "counters", COMMAND_STATUS },
	{ "quiet", COMMAND_STATUS },
	{ "domain", COMMAND_PLACE },
	{ "weight", COMMAND_PLACE | COMMAND_LIMITS },
	{ "note", COMMAND_PLACE },
	{ "follow", COMMAND_FOLLOW },
	{ "volume", COMMAND_SLOW },
	{ "trace", COMMAND_SLOW },
	{ "once", COMMAND_TOP },
	{ "interval", COMMAND_TOP },
	{ "address", COMMAND_ADDRESS },
	{ "maintenance", COMMAND_MAINTENANCE },
	{ "log-level", COMMAND_SETTINGS },
	{ "slow-op", COMMAND_SETTINGS },
	{ "wait", COMMAND_WAIT },
	{ "cancel", COMMAND_CANCEL },
	{ "disable", COMMAND_DISABLE },
	{ "enable", COMMAND_ENABLE },
	{ "iops", COMMAND_LIMITS },
	{ "bandwidth", COMMAND_LIMITS },
	{ "read-iops", COMMAND_LIMITS },
	{ "read-bandwidth", COMMAND_LIMITS },
	{ "write-iops", COMMAND_LIMITS },
	{ "write-bandwidth", COMMAND_LIMITS },
	{ "burst", COMMAND_LIMITS },
	{ "min-iops", COMMAND_LIMITS },
	{ "reads", COMMAND_READS },
	{ "lost", COMMAND_LOST },
	{ "with", COMMAND_WITH },
	{ "dry-run", COMMAND_REBALANCE | COMMAND_ROTATE },
	{ "from", COMMAND_BACKUP },
	{ "snapshot", COMMAND_BACKUP },
	{ "verify", COMMAND_VERIFY },
	{ "hourly", COMMAND_ROTATE },
	{ "daily", COMMAND_ROTATE },
	{ "weekly", COMMAND_ROTATE },
	{ "stop", COMMAND_REBALANCE },
	{ "ca", COMMAND_CA },
	{ "cluster-id", COMMAND_CLUSTER_ID },
	{ "out", COMMAND_OUT },
	{ "replace", COMMAND_OUT },
	{ "days", COMMAND_DAYS },
	{ "host", COMMAND_HOST },
};

static uint64_t
owners(const struct config_option *option)
{
	for (size_t i = 0; i < NUM_COUNT(owned); i++) {
		if (strcmp(owned[i].name, option->name) == 0)
			return owned[i].of;
	}
	return UINT64_MAX; /* every command does */
}

/* Something else than zero, which no option that is not every command's has as a value: its bounds forbid it. */
static bool
is_given(const struct config_option *option, const struct command_options *options)
{
	const void *member = (const char *)options + option->offset;

	assert(option->default_text == NULL);
	switch (option->type) {
	case CONFIG_FLAG:
		return *(const bool *)member;
	case CONFIG_STRING:
		return *(const char *const *)member != NULL;
	case CONFIG_CHOICE:
		return *(const unsigned *)member != 0;
	case CONFIG_LIST:
		return ((const struct config_list *)member)->count > 0;
	case CONFIG_U64:
	case CONFIG_SIZE:
	case CONFIG_DURATION:
		break;
	}
	return *(const uint64_t *)member != 0;
}

bool
command_takes_option(const struct command *command, const struct config_option *option)
{
	uint64_t of = owners(option);

	return of == UINT64_MAX || (of & command->options) != 0;
}

const char *
command_foreign_option(const struct command *command, const struct command_options *options)
{
	_Static_assert(SERVICE_STANDARD == 0, "the choice that was not given");
	for (const struct config_option *option = command_option_table; option->name != NULL;
	     option++) {
		if (!command_takes_option(command, option) && is_given(option, options))
			return option->name;
	}
	return NULL;
}
