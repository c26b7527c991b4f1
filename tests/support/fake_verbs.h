/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_verbs.h -- libibverbs and librdmacm without a device, put in their place when a test is linked
 *
 * One process, one device, any address. A send is delivered when it is posted, or waits for a receive
 * (and is counted: our transport never lets it). Any call can be made to fail, any event to come.
 */
#ifndef CLEAVE_TESTS_FAKE_VERBS_H
#define CLEAVE_TESTS_FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

struct fake_verbs {
	/* The @fail_nth call (1: the next) of the function @fail_name fails with @fail_errno. */
	const char *fail_name;
	uint32_t fail_nth;
	int fail_errno;
	uint32_t fail_count; /* calls that failed so */
	/* The device's limits. */
	int max_sge, max_cqe, max_srq_wr;
	bool has_no_inline;
	uint64_t max_dm_size;           /* memory of its own; 0: none */
	bool has_dmabuf;                /* can register one */
	bool has_no_device;             /* at this address */
	bool is_address_elsewhere;      /* bound to, it leads to another device */
	bool is_deaf;                   /* the peers acknowledge nothing */
	bool is_stuck;                  /* what is in error is not given back */
	enum ibv_wc_status next_status; /* of the next send, once; its queue pair fails */
	bool is_for_one_sided;          /* but only of a read or write of the peer's memory */
	/* An enemy on the wire. A message lies in the peer's receive; private data is about to be told. */
	void (
	    *on_message)(uint32_t to_number, const struct ibv_recv_wr *receive, struct ibv_wc *wc);
	void (*on_private_data)(enum rdma_cm_event_type type, uint8_t *data);
	/* Counts of what happened. */
	uint32_t not_ready_count; /* sends that met no receive */
	uint32_t refused_count;   /* reads and writes of memory that the peer's keys do not allow */
	uint32_t post_count;      /* calls of ibv_post_send */
	uint32_t srq_post_count;  /* calls of ibv_post_srq_recv */
	uint32_t arm_count;       /* calls of ibv_req_notify_cq */
	uint32_t wr_count, signaled_count, inline_count, sge_count_max;
	uint32_t source_ip;    /* of the last connection: asked for, or 10.0.0.9 */
	uint32_t bound_count;  /* connections for which it was asked for */
	uint32_t object_count; /* everything made and not yet destroyed */
};
extern struct fake_verbs fake_verbs;

/* Shared by the files of the fake. */
#define FAKE_CONTEXTS 8u
extern struct verbs_context fake_device_contexts[FAKE_CONTEXTS];
extern uint32_t fake_device_index; /* of the device that is there, or was there last */
#define fake_context fake_device_contexts[fake_device_index].context
bool fake_must_fail(const char *name);
void *fake_make(size_t bytes);
int fake_unmake(void *object);

/* A memory region. */
struct fake_mr {
	struct ibv_mr ibv;
	unsigned access;
	uint64_t begin;  /* its first address, as work requests and peers say it */
	uint8_t *memory; /* that this is */
	void *mapping;   /* of a dmabuf */
};
struct fake_mr *fake_mr_find(uint32_t key);
bool fake_mr_has(const struct fake_mr *mr, uint64_t address, uint64_t bytes);
/* fake_entries_check -- they are what their keys say: our transport never gets that wrong. */
void fake_entries_check(const struct ibv_sge *sges, int count);
/* fake_entry_memory -- where it is; inline data has no key. */
uint8_t *fake_entry_memory(const struct ibv_sge *entry);
void fake_memory_reset(void);

void fake_verbs_reset(void);
/* fake_verbs_cm_event -- to the connection of the queue pair with number @number. */
void fake_verbs_cm_event(uint32_t number, enum rdma_cm_event_type type);
/* fake_verbs_async_event -- of the device; @number of a queue pair, or 0. */
void fake_verbs_async_event(enum ibv_event_type type, uint32_t number);
/* fake_verbs_time_out -- what is_deaf holds back ends with its retries exhausted. */
void fake_verbs_time_out(void);
/*
 * fake_verbs_remove -- the device goes: whoever uses it is told, and whatever is asked of it fails
 *
 * fake_verbs_return -- one comes; nothing of the last may be left.
 */
void fake_verbs_remove(void);
void fake_verbs_return(void);
/* fake_verbs_is_let_go -- whether the files of the device that was the @index-th are closed. */
bool fake_verbs_is_let_go(uint32_t index);
/* fake_verbs_access -- what the peers of the queue pair with number @number may do: IBV_ACCESS_REMOTE_*. */
unsigned fake_verbs_access(uint32_t number);
/* fake_verbs_break -- as if the device had put @number into the error state. */
void fake_verbs_break(uint32_t number);

#endif /* CLEAVE_TESTS_FAKE_VERBS_H */
