/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dev_ptr.h -- an address in device memory
 *
 * Device memory is memory registered with the device: pinned host pages today (the soft device),
 * on-NIC or GPU memory tomorrow. Host code carries a dev_ptr about and does arithmetic on it; only
 * transports, engines and the disk seam turn it into something that can be read (invariant I1). The
 * member's name is long so that the tidy test finds whoever reaches for it elsewhere.
 */
#ifndef CLEAVE_DEV_PTR_H
#define CLEAVE_DEV_PTR_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
	uintptr_t device_address_private; /* 0: no memory */
} dev_ptr;

#ifdef __cplusplus
#define DEV_PTR_NULL (dev_ptr{ 0 })
#else
#define DEV_PTR_NULL ((dev_ptr){ 0 })
#endif

/*
 * dev_ptr_is_null -- is there no memory at @p?
 *
 * Ownership: nothing changes hands.
 * Returns:   true of DEV_PTR_NULL alone.
 * Errors:    none.
 * Threads:   any.
 */
static inline bool
dev_ptr_is_null(dev_ptr p)
{
	return p.device_address_private == 0;
}

/*
 * dev_ptr_add -- the address @offset_bytes behind @p
 *
 * Whether there is memory is not checked. Not for DEV_PTR_NULL.
 * Ownership: nothing changes hands: what is behind @p is whose @p's memory is.
 * Returns:   the address.
 * Errors:    none.
 * Threads:   any.
 */
static inline dev_ptr
dev_ptr_add(dev_ptr p, uint64_t offset_bytes)
{
	p.device_address_private += (uintptr_t)offset_bytes;
	return p;
}

/* A piece of device memory; gather lists are made of them. */
struct dev_piece {
	dev_ptr ptr;
	uint32_t bytes;
};

#endif /* CLEAVE_DEV_PTR_H */
