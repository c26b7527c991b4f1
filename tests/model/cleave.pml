/* SPDX-License-Identifier: Apache-2.0
 *
 * cleave.pml -- one shard's log through failures and take-overs, for spin; tests/model/run checks it
 *
 * Two gateways, three nodes, the metadata store. Each write has a block of its own, so a gateway's
 * memtable is a set of writes (view), and `must` is the set of those that were acknowledged, or
 * returned by a read: from then on each of them is kept by some replica, and no read may lack it.
 *
 *	network   what an owner has sent (sent[]) arrives in order at any later time, or never; also
 *	          after its sender's end. A connection's end is not modelled: it only takes messages away
 *	node      an append arrives when it is durable (dlen), and is answered then (told): what was
 *	          written, and a crash may take, has not arrived for anyone else
 *	manifest  a register that a newer owner fences (manifest_epoch): a manifest extent runs the
 *	          protocol that is checked here for a log extent
 *	lease     its holder stops to believe in it before the store lets go: this is all that clocks
 *	          do. A pause is a process that makes no step
 *
 * What is asserted:
 *
 *	kept      each write in `must` is on an undamaged replica, below the length that counts (I4)
 *	I6        nothing above a length that a newer owner has agreed on is acknowledged by all
 *	I7        a read that is served lacks nothing of `must`
 *
 * Bounds, and mutants (each must be found), come by -D.
 */
#define NODES 3
#define EXTENTS 3
#define BATCHES 2
#define MIN_REPLICAS 2

#ifndef WRITES
#define WRITES 2
#endif
#ifndef EPOCHS /* the last one; 1 is serving when the model starts */
#define EPOCHS 3
#endif
#ifndef CRASHES /* of nodes */
#define CRASHES 0
#endif
#ifndef DAMAGES
#define DAMAGES 0
#endif
#ifndef GATEWAY_CRASHES
#define GATEWAY_CRASHES 0
#endif
#ifndef TIMEOUTS /* how often a taker goes on without an answer */
#define TIMEOUTS 0
#endif
#ifndef SLOW /* how often an owner leaves a node behind that is up */
#define SLOW 0
#endif

#define OPEN_LEN 7
#define NOBODY 7
#define NO_EXTENT 7

#define COPY(e, n) ((e) * NODES + (n))
#define SLOT(e, o) ((e) * BATCHES + (o))
#define ANSWER(g, n) ((g) * NODES + (n))
#define BIT(x) (1 << (x))
#define HAS(mask, x) (((mask) >> (x)) & 1)
#define COUNT(mask) (HAS(mask, 0) + HAS(mask, 1) + HAS(mask, 2))

/* A copy at its node. */
#define C_NONE 0
#define C_OPEN 1
#define C_STOPPED 2 /* restarted: only a freeze, a cut, a delete */
#define C_FROZEN 3
#define C_SEALED 4
#define C_UNREADABLE 5 /* sealed; its last batch has rotted since */

#define IS_SEALED(x) (copy_state[x] >= C_SEALED)
#define LENGTH(x) (dlen[x] + (copy_state[x] == C_UNREADABLE))

/* A gateway, with this shard. */
#define G_IDLE 0
#define G_FENCING 1 /* claimed; the manifest is next */
#define G_FREEZING 2
#define G_COPYING 3
#define G_CUTTING 4
#define G_SERVING 5
#define G_OPENING 6 /* serving; copies of a new extent are made, the edit is next */

/* A gateway's lease; one without a shard has it. */
#define L_VALID 0
#define L_DOUBTED 1 /* not renewed in time, by its own clock */
#define L_GONE 2    /* by the store's, too */

/* ---- the metadata store, and the manifest ---- */

byte root_epoch = 1;
byte root_owner = 0;
byte manifest_epoch = 1;
byte extent_made = 1;           /* ids given away */
byte extent_named = 1;          /* mask: those that the manifest names */
byte extent_epoch[EXTENTS];
byte extent_nodes[EXTENTS];     /* mask: its replicas */
byte extent_len[EXTENTS];       /* OPEN_LEN, or sealed */

/* ---- the network ---- */

byte sent[EXTENTS];             /* batches */
byte content[EXTENTS * BATCHES];
byte mark[EXTENTS * BATCHES];   /* what each carries */

/* ---- nodes ---- */

bool up[NODES];
byte fence[NODES];
byte copy_state[EXTENTS * NODES];
byte freeze_epoch[EXTENTS * NODES];
byte dlen[EXTENTS * NODES];
byte told[EXTENTS * NODES];     /* the durable length that its owner was told */
bool rotten[EXTENTS * NODES];   /* ghost: has lost what was durable */

/* ---- gateways ---- */

byte lease[2];
byte phase[2];
byte epoch[2];
byte view[2];
byte log_extent[2];             /* being written, or being agreed on */
byte next_extent[2];            /* G_OPENING */
byte acked[2];                  /* batches of log_extent; when agreeing: the agreed length */
byte answered[2];               /* mask */
byte good[2];                   /* mask: of the answers, the undamaged */
byte sealed[2];                 /* mask */
byte is_cut[2];                 /* mask */
byte answer[2 * NODES];         /* lengths */

/* ---- the world ---- */

byte written;                   /* writes given to an owner */
byte given_up;                  /* mask: extents whose owner asks for no answers any more */
byte must;
byte crashes, damages, gateway_crashes, timeouts, slow;
byte i, j, k, x, y;             /* inside d_step only; always 0 between */

#define SCRATCH() i = 0; j = 0; k = 0; x = 0; y = 0

/* Every write of `must` is on some copy that counts. */
inline check_kept() {
	x = 0;
	i = 0;
	do
	:: i < EXTENTS && HAS(extent_named, i) ->
		j = 0;
		do
		:: j < sent[i] && j < extent_len[i] ->
			k = 0;
			do
			:: k < NODES && HAS(extent_nodes[i], k) && dlen[COPY(i, k)] > j ->
				x = x | BIT(content[SLOT(i, j)]);
				k++
			:: k < NODES && !(HAS(extent_nodes[i], k) && dlen[COPY(i, k)] > j) -> k++
			:: k == NODES -> break
			od;
			j++
		:: else -> break
		od;
		i++
	:: i < EXTENTS && !HAS(extent_named, i) -> i++
	:: i == EXTENTS -> break
	od;
	assert((must & ~x) == 0); /* kept */
	SCRATCH()
}

/* ---- a node ---- */

#define CAN_ARRIVE(e, n, len) \
	(up[n] && copy_state[COPY(e, n)] == C_OPEN && len[COPY(e, n)] < sent[e] && \
	 fence[n] <= extent_epoch[e])

/* The next batch of @e arrives: durable, then answered. */
#ifdef M_ACK_BEFORE_FLUSH
#define NODE_APPEND(e) \
	:: d_step { CAN_ARRIVE(e, n, told) -> told[COPY(e, n)]++ } \
	:: d_step { dlen[COPY(e, n)] < told[COPY(e, n)] && CAN_ARRIVE(e, n, dlen) -> dlen[COPY(e, n)]++ }
#else
#define NODE_APPEND(e) \
	:: d_step { CAN_ARRIVE(e, n, dlen) -> \
		dlen[COPY(e, n)]++; \
		told[COPY(e, n)] = (HAS(given_up, e) -> 0 : dlen[COPY(e, n)]) }
#endif

/* Rot in a copy's last batch: it looks like a torn tail, unless a sealed length says otherwise. */
#define NODE_ROT(e) \
	:: d_step { damages < DAMAGES && n <= crashes + damages && HAS(extent_named, e) && \
		dlen[COPY(e, n)] > 0 -> node_rot(n, e) }

inline node_rot(n, e) {
	damages++;
	dlen[COPY(e, n)]--;
	rotten[COPY(e, n)] = true;
	if
	:: copy_state[COPY(e, n)] == C_OPEN -> copy_state[COPY(e, n)] = C_STOPPED
	:: copy_state[COPY(e, n)] == C_SEALED -> copy_state[COPY(e, n)] = C_UNREADABLE
	:: else
	fi;
	check_kept()
}

inline node_crash(n) {
	crashes++;
	up[n] = false;
	i = 0;
	do
	:: i < EXTENTS ->
#ifdef M_FENCE_FORGOTTEN
		if
		:: copy_state[COPY(i, n)] == C_FROZEN -> copy_state[COPY(i, n)] = C_OPEN
		:: else
		fi;
		freeze_epoch[COPY(i, n)] = 0;
#else
		if
		:: copy_state[COPY(i, n)] == C_OPEN -> copy_state[COPY(i, n)] = C_STOPPED
		:: else
		fi;
#endif
		i++
	:: else -> break
	od;
#ifdef M_FENCE_FORGOTTEN
	fence[n] = 0;
#endif
	SCRATCH()
}

/* Nodes are alike: it is no loss that the first one that fails is node 0, the second 0 or 1. */
proctype node(byte n) {
end:	do
	NODE_APPEND(0)
	NODE_APPEND(1)
	NODE_APPEND(2)
	NODE_ROT(0)
	NODE_ROT(1)
	NODE_ROT(2)
	:: d_step { up[n] && crashes < CRASHES && n <= crashes + damages -> node_crash(n) }
	:: d_step { !up[n] -> up[n] = true }
	od
}

/* ---- a gateway: take-over ---- */

inline extent_give_up(e) {
	given_up = given_up | BIT(e);
	told[COPY(e, 0)] = 0;
	told[COPY(e, 1)] = 0;
	told[COPY(e, 2)] = 0
}

inline gateway_reset(g) {
	if
	:: log_extent[g] != NO_EXTENT && extent_epoch[log_extent[g]] == epoch[g] ->
		extent_give_up(log_extent[g])
	:: else
	fi;
	phase[g] = G_IDLE;
	lease[g] = L_VALID;
	epoch[g] = 0;
	view[g] = 0;
	log_extent[g] = NO_EXTENT;
	next_extent[g] = NO_EXTENT;
	acked[g] = 0;
	answered[g] = 0;
	good[g] = 0;
	sealed[g] = 0;
	is_cut[g] = 0;
	answer[ANSWER(g, 0)] = 0;
	answer[ANSWER(g, 1)] = 0;
	answer[ANSWER(g, 2)] = 0
}

/* The manifest is frozen and read: which extent is open? */
inline gateway_fence(g) {
	manifest_epoch = epoch[g];
	log_extent[g] = NO_EXTENT;
	i = 0;
	do
	:: i < EXTENTS ->
		if
		:: HAS(extent_named, i) && extent_len[i] == OPEN_LEN -> log_extent[g] = i
		:: else
		fi;
		i++
	:: else -> break
	od;
	SCRATCH();
	if
	:: log_extent[g] == NO_EXTENT -> gateway_replay(g)
	:: else -> phase[g] = G_FREEZING
	fi
}

inline gateway_freeze(g, n) {
	x = COPY(log_extent[g], n);
	fence[n] = epoch[g];
	if
	:: copy_state[x] == C_OPEN ->
		told[x] = dlen[x]
	:: else
	fi;
	if
	:: IS_SEALED(x) -> sealed[g] = sealed[g] | BIT(n)
	:: else ->
		copy_state[x] = C_FROZEN;
		freeze_epoch[x] = epoch[g]
	fi;
	answered[g] = answered[g] | BIT(n);
	good[g] = good[g] | BIT(n);
	answer[ANSWER(g, n)] = LENGTH(x);
	SCRATCH()
}

/* x = the highest mark among the answers. */
inline find_mark(g) {
	x = 0;
	i = 0;
	do
	:: i < NODES ->
		j = 0;
		do
		:: HAS(answered[g], i) && j < answer[ANSWER(g, i)] ->
			if
			:: mark[SLOT(log_extent[g], j)] > x -> x = mark[SLOT(log_extent[g], j)]
			:: else
			fi;
			j++
		:: else -> break
		od;
		i++
	:: else -> break
	od
}

/* y = the agreed length. */
inline find_length(g) {
#ifdef M_CUT_SHORTEST
	y = BATCHES;
#else
	y = 0;
#endif
	i = 0;
	do
	:: i < NODES && HAS(good[g], i) ->
		if
#ifdef M_CUT_SHORTEST
		:: answer[ANSWER(g, i)] < y -> y = answer[ANSWER(g, i)]
#else
		:: answer[ANSWER(g, i)] > y -> y = answer[ANSWER(g, i)]
#endif
		:: else
		fi;
		i++
	:: i < NODES && !HAS(good[g], i) -> i++
	:: i == NODES -> break
	od;
	i = 0;
	do
	:: i < NODES && HAS(sealed[g], i) ->
		y = answer[ANSWER(g, i)];
		i++
	:: i < NODES && !HAS(sealed[g], i) -> i++
	:: i == NODES -> break
	od
}

/* Two have answered that reach every mark, or a sealed one, or the only one that there is. */
#ifdef M_LONE_ANSWER
#define IS_PROVEN(g) (good[g] != 0)
#else
#define IS_PROVEN(g) \
	((sealed[g] & good[g]) != 0 || COUNT(good[g]) >= 2 || \
	 (COUNT(good[g]) == 1 && COUNT(extent_nodes[log_extent[g]]) == 1))
#endif

#define ALL_ANSWERED(g) (answered[g] == extent_nodes[log_extent[g]])

/* One that ends below a mark has lost something. Back to waiting where that leaves none. */
inline gateway_judge(g) {
	find_mark(g);
	find_length(g);
	i = 0;
	do
	:: i < NODES ->
		if
		:: HAS(good[g], i) && answer[ANSWER(g, i)] < x -> good[g] = good[g] & ~BIT(i)
		:: else
		fi;
		i++
	:: else -> break
	od;
	if
	:: good[g] != 0 && x <= y && !IS_PROVEN(g) && !ALL_ANSWERED(g) ->
		skip /* who has not answered may know better */
	:: good[g] != 0 && x <= y && (IS_PROVEN(g) || ALL_ANSWERED(g)) ->
		acked[g] = y;
#ifdef M_TAIL_NOT_COPIED
		phase[g] = G_CUTTING
#else
		phase[g] = G_COPYING
#endif
	:: else ->
		answered[g] = 0;
		good[g] = 0;
		sealed[g] = 0
	fi;
	SCRATCH()
}

/* Does a good replica still lack something of the agreed length? */
#define LACKS(g, n) (HAS(good[g], n) && answer[ANSWER(g, n)] < acked[g])

#ifdef M_TAIL_NOT_COPIED
#define IS_COPIED(g) true
#else
#define IS_COPIED(g) (!LACKS(g, 0) && !LACKS(g, 1) && !LACKS(g, 2) && \
	COUNT(good[g]) >= MIN_REPLICAS)
#endif

#define MAY_USE(g, n) (up[n] && fence[n] <= epoch[g])
#define IS_STALE(g, n) (up[n] && fence[n] > epoch[g])

#define SOURCE(g, n) (HAS(good[g], n) && up[n] && dlen[COPY(log_extent[g], n)] >= acked[g])
#define HAS_SOURCE(g) (SOURCE(g, 0) || SOURCE(g, 1) || SOURCE(g, 2))

inline gateway_copy(g, n) {
	x = COPY(log_extent[g], n);
	if
	:: copy_state[x] == C_FROZEN && freeze_epoch[x] == epoch[g] &&
	   dlen[x] == answer[ANSWER(g, n)] ->
		dlen[x] = dlen[x] + 1;
		answer[ANSWER(g, n)] = dlen[x]
	:: else -> /* it is not where it was believed to be: asked again */
		answered[g] = answered[g] & ~BIT(n);
		good[g] = good[g] & ~BIT(n);
		sealed[g] = sealed[g] & ~BIT(n);
		phase[g] = G_FREEZING
	fi;
	SCRATCH()
}

/* Too few answered: another node gets a copy, from the first batch on. */
inline gateway_add(g, n) {
	x = COPY(log_extent[g], n);
	copy_state[x] = C_FROZEN;
	fence[n] = epoch[g];
	freeze_epoch[x] = epoch[g];
	answer[ANSWER(g, n)] = 0;
	answered[g] = answered[g] | BIT(n);
	good[g] = good[g] | BIT(n);
	SCRATCH()
}

inline gateway_cut(g, n) {
	x = COPY(log_extent[g], n);
	if
	:: IS_SEALED(x) && LENGTH(x) == acked[g] -> is_cut[g] = is_cut[g] | BIT(n)
	:: !IS_SEALED(x) && dlen[x] >= acked[g] ->
		dlen[x] = acked[g];
		copy_state[x] = C_SEALED;
		is_cut[g] = is_cut[g] | BIT(n)
	:: else -> good[g] = good[g] & ~BIT(n)
	fi;
	SCRATCH();
	check_kept()
}

/* The edit that seals. Who did not answer stays named; who is damaged does not. */
inline gateway_seal(g) {
	extent_len[log_extent[g]] = acked[g];
	extent_nodes[log_extent[g]] =
	    (extent_nodes[log_extent[g]] & ~answered[g]) | good[g];
	check_kept();
	gateway_replay(g)
}

/* The view is what the manifest's extents hold; no extent is open yet. */
inline gateway_replay(g) {
	x = 0;
	i = 0;
	do
	:: i < EXTENTS ->
		j = 0;
		do
		:: HAS(extent_named, i) && j < sent[i] && j < extent_len[i] ->
			x = x | BIT(content[SLOT(i, j)]);
			j++
		:: else -> break
		od;
		i++
	:: else -> break
	od;
	k = epoch[g];
	y = lease[g];
	gateway_reset(g);
	view[g] = x;
	epoch[g] = k;
	lease[g] = y;
	phase[g] = G_SERVING;
	SCRATCH()
}

/* ---- a gateway: serving ---- */

#define IS_TOLD(g, n) \
	(!HAS(extent_nodes[log_extent[g]], n) || told[COPY(log_extent[g], n)] > acked[g])
#ifdef M_ACK_EARLY
#define ALL_TOLD(g) (IS_TOLD(g, 0) + IS_TOLD(g, 1) + IS_TOLD(g, 2) >= 2)
#else
#define ALL_TOLD(g) (IS_TOLD(g, 0) && IS_TOLD(g, 1) && IS_TOLD(g, 2))
#endif
#ifdef M_NO_LEASE
#define MAY_SERVE(g) true
#else
#define MAY_SERVE(g) (lease[g] == L_VALID)
#endif

inline gateway_send(g) {
	x = log_extent[g];
	content[SLOT(x, sent[x])] = written;
	mark[SLOT(x, sent[x])] = acked[g];
	sent[x] = sent[x] + 1;
	written++;
	SCRATCH()
}

inline gateway_ack(g) {
	/* I6 */
	assert(extent_len[log_extent[g]] > acked[g]);
	x = BIT(content[SLOT(log_extent[g], acked[g])]);
	view[g] = view[g] | x;
	acked[g] = acked[g] + 1;
	if
	:: MAY_SERVE(g) -> must = must | x
	:: else /* "moved": its client asks another gateway */
	fi;
	SCRATCH();
	check_kept()
}

inline gateway_read(g) {
	assert((must & ~view[g]) == 0); /* I7 */
	must = must | view[g]
}

/* Copies on @mask; each node refuses an epoch below its fence. */
inline gateway_create(g, mask) {
	next_extent[g] = extent_made;
	extent_epoch[extent_made] = epoch[g];
	extent_nodes[extent_made] = mask;
	extent_len[extent_made] = OPEN_LEN;
	i = 0;
	do
	:: i < NODES && HAS(mask, i) ->
		copy_state[COPY(extent_made, i)] = C_OPEN;
		i++
	:: i < NODES && !HAS(mask, i) -> i++
	:: i == NODES -> break
	od;
	extent_made++;
	phase[g] = G_OPENING;
	SCRATCH()
}

/* One edit seals the old extent, at what is acknowledged, and opens the next; the rest is sent again. */
inline gateway_open(g) {
	y = next_extent[g];
	extent_named = extent_named | BIT(y);
	if
	:: log_extent[g] != NO_EXTENT ->
		x = log_extent[g];
		extent_give_up(x);
		extent_len[x] = acked[g];
		i = acked[g];
		do
		:: i < sent[x] ->
			content[SLOT(y, sent[y])] = content[SLOT(x, i)];
			mark[SLOT(y, sent[y])] = 0;
			sent[y] = sent[y] + 1;
			i++
		:: else -> break
		od
	:: else
	fi;
	log_extent[g] = y;
	next_extent[g] = NO_EXTENT;
	acked[g] = 0;
	phase[g] = G_SERVING;
	SCRATCH();
	check_kept()
}

/* A replica of a sealed extent is told its length; one that is shorter is copied anew, from another. */
inline gateway_tell(g, e, n) {
	if
	:: dlen[COPY(e, n)] >= extent_len[e] && copy_state[COPY(e, n)] != C_NONE ->
		dlen[COPY(e, n)] = extent_len[e];
		copy_state[COPY(e, n)] = C_SEALED
	:: else ->
		x = 0;
		i = 0;
		do
		:: i < NODES ->
			if
			:: i != n && HAS(extent_nodes[e], i) && up[i] &&
			   dlen[COPY(e, i)] >= extent_len[e] -> x = 1
			:: else
			fi;
			i++
		:: else -> break
		od;
		if
		:: x == 1 ->
			dlen[COPY(e, n)] = extent_len[e];
			copy_state[COPY(e, n)] = C_SEALED
		:: else
		fi
	fi;
	fence[n] = epoch[g];
	SCRATCH();
	check_kept()
}

#define IS_SERVING(g) (phase[g] == G_SERVING)
#define NEEDS_TELLING(g, e, n) \
	(IS_SERVING(g) && manifest_epoch == epoch[g] && HAS(extent_named, e) && extent_len[e] != OPEN_LEN && \
	 HAS(extent_nodes[e], n) && \
	 (copy_state[COPY(e, n)] != C_SEALED || dlen[COPY(e, n)] != extent_len[e]) && up[n])
#define CAN_OPEN(g, mask) \
	(IS_SERVING(g) && extent_made < EXTENTS && \
	 (!HAS(mask, 0) || MAY_USE(g, 0)) && (!HAS(mask, 1) || MAY_USE(g, 1)) && \
	 (!HAS(mask, 2) || MAY_USE(g, 2)))
/* It takes no more appends: a replica restarted, or was fenced, or is lost. */
#define COPY_FAILED(g, n) \
	(HAS(extent_nodes[log_extent[g]], n) && \
	 (!up[n] || copy_state[COPY(log_extent[g], n)] != C_OPEN))
#define IS_BROKEN(g) \
	(log_extent[g] != NO_EXTENT && \
	 (COPY_FAILED(g, 0) || COPY_FAILED(g, 1) || COPY_FAILED(g, 2)))
#define WANTS_OPEN(g) (written < WRITES && log_extent[g] == NO_EXTENT)

#define GATEWAY_NODE(g, n) \
	:: d_step { phase[g] == G_FREEZING && HAS(extent_nodes[log_extent[g]], n) && \
		!HAS(answered[g], n) && MAY_USE(g, n) -> gateway_freeze(g, n) } \
	:: d_step { phase[g] == G_COPYING && LACKS(g, n) && MAY_USE(g, n) && HAS_SOURCE(g) -> \
		gateway_copy(g, n) } \
	:: d_step { phase[g] == G_COPYING && COUNT(good[g]) < MIN_REPLICAS && \
		!HAS(extent_nodes[log_extent[g]], n) && !HAS(answered[g], n) && MAY_USE(g, n) -> \
		gateway_add(g, n) } \
	/* Lost meanwhile: asked again. */ \
	:: d_step { phase[g] == G_COPYING && HAS(good[g], n) && !up[n] -> \
		answered[g] = answered[g] & ~BIT(n); \
		good[g] = good[g] & ~BIT(n); \
		sealed[g] = sealed[g] & ~BIT(n); \
		phase[g] = G_FREEZING } \
	:: d_step { phase[g] == G_CUTTING && HAS(good[g], n) && !HAS(is_cut[g], n) && MAY_USE(g, n) -> \
		gateway_cut(g, n) } \
	/* Lost meanwhile: told when it is back. */ \
	:: d_step { phase[g] == G_CUTTING && HAS(good[g], n) && !HAS(is_cut[g], n) && !up[n] -> \
		is_cut[g] = is_cut[g] | BIT(n) } \
	:: d_step { (phase[g] == G_FREEZING || phase[g] == G_COPYING || phase[g] == G_CUTTING) && \
		HAS(extent_nodes[log_extent[g]], n) && IS_STALE(g, n) -> gateway_reset(g) }

#define GATEWAY_TELL(g, e, n) \
	:: d_step { NEEDS_TELLING(g, e, n) && fence[n] <= epoch[g] -> gateway_tell(g, e, n) }

proctype gateway(byte g) {
end:	do
	/* Its lease: in doubt, renewed, or gone; then all of it stops, and it is granted anew. */
	:: d_step { lease[g] == L_VALID && root_epoch < EPOCHS && phase[g] != G_IDLE -> \
		lease[g] = L_DOUBTED }
	:: d_step { lease[g] == L_DOUBTED -> lease[g] = L_VALID }
	:: d_step { lease[g] == L_DOUBTED && root_epoch < EPOCHS -> lease[g] = L_GONE }
	:: d_step { lease[g] == L_GONE -> gateway_reset(g) }

	/* Claim: one transaction. Whose owner has stopped, and waits for a lease, may be taken too. */
	:: d_step { phase[g] == G_IDLE && root_epoch < EPOCHS && \
		(root_owner == NOBODY || lease[root_owner] == L_GONE || \
		 phase[root_owner] == G_IDLE) -> \
		root_epoch++; \
		root_owner = g; \
		epoch[g] = root_epoch; \
		phase[g] = G_FENCING }
	:: d_step { phase[g] == G_FENCING && manifest_epoch <= epoch[g] -> gateway_fence(g) }
	:: d_step { phase[g] == G_FENCING && manifest_epoch > epoch[g] -> gateway_reset(g) }

	GATEWAY_NODE(g, 0)
	GATEWAY_NODE(g, 1)
	GATEWAY_NODE(g, 2)
	:: d_step { phase[g] == G_FREEZING && ALL_ANSWERED(g) -> gateway_judge(g) }
	:: d_step { phase[g] == G_FREEZING && !ALL_ANSWERED(g) && good[g] != 0 && \
		timeouts < TIMEOUTS -> timeouts++; gateway_judge(g) }
	:: d_step { phase[g] == G_COPYING && IS_COPIED(g) -> \
		answer[ANSWER(g, 0)] = 0; answer[ANSWER(g, 1)] = 0; answer[ANSWER(g, 2)] = 0; \
		phase[g] = G_CUTTING }
	:: d_step { phase[g] == G_CUTTING && good[g] == 0 -> \
		answered[g] = 0; sealed[g] = 0; is_cut[g] = 0; phase[g] = G_FREEZING }
	:: d_step { phase[g] == G_CUTTING && good[g] != 0 && (good[g] & ~is_cut[g]) == 0 && \
		manifest_epoch == epoch[g] -> gateway_seal(g) }
	:: d_step { phase[g] == G_CUTTING && manifest_epoch > epoch[g] -> gateway_reset(g) }

	/* Serving. */
	:: d_step { IS_SERVING(g) && log_extent[g] != NO_EXTENT && written < WRITES && \
		sent[log_extent[g]] < BATCHES && !IS_BROKEN(g) -> gateway_send(g) }
	:: d_step { (IS_SERVING(g) || phase[g] == G_OPENING) && log_extent[g] != NO_EXTENT && \
		acked[g] < sent[log_extent[g]] && ALL_TOLD(g) -> gateway_ack(g) }
	:: d_step { IS_SERVING(g) && MAY_SERVE(g) && must != view[g] -> gateway_read(g) }
	:: d_step { CAN_OPEN(g, 7) && (WANTS_OPEN(g) || IS_BROKEN(g)) -> gateway_create(g, 7) }
	:: d_step { CAN_OPEN(g, 3) && !up[2] && (WANTS_OPEN(g) || IS_BROKEN(g)) -> gateway_create(g, 3) }
	:: d_step { CAN_OPEN(g, 5) && !up[1] && (WANTS_OPEN(g) || IS_BROKEN(g)) -> gateway_create(g, 5) }
	:: d_step { CAN_OPEN(g, 6) && !up[0] && (WANTS_OPEN(g) || IS_BROKEN(g)) -> gateway_create(g, 6) }
	/* A slow node is left behind. */
	:: d_step { CAN_OPEN(g, 3) && IS_SERVING(g) && log_extent[g] != NO_EXTENT && \
		acked[g] < sent[log_extent[g]] && slow < SLOW -> \
		slow++; gateway_create(g, 3) }
	:: d_step { phase[g] == G_OPENING && manifest_epoch == epoch[g] -> gateway_open(g) }
	:: d_step { phase[g] == G_OPENING && manifest_epoch > epoch[g] -> gateway_reset(g) }
	GATEWAY_TELL(g, 0, 0)
	GATEWAY_TELL(g, 0, 1)
	GATEWAY_TELL(g, 0, 2)
	GATEWAY_TELL(g, 1, 0)
	GATEWAY_TELL(g, 1, 1)
	GATEWAY_TELL(g, 1, 2)

	/* Given back in order; or it crashes, and is another boot. */
	:: d_step { IS_SERVING(g) && root_owner == g && root_epoch == epoch[g] && \
		root_epoch < EPOCHS -> root_owner = NOBODY; gateway_reset(g) }
	:: d_step { phase[g] != G_IDLE && gateway_crashes < GATEWAY_CRASHES -> \
		gateway_crashes++; gateway_reset(g) }
	od
}

init {
	d_step {
		extent_epoch[0] = 1;
		extent_nodes[0] = 7;
		extent_len[0] = OPEN_LEN;
		do
		:: i < NODES ->
			up[i] = true;
			fence[i] = 1;
			copy_state[COPY(0, i)] = C_OPEN;
			i++
		:: else -> break
		od;
		SCRATCH();
		log_extent[0] = NO_EXTENT;
		log_extent[1] = NO_EXTENT;
		gateway_reset(1);
		gateway_reset(0);
		phase[0] = G_SERVING;
		epoch[0] = 1;
		log_extent[0] = 0;
	};
	atomic {
		run node(0);
		run node(1);
		run node(2);
		run gateway(0);
		run gateway(1)
	}
}
