/* SPDX-License-Identifier: Apache-2.0 */
/* dev_ptr_raw.h -- a device address as this machine's: for transports and the guarded copies (I1) */
#ifndef CLEAVE_SPLIT_DEV_PTR_RAW_H
#define CLEAVE_SPLIT_DEV_PTR_RAW_H

#include "cleave/dev_ptr.h"

static inline void *
dev_ptr_raw(dev_ptr p)
{
	return (void *)p.device_address_private;
}

static inline dev_ptr
dev_ptr_of(const void *memory)
{
	return (dev_ptr){ (uintptr_t)memory };
}

#endif /* CLEAVE_SPLIT_DEV_PTR_RAW_H */
