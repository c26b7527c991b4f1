/* SPDX-License-Identifier: Apache-2.0 */
/* metric.h -- what a port counts; for `cleave status`, and for monitors */
#ifndef CLEAVE_MIDDLETIER_COMMON_METRIC_H
#define CLEAVE_MIDDLETIER_COMMON_METRIC_H

#include "common/limits.h"

#define MT_METRIC_LIST(X)                                                                          \
	X(writes, "count", "write messages acknowledged")                                          \
	X(write_bytes, "bytes", "plain bytes of acknowledged writes")                              \
	X(stored_bytes, "bytes", "bytes of those after compression, one copy")                     \
	X(reads, "count", "read messages answered")                                                \
	X(read_bytes, "bytes", "plain bytes read")                                                 \
	X(reads_from_memory, "count", "records served from the ring")                              \
	X(reads_from_node, "count", "records read from a replica")                                 \
	X(reads_from_frames, "count", "records served from frames decompressed for reads before")  \
	X(hot_hits, "count", "blocks served from the table of hot blocks")                         \
	X(hot_misses, "count", "blocks that were looked for there, and read from a replica")       \
	X(hot_fills, "count", "blocks that were put there")                                        \
	X(hot_spoiled, "count", "blocks there whose memory had changed: a copy was read instead")  \
	X(hot_shown, "count", "times that a block there was shown to a client of its volume")      \
	X(hot_peeks, "count", "blocks that clients have read there by themselves, as they say")    \
	X(block_statuses, "count", "answers that say what a range holds")                          \
	X(chunk_maps, "count", "answers that say where blocks lie, for who reads them there")      \
	X(direct_reads, "count", "reads that clients have made at storage nodes, as they say")     \
	X(direct_read_bytes, "bytes", "bytes of those")                                            \
	X(direct_heated, "count", "times that a run was made hotter by what clients say of those") \
	X(discards, "count", "discards and zero writes acknowledged")                              \
	X(hole_discards, "count", "of those, of chunks that hold nothing: without a record")       \
	X(hole_maps, "count", "answers that say which chunks of a segment hold nothing")           \
	X(batches, "count", "batches acknowledged by all replicas")                                \
	X(records, "count", "records in those batches")                                            \
	X(payload_crc_errors, "count", "writes refused: payload does not match its CRC")           \
	X(replica_read_errors, "count", "replica reads that failed or did not match their CRC")    \
	X(repairs_queued, "count", "records found bad on a replica, to be repaired")               \
	X(copies_damaged, "count", "copies of extents found damaged, short or gone")               \
	X(copies_made, "count", "copies made by repair")                                           \
	X(copied_bytes, "bytes", "bytes of those")                                                 \
	X(copies_failed, "count", "copies that repair began and gave up")                          \
	X(copies_verified, "count", "copies verified whole")                                       \
	X(verified_bytes, "bytes", "bytes of those")                                               \
	X(scrubs_done, "count", "times that every copy of a shard was verified")                   \
	X(orphans_deleted, "count", "copies at nodes that no manifest names, deleted")             \
	X(index_waits, "count", "records to be read whose place in a run was not in memory")       \
	X(run_indexes_loaded, "count", "indexes of runs read from nodes")                          \
	X(run_indexes_dropped, "count", "indexes of runs that had to make room for others")        \
	X(run_directories_loaded, "count", "directories of runs read from nodes")                  \
	X(run_pages_loaded, "count", "indexes of single batches of runs read from nodes")          \
	X(run_pages_found, "count", "of these, read together with what the reader wanted")         \
	X(run_pages_dropped, "count", "those that had to make room for others")                    \
	X(unreadable_blocks, "count", "reads answered EIO: bad on every replica")                  \
	X(takeovers, "count", "shards that began to be served here")                               \
	X(heads_mirrored, "count", "heads of batches that an heir has, for its take-over")         \
	X(heads_dropped, "count", "heads that it has not: slow, away, or without --mirror-heads")  \
	X(heads_kept, "count", "heads of other gateways' batches, taken into memory")              \
	X(heads_taken, "count", "heads that a take-over had from memory")                          \
	X(heads_missed, "count", "heads that it read from nodes, with --mirror-heads")             \
	X(heads_refused, "count", "heads in memory that a take-over did not believe")              \
	X(flushes, "count", "merges of layers, with or without runs, into runs")                   \
	X(flushed_bytes, "bytes", "bytes of the runs that these wrote")                            \
	X(compactions, "count", "merges of runs alone")                                            \
	X(compacted_bytes, "bytes", "bytes of the runs that these wrote")                          \
	X(merge_read_bytes, "bytes", "bytes that both read from nodes")                            \
	X(merge_log_read_bytes, "bytes", "bytes of those that rings had no more, or never had")    \
	X(hot_merges, "count", "merges of either kind whose runs are stored for who reads them")   \
	X(hasty_runs, "count", "runs with frames that were left long, because writes waited")      \
	X(covered_runs, "count", "runs that went unread, for newer ones have all their blocks")    \
	X(flattened_chunks, "count", "chunks of clones that got what their origins show")          \
	X(flattened_bytes, "bytes", "bytes of the runs that this wrote")                           \
	X(merge_stages, "count", "parts of large merges that took effect before the rest")         \
	X(merges_without_key, "count", "merges put off because a data key is not here")            \
	X(merges_refused, "count", "parts of merges made anew: others failed, or were not right")  \
	X(merges_away, "count", "parts of merges that other gateways have executed")               \
	X(merged_away_bytes, "bytes", "bytes of the runs that these have made")                    \
	X(recipe_bytes, "bytes", "recipes of those")                                               \
	X(recipe_ns, "ns", "time for making these")                                                \
	X(away_ns, "ns", "from who is asked for room to what has come of it")                      \
	X(seen_ns, "ns", "until that was read back, and compared with what was asked for")         \
	X(merges_recalled, "count", "parts of merges that they had, and that were made anew here") \
	X(merges_late, "count", "of those, the ones that took too long")                           \
	X(jobs_done, "count", "parts of other gateways' merges that were executed here")           \
	X(jobs_bytes, "bytes", "bytes of the runs that these have made")                           \
	X(jobs_failed, "count", "those that came to nothing")                                      \
	X(jobs_given_up, "count", "of those, the ones whose owners had gone, or gave them up")     \
	X(jobs_late, "count", "of those, the ones that took too long")                             \
	X(jobs_ns, "ns", "from the last part of a recipe to what was made of it")                  \
	X(extents_opened, "count", "extents created")                                              \
	X(extents_sealed, "count", "extents sealed")                                               \
	X(extents_reclaimed, "count", "extents deleted because nothing live was in them")          \
	X(reclaimed_bytes, "bytes", "bytes of those, one copy")                                    \
	X(extents_broken, "count", "open extents given up after a replica failed")                 \
	X(batches_resent, "count", "batches sent again to a new extent")                           \
	X(node_reconnects, "count", "links to storage nodes that came back")                       \
	X(nodes_slow, "count", "links to storage nodes given up because they were slow")           \
	X(sessions, "count", "client queue pairs accepted")                                        \
	X(sessions_refused, "count", "client queue pairs refused")                                 \
	X(sessions_taken, "count", "volumes taken from a writer that had not closed them")         \
	X(sessions_held, "count", "writers refused because another one has the volume")            \
	X(writes_waited_room, "count", "writes that waited for room at nodes, first in line")      \
	X(writes_refused_room, "count", "writes refused because no room was left")                 \
	X(requests_refused, "count", "requests answered with an error")                            \
	X(requests_held, "count", "requests that waited here for their volume's limits")           \
	X(requests_shared, "count", "requests that waited here for those of other volumes")        \
	X(engine_ns, "ns", "time inside engine jobs (inline engines)")
enum mt_metric {
#define MT_METRIC_ENUM(name, unit, help) MT_METRIC_##name,
	MT_METRIC_LIST(MT_METRIC_ENUM)
#undef MT_METRIC_ENUM
	    MT_METRIC_NR
};

/* Each is a word of struct mt_port. */
_Static_assert((int)MT_METRIC_NR <= MT_METRICS_MAX, "metrics");

#endif /* CLEAVE_MIDDLETIER_COMMON_METRIC_H */
