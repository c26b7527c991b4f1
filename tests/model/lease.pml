/* SPDX-License-Identifier: Apache-2.0
 *
 * lease.pml -- read leases: who may read a block by itself, and who waits for it; tests/model/run checks it
 *
 * Two gateways of which one owns the shard, one block of one volume, two sessions: A has the volume, B takes it
 * later (a newer attach) and changes the block. A reads by itself while it has a lease.
 *
 *	time      goes on by ticks. A lease, a port's note of it and a claim's wait are counters that each tick
 *	          lessens: this is all that clocks do, and drift is in the client's part (it counts less than D).
 *	          Nothing must happen when a counter is 0: whoever waits may wait longer, and a process that
 *	          makes no step is a pause
 *	grant     an answer carries it. The client counts from when it had sent the request, the port notes from
 *	          when it answers; the answer may arrive later, or never
 *	gateway   its own lease at the store (I7) may end at any time while it believes to serve; only then, when it
 *	          gives the shard away, or when its process has died, another claim succeeds. A start forgets sessions
 *	          and notes
 *	change    is acknowledged in two steps: it is stored (refused by nodes if its owner's epoch is not the newest,
 *	          I6), then answered under the owner's lease (I7)
 *
 * With -DROLL_BACK there is no B: somebody gives the volume an attach number of nobody (a fence), waits until each gateway
 * has read of it or has no lease, then D; then the content changes. With -DREADS the same is done before B may come, and B
 * finds a volume of which "there are no leases": a new owner takes its changes at once. There a gateway has read of all
 * attaches before it serves what it claims, as it does.
 *
 * What is asserted:
 *
 *	proof     when a change of B's is acknowledged, A has no lease: what A reads by itself is the newest
 *	kept      what A reads by itself is the newest that anybody was told of. A reads what it knows of the block,
 *	          from an answer of the owner whose lease it has: knowledge and lease are of one epoch
 *
 * Bounds, and mutants (each must be found), come by -D.
 */
#ifndef D /* ticks that a lease lasts */
#define D 2
#endif
#ifndef EPOCHS /* the last one; 1 is serving when the model starts */
#define EPOCHS 3
#endif
#ifndef CRASHES /* of gateways */
#define CRASHES 1
#endif

#define A 0
#define B 1
#define NOBODY 3

/* A session at a port. */
#define S_NONE 0
#define S_WAITING 1 /* Rule S: until older sessions' leases here are over */
#define S_READY 2

/* ---- the metadata store ---- */

byte root_epoch = 1;
byte root_owner = 0;
bool is_taken = false;       /* B's attach is durable */

/* ---- gateways ---- */

byte epoch[2];               /* that it serves under; 0: it does not serve */
bool has_lease[2];           /* its own, at the store: nobody else may claim while it has it */
byte claim_left[2];          /* Rule C: changes are answered when it is 0 */
bool knows_taken[2];         /* it has read of B's attach */
byte session_a[2], session_b[2];
byte note_left[2];           /* the end of A's lease here; the port's word for it */
byte stored[2];              /* a change of B's that all replicas have, unanswered: its epoch; 0: none */

/* ---- A ---- */

byte asked_at = NOBODY;      /* a request of A's is out: at which gateway */
bool is_asked;               /* it has not arrived yet */
byte answer = 0;             /* epoch of the grant that is under way to A; 0: none */
bool is_answer_told;         /* it tells what the block holds ... */
bool answer_value;           /* ... this */
byte asked_left = 0;         /* a lease that began when the request was sent would last so long yet */
byte lease_left = 0, lease_epoch = 0;
byte known_epoch = 0;        /* who told A what the block holds; 0: nobody */
bool known_value = 0;
bool is_closing = false;     /* RETURN was sent: A reads no more, and takes no grant */
bool is_return_out = false;
byte return_at = NOBODY;

/* ---- the world ---- */

bool newest = 0;             /* B's change was acknowledged */
byte crashes = 0;
bool is_told = false;        /* the fence: each gateway has read of it, or has no lease; */
byte fence_left = 0;         /* then this is waited for; */
bool is_over = false;        /* then it is over */

#define TICK(x) if :: x > 0 -> x = x - 1 :: else fi

#ifdef M_NEWCOMER_UNWAITED
#define NOTE_OVER(g) true
#else
#define NOTE_OVER(g) (note_left[g] == 0)
#endif
#ifdef M_CLAIM_UNWAITED
#define CLAIM_OVER(g) true
#else
#define CLAIM_OVER(g) (claim_left[g] == 0)
#endif
#ifdef M_GRANT_UNLEASED
#define MAY_GRANT(g) true
#else
#define MAY_GRANT(g) has_lease[g]
#endif

#ifdef M_EPOCH_IGNORED
#define KNOWS_UNDER_LEASE (known_epoch != 0)
#else
#define KNOWS_UNDER_LEASE (known_epoch == lease_epoch)
#endif

#if defined(ROLL_BACK) || defined(READS)
#define FENCED
#endif
#ifdef M_FENCE_UNTOLD
#define TOLD(g) true
#else
#define TOLD(g) (knows_taken[g] || !has_lease[g])
#endif
#ifdef M_FENCE_UNWAITED
#define FENCE_WAIT 0
#else
#define FENCE_WAIT D
#endif
/* Of a volume that is read at gateways alone nobody waits after a claim. */
#ifdef READS
#define MAY_CHANGE(g) true
#ifdef M_READS_UNFENCED
#define MAY_COME is_taken
#else
#define MAY_COME is_over
#endif
#else
#define MAY_CHANGE(g) CLAIM_OVER(g)
#define MAY_COME is_taken
#endif

#define IS_OWNER(g) (root_owner == g && root_epoch == epoch[g])

proctype time()
{
	do
	:: d_step {
		TICK(lease_left);
		TICK(asked_left);
		TICK(note_left[0]);
		TICK(note_left[1]);
		TICK(claim_left[0]);
		TICK(claim_left[1]);
		TICK(fence_left);
	}
	od
}

proctype gateway(byte g)
{
	do
	/* Its lease ends; it has not noticed yet. */
	:: has_lease[g] && root_owner == g -> has_lease[g] = false
	/* It notices, or gives the shard away while it has its lease. */
	:: d_step { epoch[g] != 0 -> epoch[g] = 0; stored[g] = 0 }
	/* Killed, and started again: sessions, notes and what was stored unanswered are forgotten. */
	:: d_step {
		crashes < CRASHES ->
		crashes++;
		epoch[g] = 0;
		stored[g] = 0;
		has_lease[g] = false;
		session_a[g] = S_NONE;
		session_b[g] = S_NONE;
		note_left[g] = 0;
		claim_left[g] = 0;
		knows_taken[g] = is_taken
	}
	/* A claim: the owner has no lease, or serves no more. */
	:: d_step {
		root_epoch < EPOCHS && epoch[g] == 0 &&
		    (!has_lease[root_owner] || epoch[root_owner] == 0) ->
		root_epoch++;
		root_owner = g;
		epoch[g] = root_epoch;
		has_lease[g] = true;
		claim_left[g] = D;
#ifdef FENCED
		knows_taken[g] = is_taken;
		session_a[g] = (is_taken -> S_NONE : session_a[g]);
#endif
	}
	/* It reads of the attach, and closes A. */
	:: d_step { is_taken && !knows_taken[g] -> knows_taken[g] = true; session_a[g] = S_NONE }
	/* A's request is answered, with a lease where the gateway may give one. */
	:: atomic {
		asked_at == g && is_asked && session_a[g] == S_READY && epoch[g] != 0 &&
		    MAY_GRANT(g) ->
		is_asked = false;
		answer = epoch[g];
		if
		:: is_answer_told = true
		:: is_answer_told = false
		fi;
		answer_value = (is_answer_told && newest);
		note_left[g] = D
	}
	/* A's RETURN arrives. */
	:: d_step {
		is_return_out && return_at == g && session_a[g] == S_READY ->
		is_return_out = false;
		note_left[g] = 0
	}
	/* B's hello is admitted. */
	:: d_step {
		session_b[g] == S_WAITING && NOTE_OVER(g) -> session_b[g] = S_READY
	}
	/* B's change is stored by all replicas: none has been told of a newer epoch. */
	:: d_step {
		session_b[g] == S_READY && epoch[g] != 0 && IS_OWNER(g) && stored[g] == 0 &&
		    newest == 0 ->
		stored[g] = epoch[g]
	}
	/* It is answered. */
	:: d_step {
		stored[g] != 0 && stored[g] == epoch[g] && has_lease[g] && MAY_CHANGE(g) ->
		assert(lease_left == 0); /* the proof */
		newest = 1;
		stored[g] = 0
	}
	od
}

proctype session_old()
{
	do
	/* It connects where it is not known that the volume has another writer. */
	:: d_step { !knows_taken[0] && session_a[0] == S_NONE -> session_a[0] = S_READY }
	:: d_step { !knows_taken[1] && session_a[1] == S_NONE -> session_a[1] = S_READY }
	/* It sends a request. */
	:: atomic {
		asked_at == NOBODY && !is_closing &&
		    (session_a[0] == S_READY || session_a[1] == S_READY) ->
		if
		:: session_a[0] == S_READY -> asked_at = 0
		:: session_a[1] == S_READY -> asked_at = 1
		fi;
		is_asked = true;
		asked_left = D
	}
	/* It is given up: its answer will not be read. */
	:: d_step {
		asked_at != NOBODY ->
		asked_at = NOBODY;
		is_asked = false;
		answer = 0;
		is_answer_told = false;
		answer_value = 0;
		asked_left = 0
	}
	/* Its answer. A grant counts from when the request was sent. */
	:: d_step {
		answer != 0 ->
#ifdef M_COUNTED_FROM_ANSWER
		asked_left = D;
#endif
		if
#ifdef M_GRANT_AFTER_RETURN
		:: true ->
#else
		:: !is_closing ->
#endif
			lease_left = (answer != lease_epoch || asked_left > lease_left ->
			    asked_left : lease_left);
			lease_epoch = answer
		:: else
		fi;
		if
		:: is_answer_told -> known_epoch = answer; known_value = answer_value
		:: else
		fi;
		answer = 0;
		is_answer_told = false;
		answer_value = 0;
		asked_at = NOBODY;
		asked_left = 0
	}
	/* It reads by itself. */
	:: d_step {
		lease_left > 0 && KNOWS_UNDER_LEASE ->
		assert(known_value == newest) /* kept */
	}
	/* It closes, and says so: to one gateway; the other one's note runs out. */
	:: atomic {
		!is_closing ->
		is_closing = true;
#ifndef M_RETURN_KEPT
		lease_left = 0;
		lease_epoch = 0;
		known_epoch = 0;
		known_value = 0;
#endif
		is_return_out = true;
		if
		:: return_at = 0
		:: return_at = 1
		fi
	}
	od
}

#ifdef FENCED
proctype fence()
{
	do
	:: !is_taken -> is_taken = true
	:: d_step {
		is_taken && !is_told && TOLD(0) && TOLD(1) ->
		is_told = true;
		fence_left = FENCE_WAIT
	}
	:: d_step { is_told && fence_left == 0 && !is_over -> is_over = true }
#ifdef ROLL_BACK
	:: d_step {
		is_over && newest == 0 ->
		assert(lease_left == 0); /* the proof */
		newest = 1
	}
#endif
	od
}
#endif

proctype session_new()
{
	do
#ifndef FENCED
	:: !is_taken -> is_taken = true
#endif
	/* Its hello: a port closes A at once, and lets B in later. */
	:: d_step {
		MAY_COME && session_b[0] == S_NONE ->
		knows_taken[0] = true;
		session_a[0] = S_NONE;
		session_b[0] = S_WAITING
	}
	:: d_step {
		MAY_COME && session_b[1] == S_NONE ->
		knows_taken[1] = true;
		session_a[1] = S_NONE;
		session_b[1] = S_WAITING
	}
	od
}

init {
	d_step {
		epoch[0] = 1;
		has_lease[0] = true;
		has_lease[1] = true;
		session_a[0] = S_READY
	}
	atomic {
		run time();
		run gateway(0);
		run gateway(1);
		run session_old();
#ifdef FENCED
		run fence();
#endif
#ifndef ROLL_BACK
		run session_new()
#endif
	}
}
