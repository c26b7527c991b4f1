/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_data_key.c -- arbitrary bytes as a wrapped data key, as the metadata store might return it
 *
 * What is let through encodes to what decodes alike; what is refused names a field.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cleave/meta.h"
#include "middletier/catalog/data_key.h"
#include "middletier/catalog/numbers.h"

#define KEY "keys/0000000009"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct mt_data_key data_key = { .version = 1 }, again = { .version = 1 };
	const char *field = NULL;
	char *text;

	if (bytes > META_VALUE_BYTES_MAX)
		return 0;
	if (mt_data_key_decode(KEY, data, (uint32_t)bytes, &data_key, &field) != 0) {
		assert(field != NULL && field[0] != '\0');
		return 0;
	}
	assert(data_key.id == 9 && data_key.volume >= 1 && data_key.volume <= MT_NUMBER_MAX);
	assert(data_key.wrapped_bytes >= 1 && data_key.wrapped_bytes <= MT_WRAPPED_BYTES_MAX);
	assert(mt_kek_name_check(data_key.kek) == NULL);
	text = mt_data_key_encode(&data_key);
	assert(text != NULL);
	assert(mt_data_key_decode(KEY, text, (uint32_t)strlen(text), &again, &field) == 0);
	assert(memcmp(&again, &data_key, sizeof(again)) == 0);
	free(text);
	return 0;
}
