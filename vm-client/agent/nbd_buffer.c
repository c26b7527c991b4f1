/* SPDX-License-Identifier: Apache-2.0 */
/* nbd_buffer.c -- memory of requests: they and small buffers are kept, large ones go back to the system */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "nbd.h"

#define BUFFER_ALIGN 4096u
#define BUFFER_KEPT_BYTES_MAX NUM_MIB(64)

static uint32_t
class_of(uint64_t bytes)
{
	uint32_t class = 0;

	while (((uint64_t)BUFFER_ALIGN << class) < bytes)
		class ++;
	assert(class < NBD_BUFFER_CLASSES);
	return class;
}

void *
nbd_buffer_get(struct nbd_buffers *buffers, uint64_t bytes)
{
	uint32_t class = class_of(bytes);
	void *buffer = buffers->free[class];

	assert(buffers->spare_bytes <= buffers->free_bytes);
	if (buffer == NULL)
		return client_aligned_alloc(BUFFER_ALIGN, (size_t)BUFFER_ALIGN << class);
	/* The next free one is named in the first bytes of this one. */
	buffers->free[class] = *(void **)buffer;
	buffers->free_bytes -= (uint64_t)BUFFER_ALIGN << class;
	buffers->spare_bytes = num_min(buffers->spare_bytes, buffers->free_bytes);
	return buffer;
}

void
nbd_buffer_put(struct nbd_buffers *buffers, void *buffer, uint64_t bytes)
{
	uint64_t class_bytes;
	uint32_t class;

	assert(buffers->free_bytes <= BUFFER_KEPT_BYTES_MAX);
	if (buffer == NULL)
		return;
	class = class_of(bytes);
	class_bytes = (uint64_t)BUFFER_ALIGN << class;
	if (buffers->free_bytes + class_bytes > BUFFER_KEPT_BYTES_MAX) {
		free(buffer);
		return;
	}
	*(void **)buffer = buffers->free[class];
	buffers->free[class] = buffer;
	buffers->free_bytes += class_bytes;
}

struct nbd_request *
nbd_buffer_get_request(struct nbd_buffers *buffers)
{
	const size_t behind = offsetof(struct nbd_request, io_next);
	struct nbd_request *request = buffers->free_request;

	if (request == NULL)
		return client_calloc(1, sizeof(*request));
	buffers->free_request = *(void **)request;
	buffers->free_request_count--;
	/* The ios are most of it, and the cost of a clean request. */
	memset(request, 0, offsetof(struct nbd_request, ios));
	memset((uint8_t *)request + behind, 0, sizeof(*request) - behind);
	return request;
}

void
nbd_buffer_put_request(struct nbd_buffers *buffers, struct nbd_request *request)
{
	assert(buffers->free_request_count <= NBD_REQUESTS_KEPT_MAX);
	assert(request->magic == 0);
	if (buffers->free_request_count == NBD_REQUESTS_KEPT_MAX) {
		free(request);
		return;
	}
	*(void **)request = buffers->free_request;
	buffers->free_request = request;
	buffers->free_request_count++;
}

/* The largest first: they are the fewest calls. */
uint64_t
nbd_buffers_trim(struct nbd_buffers *buffers)
{
	uint64_t given_bytes = 0;

	assert(buffers->spare_bytes <= buffers->free_bytes);
	for (uint32_t class = NBD_BUFFER_CLASSES; class -- > 0;) {
		uint64_t class_bytes = (uint64_t)BUFFER_ALIGN << class;

		while (buffers->free[class] != NULL &&
		    given_bytes + class_bytes <= buffers->spare_bytes) {
			void *buffer = buffers->free[class];

			buffers->free[class] = *(void **)buffer;
			free(buffer);
			given_bytes += class_bytes;
		}
	}
	buffers->free_bytes -= given_bytes;
	buffers->spare_bytes = buffers->free_bytes;
	return given_bytes;
}

void
nbd_buffers_fini(struct nbd_buffers *buffers)
{
	for (uint32_t class = 0; class < NBD_BUFFER_CLASSES; class ++) {
		while (buffers->free[class] != NULL) {
			void *buffer = buffers->free[class];

			buffers->free[class] = *(void **)buffer;
			free(buffer);
		}
	}
	buffers->free_bytes = buffers->spare_bytes = 0;
	while (buffers->free_request != NULL) {
		struct nbd_request *request = buffers->free_request;

		buffers->free_request = *(void **)request;
		free(request);
	}
	buffers->free_request_count = 0;
}
