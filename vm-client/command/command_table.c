/* SPDX-License-Identifier: Apache-2.0 */
/* command_table.c -- the table of commands: words, operands, options, and the function that runs each */
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_key.h"

#define CREATE_OPTIONS                                                                             \
	(COMMAND_SIZE | COMMAND_SERVICE_CLASS | COMMAND_ENGINE | COMMAND_LEVEL |                   \
	    COMMAND_REPLICAS | COMMAND_ENCRYPT)

static const struct command command_table[] = {
	{ "volume", "create",
	    "NAME --size SIZE [--service-class CLASS] [--engine ENGINE] [--level N] "
	    "[--replicas N] [--encrypt] [--kek NAME]",
	    "Make a volume.", { COMMAND_VOLUME }, CREATE_OPTIONS, command_volume_create },
	{ "volume", "list", "",
	    "List all volumes: what each stores, its snapshots and sessions, who writes it, and the origin of a "
	    "clone.",
	    { COMMAND_NOTHING }, 0, command_volume_list },
	{ "volume", "show", "NAME",
	    "Show one volume, with its snapshots, clones and sessions; or one snapshot, VOLUME@SNAPSHOT.",
	    { COMMAND_VOLUME }, 0, command_volume_show },
	{ "volume", "map", "NAME",
	    "Show what its blocks hold: data, zeros, holes. Whoever writes it meanwhile is not "
	    "disturbed.",
	    { COMMAND_VOLUME }, 0, command_volume_map },
	{ "volume", "delete", "NAME [--keep DURATION | --purge] [--snapshots] [--force]",
	    "Delete a volume: it goes to the trash, from where it can be restored for 24 hours, or as long as "
	    "--keep says, and takes its room; with --purge it and what is on it are gone at once. Not while "
	    "it has snapshots, but with --snapshots; nor while somebody uses it, but with --force. A "
	    "cluster of level 1 has no trash.",
	    { COMMAND_VOLUME }, COMMAND_FORCE | COMMAND_SNAPSHOTS | COMMAND_KEEP,
	    command_volume_delete },
	{ "volume", "rename", "NAME NEW", "Give a volume another name.",
	    { COMMAND_VOLUME, COMMAND_NEW_NAME }, 0, command_volume_rename },
	{ "volume", "resize", "NAME --size SIZE [--shrink] [--force]",
	    "Make a volume larger, which clients see when they open it again; or smaller, with "
	    "--shrink.",
	    { COMMAND_VOLUME }, COMMAND_SIZE | COMMAND_SHRINK | COMMAND_FORCE,
	    command_volume_resize },
	{ "volume", "rotate-key", "NAME [--kek NAME]",
	    "Give an encrypted volume a new data key. What is written from now on is encrypted with it; what is "
	    "there is so when it is written again. The old key stays as long as the volume.",
	    { COMMAND_VOLUME }, COMMAND_KEK, command_volume_rotate_key },
	{ "volume", "flatten", "NAME [--wait | --cancel] [--force]",
	    "Give a clone, behind its users' backs, all that its origin shows: afterwards it has no origin, and "
	    "the snapshot that it came from can be deleted. Its snapshots, and their clones, let go of it, too. "
	    "It takes the room of what it shared, and is refused where the nodes have less, but with --force.",
	    { COMMAND_VOLUME }, COMMAND_WAIT | COMMAND_CANCEL | COMMAND_FORCE,
	    command_volume_flatten },
	{ "volume", "set",
	    "NAME [--iops N] [--bandwidth SIZE] [--read-iops N] [--read-bandwidth SIZE] "
	    "[--write-iops N] [--write-bandwidth SIZE] [--burst DURATION] "
	    "[--min-iops N] [--weight N] [--reads gateway|hot|direct [--force]]",
	    "Limit what a volume may do in a second, and what is its own where several want more than there "
	    "is; off, or 0, lifts a limit. Whoever uses it keeps to that within about a second. With --reads "
	    "direct who writes it reads what was flushed at storage nodes, past gateways, with --reads hot what is "
	    "hot out of gateways' memory: set while nobody uses it, or with --force, which puts that one out.",
	    { COMMAND_VOLUME }, COMMAND_LIMITS | COMMAND_READS | COMMAND_FORCE,
	    command_volume_set },
	{ "snapshot", "create", "VOLUME@SNAPSHOT ...",
	    "Keep what is on a volume now. It takes no space of its own until the volume changes. Of several "
	    "volumes, up to 32, all are kept as they are at one point in time, or none is.",
	    { COMMAND_SNAPSHOT, COMMAND_MORE }, 0, command_snapshot_create },
	{ "snapshot", "list", "[VOLUME]", "List a volume's snapshots, or all.",
	    { COMMAND_MAY_VOLUME }, 0, command_snapshot_list },
	{ "snapshot", "diff", "VOLUME@OLD [VOLUME@NEW]",
	    "List the ranges that may differ between a snapshot and a later one, or the volume as it is "
	    "now; all others are the same.",
	    { COMMAND_SNAPSHOT, COMMAND_MAY_NEW }, 0, command_snapshot_diff },
	{ "snapshot", "delete", "VOLUME@SNAPSHOT",
	    "Delete a snapshot that nothing was cloned from, and that is not protected; its space comes back.",
	    { COMMAND_SNAPSHOT }, 0, command_snapshot_delete },
	{ "snapshot", "protect", "VOLUME@SNAPSHOT",
	    "Refuse that a snapshot is deleted, and its volume, until it is unprotected.",
	    { COMMAND_SNAPSHOT }, 0, command_snapshot_protect },
	{ "snapshot", "unprotect", "VOLUME@SNAPSHOT", "Let a protected snapshot be deleted again.",
	    { COMMAND_SNAPSHOT }, 0, command_snapshot_unprotect },
	{ "snapshot", "rename", "VOLUME@SNAPSHOT NEW",
	    "Give a snapshot another name, without the volume's.",
	    { COMMAND_SNAPSHOT, COMMAND_NEW_NAME }, 0, command_snapshot_rename },
	{ "snapshot", "rollback", "VOLUME@SNAPSHOT [--shrink] [--force]",
	    "Make a volume what it was when the snapshot was taken, its size too; smaller with "
	    "--shrink alone.",
	    { COMMAND_SNAPSHOT }, COMMAND_FORCE | COMMAND_SHRINK, command_snapshot_rollback },
	{ "trash", "list", "",
	    "List deleted volumes that can be restored, and when each is purged, at the earliest.",
	    { COMMAND_NOTHING }, 0, command_trash_list },
	{ "trash", "restore", "NAME|ID [NEW] [--id]",
	    "Bring a deleted volume back, with its snapshots; under another name, where NEW is given.",
	    { COMMAND_TRASH, COMMAND_MAY_NEW_NAME }, COMMAND_ID, command_trash_restore },
	{ "trash", "purge", "NAME|ID [--id] | --all",
	    "Delete a volume of the trash for good, with its snapshots, or all that are in it: their space "
	    "comes back.",
	    { COMMAND_MAY_TRASH }, COMMAND_ALL | COMMAND_ID, command_trash_purge },
	{ "snapshot", "rotate", "VOLUME ... [--hourly N] [--daily N] [--weekly N] [--dry-run]",
	    "Take a snapshot that is called auto- and the time, of several volumes at one point in time, and "
	    "delete those of such names that no rule keeps, nor a clone, and that are not protected. Others "
	    "are left alone.",
	    { COMMAND_VOLUME, COMMAND_MORE_VOLUMES }, COMMAND_ROTATE, command_snapshot_rotate },
	{ "user", "list", "", "List users: what clients with a key may do with which volumes.",
	    { COMMAND_NOTHING }, 0, command_user_list },
	{ "user", "show", "USER", "Show what a user may.", { COMMAND_USER }, 0, command_user_show },
	{ "user", "add", "USER [PATTERN:LETTERS ...] [--disable]",
	    "Let the client whose key is client/USER have volumes: of names that are PATTERN, in which * is "
	    "any text. LETTERS: r reads, w writes, and needs r, s is for snapshots, a alters, makes and deletes volumes. "
	    "A cluster whose gateways have no key asks nobody.",
	    { COMMAND_NEW_USER, COMMAND_MAY_RIGHTS }, COMMAND_DISABLE, command_user_add },
	{ "user", "set", "USER [PATTERN:LETTERS ...] [--disable | --enable]",
	    "Give a user these rights instead of those that it has; or take all of them for a while, and give "
	    "them back. What it has open, and may not have any more, is closed within a second.",
	    { COMMAND_USER, COMMAND_MAY_RIGHTS }, COMMAND_DISABLE | COMMAND_ENABLE,
	    command_user_set },
	{ "user", "remove", "USER", "Take all rights of a user, for good.", { COMMAND_USER }, 0,
	    command_user_remove },
	{ "clone", NULL, "VOLUME@SNAPSHOT NEW [--encrypt] [--kek NAME]",
	    "Make a volume that begins as the snapshot, and shares its space. That of an encrypted volume is "
	    "encrypted, with a key of its own.",
	    { COMMAND_SNAPSHOT, COMMAND_NEW_NAME }, COMMAND_ENCRYPT, command_clone },
	{ "attach", NULL, "NAME [--read-only] [--persistent] [--agent PATH]",
	    "Export a volume over NBD on this machine, and print its URI; starts an agent where none "
	    "runs. It ends with the agent, but with --persistent.",
	    { COMMAND_VOLUME }, COMMAND_READ_ONLY | COMMAND_PERSISTENT | COMMAND_AGENT,
	    command_attach },
	{ "detach", NULL, "NAME [--force] [--agent PATH]", "End that export.", { COMMAND_VOLUME },
	    COMMAND_FORCE | COMMAND_AGENT, command_detach },
	{ "exports", NULL, "[--reload] [--agent PATH]", "List this machine's exports.",
	    { COMMAND_NOTHING }, COMMAND_RELOAD | COMMAND_AGENT, command_exports },
	{ "import", NULL,
	    "FILE NAME [--format FORMAT] [--progress] [--force [--take] [--purge]] [options of volume create]",
	    "Copy a disk image into a volume, which is made as large as the image, or --size, and is called "
	    "NAME.importing-NUMBER until all is in it; one that "
	    "exists is written over, where it is, with --force alone, zeros behind the image's end, and one that "
	    "somebody writes with --take as well. What was there is kept as snapshot NAME@before-import-NUMBER, "
	    "unless --purge says that it is to go. Zeroes take no space. Needs qemu-img.",
	    { COMMAND_FILE, COMMAND_VOLUME },
	    CREATE_OPTIONS | COMMAND_FORCE | COMMAND_TAKE | COMMAND_PURGE | COMMAND_FORMAT |
		COMMAND_PROGRESS,
	    command_import },
	{ "export", NULL, "NAME FILE [--format FORMAT] [--progress] [--force]",
	    "Copy a volume, or a snapshot, VOLUME@SNAPSHOT, into an image file; zeroes become holes. Of a "
	    "volume that somebody writes, or has written meanwhile, only with --force: the copy is of no one "
	    "moment then. Needs "
	    "qemu-img.",
	    { COMMAND_VOLUME, COMMAND_FILE }, COMMAND_FORCE | COMMAND_FORMAT | COMMAND_PROGRESS,
	    command_export },
	{ "backup", "verify", "FILE ...",
	    "Read backups, and say whether every byte of them is right; of several, each full or based on the "
	    "one before it.",
	    { COMMAND_FILES }, 0, command_backup_verify },
	{ "backup", "merge", "FULL INCREMENTAL ... OUT [--progress] [--force]",
	    "Make one full backup of a full one and the incremental ones behind it, in their order.",
	    { COMMAND_FILES, COMMAND_FILE }, COMMAND_FORCE | COMMAND_PROGRESS,
	    command_backup_merge },
	{ "backup", NULL, "VOLUME@SNAPSHOT FILE|- [--from OLD] [--snapshot] [--progress] [--force]",
	    "Copy a snapshot into a compressed, checksummed file, or to standard output; with --from only "
	    "what changed since another one. One that was cut off goes on when it is run again. See "
	    "also backup verify, backup merge.",
	    { COMMAND_SNAPSHOT, COMMAND_FILE }, COMMAND_BACKUP | COMMAND_FORCE | COMMAND_PROGRESS,
	    command_backup },
	{ "restore", NULL,
	    "FILE|- ... NAME [--verify] [--progress] [--force [--take] [--purge]] [options of volume create]",
	    "Make a volume of a full backup and the incremental ones behind it, in their order. It gets its "
	    "name when it is whole; one that was cut off goes on when it is run again. One that exists is "
	    "written over, where it is, with --force alone, which begins anew when it is run again, and one that "
	    "somebody writes with --take as well. What was there is kept as snapshot "
	    "NAME@before-restore-NUMBER, unless --purge says that it is to go.",
	    { COMMAND_FILES, COMMAND_VOLUME },
	    CREATE_OPTIONS | COMMAND_FORCE | COMMAND_TAKE | COMMAND_PURGE | COMMAND_PROGRESS |
		COMMAND_VERIFY,
	    command_restore },
	{ "node", "list", "", "List the storage nodes.", { COMMAND_NOTHING }, 0,
	    command_node_list },
	{ "node", "add", "ADDR [--domain PATH] [--weight PERCENT] [--note TEXT]",
	    "Take a storage node into the cluster. It runs, on a disk that was formatted with the cluster's "
	    "id and a --node-id of its own.",
	    { COMMAND_NODE }, COMMAND_PLACE, command_node_add },
	{ "node", "set",
	    "ID [--domain PATH] [--weight PERCENT] [--note TEXT] [--address ADDR] [--force] [--maintenance "
	    "DURATION|off]",
	    "Change what the cluster knows of a node. Another address only where it answers, and not where it was as "
	    "well, and no domain that leaves fewer of them than copies, but with --force.",
	    { COMMAND_NODE }, COMMAND_PLACE | COMMAND_ADDRESS | COMMAND_MAINTENANCE | COMMAND_FORCE,
	    command_node_set },
	{ "node", "drain", "ID [--wait] [--force]",
	    "Move what a node holds to the others. Not where they are too few, or too full, but with --force.",
	    { COMMAND_NODE }, COMMAND_WAIT | COMMAND_FORCE, command_node_drain },
	{ "node", "undrain", "ID", "Use a node again that was being drained.", { COMMAND_NODE }, 0,
	    command_node_undrain },
	{ "node", "remove", "ID [--lost [--force]]",
	    "Take a drained, empty node out of the cluster; or, with --lost, one that never comes back: not "
	    "where the others have no room for its copies, but with --force. Its number is never used again, "
	    "nor its disk before it is formatted anew.",
	    { COMMAND_NODE }, COMMAND_LOST | COMMAND_FORCE, command_node_remove },
	{ "node", "replace",
	    "ID --with ADDR [--lost] [--wait] [--domain PATH] [--weight PERCENT] [--note TEXT] "
	    "[--force]",
	    "Add a node, then drain the old one; or, with --lost, take that out at once.",
	    { COMMAND_NODE },
	    COMMAND_WITH | COMMAND_LOST | COMMAND_WAIT | COMMAND_PLACE | COMMAND_FORCE,
	    command_node_replace },
	{ "gateway", "list", "", "List the gateways that live, and their shards.",
	    { COMMAND_NOTHING }, 0, command_gateway_list },
	{ "gateway", "drain", "ID [--wait] [--force]",
	    "Have a gateway give its shards to the others, one after the other, and take none, also after a "
	    "restart. Its id is as --gateway-id has it, or as gateway list shows it. Not where no other one "
	    "lives that takes shards, or it does not live itself, but with --force.",
	    { COMMAND_GATEWAY }, COMMAND_WAIT | COMMAND_FORCE, command_gateway_drain },
	{ "gateway", "undrain", "ID", "Let a drained gateway have its share of the shards again.",
	    { COMMAND_GATEWAY }, 0, command_gateway_undrain },
	{ "gateway", "set", "ID|all [--log-level LEVEL] [--slow-op DURATION]",
	    "Change what a gateway logs, and which requests it keeps as slow, until it is started again.",
	    { COMMAND_GATEWAY }, COMMAND_SETTINGS, command_gateway_set },
	{ "cluster", "upgrade", "[--check] [--without NODE ...]",
	    "Let all gateways and nodes use what their new release brought, once every one of them runs "
	    "it: raises the cluster's level by one. There is no way back to the release before.",
	    { COMMAND_NOTHING }, COMMAND_UPGRADE, command_cluster_upgrade },
	{ "cluster", "rebalance", "[--dry-run | --stop] [--wait]",
	    "Move copies from nodes that have more than their share, by weight and room, to those that have "
	    "less, behind all repairs and drains and within --repair-rate. It ends by itself.",
	    { COMMAND_NOTHING }, COMMAND_REBALANCE | COMMAND_WAIT, command_cluster_rebalance },
	{ "status", NULL, "[--counters | --quiet]",
	    "Show whether the cluster is well: HEALTH OK, WARN or ERROR, with each reason and what helps, as "
	    "all gateways say; then room, nodes and gateways. The exit status is 0, 1 or 2 by it.",
	    { COMMAND_NOTHING }, COMMAND_STATUS, command_status },
	{ "events", NULL, "[--follow]",
	    "Show what happened, as all gateways that live keep it, a thousand each: nodes that came and went, "
	    "shards, leases, and who changed what from where. With --json an object a line.",
	    { COMMAND_NOTHING }, COMMAND_FOLLOW, command_events },
	{ "slow", NULL, "[--volume NAME] [--trace ID]",
	    "Show the reads and writes that took longer than the gateways' --slow-op, as all gateways that live "
	    "keep them, a thousand each: where their time went, and which node took longest. With --json an "
	    "object a line.",
	    { COMMAND_NOTHING }, COMMAND_SLOW, command_slow },
	{ "top", NULL, "[--once] [--interval DURATION]",
	    "Show what is busy: each second reads and writes by volume, with their mean times, and by gateway, "
	    "with the slowest hundredth of the last minute, and how full the nodes are. With --json an object "
	    "a look.",
	    { COMMAND_NOTHING }, COMMAND_TOP, command_top },
	{ "scrub", NULL, "",
	    "Have every copy verified now, by all gateways that live; status counts what was found.",
	    { COMMAND_NOTHING }, 0, command_scrub },
	{ "sweep", NULL, "[--confirm]",
	    "Show what nodes hold and no manifest names, as all gateways that live see it: it is deleted when it "
	    "was seen for --orphan-grace, a sixteenth of a node's extents at a time; with --confirm at "
	    "once.",
	    { COMMAND_NOTHING }, COMMAND_CONFIRM, command_sweep },
	{ "key", "init", "--cluster-id HEX --ca DIR [--days N]",
	    "Make the authority (CA) of a cluster, which signs the keys of its gateways, nodes, clients and people. "
	    "Its folder belongs on no host of the cluster. One that is there is never written over.",
	    { COMMAND_NOTHING }, COMMAND_CA | COMMAND_CLUSTER_ID | COMMAND_DAYS, command_key_init },
	{ "key", "issue", "SUBJECT --out FILE --ca DIR [--days N] [--host NAME ...] [--replace]",
	    "Make a key, in one file of mode 0600: its certificate, its private key, and the authority's "
	    "certificate. SUBJECT is gateway/N, node/N, client/NAME, admin/NAME or monitor/NAME.",
	    { COMMAND_SUBJECT }, COMMAND_CA | COMMAND_OUT | COMMAND_DAYS | COMMAND_HOST,
	    command_key_issue },
	{ "key", "show", "FILE [--ca DIR]",
	    "Show whose a key file is, until when, and what is wrong with it; with --ca also whether it was "
	    "revoked. The exit status is 1 where daemons would refuse it.",
	    { COMMAND_FILE }, COMMAND_CA, command_key_show },
	{ "key", "renew", "FILE --ca DIR [--days N] [--host NAME ...]",
	    "Make a new key for the subject and the hosts of this one, with a new serial, in its place. The old "
	    "certificate stays valid until it expires, so that connections stand.",
	    { COMMAND_FILE }, COMMAND_CA | COMMAND_DAYS | COMMAND_HOST, command_key_renew },
	{ "key", "revoke", "SUBJECT|SERIAL --ca DIR",
	    "Revoke one certificate, or all of a subject's that have not expired, and write revoked.pem in DIR, "
	    "the signed list (CRL) of all that are. Give that to the cluster then: cleave key publish.",
	    { COMMAND_SUBJECT }, COMMAND_CA, command_key_revoke },
	{ "key", "adopt", "FILE --ca DIR",
	    "Revoke in DIR, too, what a list of revoked keys names that this authority has signed: where DIR was put "
	    "back from a copy. FILE is the cluster's list, which each node keeps (revoked-N.pem in its state folder, "
	    "or --revoked). The next list that DIR makes has a higher number. Publish it then.",
	    { COMMAND_FILE }, COMMAND_CA, command_key_adopt },
	{ "key", "publish", "FILE [--force]",
	    "Give the cluster a list of revoked keys, revoked.pem of the authority's folder: gateways and nodes close "
	    "the connections of those on it, and let them in no more. An older list is refused, and without --force "
	    "one that names the gateway that is asked, or a node that is connected to it, or that lacks keys which were "
	    "revoked before. Those stay revoked.",
	    { COMMAND_FILE }, COMMAND_FORCE, command_key_publish },
	{ "key", "list", "--ca DIR", "List all keys that the authority has issued.",
	    { COMMAND_NOTHING }, COMMAND_CA, command_key_list },
	{ "key", "kek", "FILE",
	    "Make a KEK, which wraps the data keys of encrypted volumes, in a file of mode 0600: the gateways have it "
	    "by --kek file:FILE. One that is there is never written over. Keep a copy in a safe: without it what it has "
	    "wrapped is lost.",
	    { COMMAND_FILE }, 0, command_key_kek },
	{ "recover", NULL, "--meta DIR --node ADDR ... --cluster-id HEX [--force] [--take]",
	    "Make a lost or stale metadata store anew from all storage nodes: runs cleave-gateway "
	    "--recover on this host, with these options. Stop all gateways before: it refuses while a node "
	    "has one connected, but with --take. It must be the first word.",
	    { COMMAND_NOTHING }, 0, command_recover },
	{ "meta", "dump", "--meta STORE [--cluster-id HEX] >FILE",
	    "Write all keys of the metadata store to standard output, as they are at one moment: a backup, "
	    "also while gateways run. Runs cleave-gateway --dump on this host, with these options; a "
	    "gateway's --config FILE has them all. They must be the first words, as of the next two.",
	    { COMMAND_NOTHING }, 0, command_recover },
	{ "meta", "load", "--meta STORE --node ADDR ... --cluster-id HEX [--take] <FILE",
	    "Make an empty metadata store of a dump. Stop all gateways before. It is refused where the "
	    "nodes know anything newer, or obey another store: then cleave recover makes one from them.",
	    { COMMAND_NOTHING }, 0, command_recover },
	{ "meta", "move", "--from STORE --to STORE --node ADDR ... --cluster-id HEX [--take]",
	    "Move the metadata store to an empty one, between a directory and an etcd either way. Stop all "
	    "gateways before. No gateway starts with the old one afterwards. Run it again where it did "
	    "not end; go back with the same, the other way round.",
	    { COMMAND_NOTHING }, 0, command_recover },
	{ "complete", NULL, "[WORD ...]",
	    "Print what may stand for the last WORD of a command line, one a line: what the completion "
	    "of bash and zsh asks. It must be the first word.",
	    { COMMAND_NOTHING }, 0, command_complete_late },
	{ "version", NULL, "",
	    "Print the version of this command, and the commit that it was built of.",
	    { COMMAND_NOTHING }, 0, command_version },
	{ "help", NULL, "[COMMAND]", "Explain a command, or list them all.", { COMMAND_NOTHING }, 0,
	    NULL },
};

const struct command *
command_at(uint32_t index)
{
	return index < NUM_COUNT(command_table) ? &command_table[index] : NULL;
}

const struct command *
command_find(const char *const words[], uint32_t count, uint32_t *ret_used)
{
	assert(count == 0 || words != NULL);
	for (size_t i = 0; i < NUM_COUNT(command_table); i++) {
		const struct command *command = &command_table[i];

		if (count == 0 || strcmp(words[0], command->noun) != 0)
			continue;
		if (command->verb != NULL && (count < 2 || strcmp(words[1], command->verb) != 0))
			continue;
		*ret_used = command->verb == NULL ? 1 : 2;
		return command;
	}
	return NULL;
}

bool
command_has_operand(const struct command *command, enum command_operand operand)
{
	for (size_t i = 0; command->operands[i] != COMMAND_NOTHING; i++) {
		assert(i + 1 < NUM_COUNT(command->operands));
		if (command->operands[i] == operand)
			return true;
	}
	return false;
}
