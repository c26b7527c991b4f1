/* SPDX-License-Identifier: Apache-2.0 */
/* encrypted.c -- see encrypted.h */
#include "encrypted.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "base/random.h"
#include "check.h"
#include "cleave/batch.h"
#include "cleave/engine.h"
#include "cleave/keyring.h"
#include "cleave/loop.h"
#include "cluster.h"
#include "middletier/common/port.h"
#include "middletier/session/session.h"
#include "run.h"
#include "splitlib/sim/loop_sim.h"

#define ENCRYPTED_SALT UINT64_C(1684)
#define ENCRYPTED_SEEDS 8u
#define KEYS_MAX 64u
#define KEYS_LATE_NS NUM_S(8)
#define NONCES_MIN 4096u
#define NONCE_BYTES 20u /* key id, salt, counter, as an envelope has them from byte 4 on */
#define STAMPS_MAX 8u   /* blocks that are looked for in all copies */
#define STAMP_BYTES 16u
#define HEAD_BYTES 24u
#define AAD_BYTES 40u
#define TAG_BYTES 16u
#define SLOT_HEAD_BYTES 12288u /* ONDISK.md: batches begin behind it */

struct nonce {
	uint8_t bytes[NONCE_BYTES]; /* all zeros: the slot is free */
	uint32_t stored_crc;
};

struct stamp {
	uint8_t begin[STAMP_BYTES];
	uint64_t volume_segment;
	uint32_t block;
};

/* A gateway's keys, which come late. */
struct late {
	struct sim_encrypted *encrypted;
	struct sim_cluster_gateway *own;
	struct loop_timer timer;
};

struct sim_encrypted {
	struct sim_cluster *cluster;
	uint64_t dice[4];
	struct late late[SIM_GATEWAYS_MAX];
	struct mt_session_host host; /* of all ports: the real one's, and what is done before */
	const struct mt_session_host *real_host;
	struct nonce *nonces; /* open addressing */
	uint64_t nonce_max, nonce_count;
	struct stamp stamps[STAMPS_MAX];
	uint32_t stamp_count;
	uint64_t opened_count;
	uint8_t *extent; /* a copy's bytes */
	uint64_t extent_max;
};

static struct sim_encrypted *encrypting; /* there is one cluster a process */

/* ---- keys ---- */

static void
key_make(uint32_t key_id, uint8_t key[KEYRING_KEY_BYTES])
{
	uint64_t state[4];

	random_seed(state, key_id);
	for (uint32_t i = 0; i < KEYRING_KEY_BYTES; i++)
		key[i] = (uint8_t)random_u64(state);
}

static void
port_put_keys(struct mt_port *port)
{
	uint8_t key[KEYRING_KEY_BYTES];

	if (keyring_count(port->keys) == KEYS_MAX)
		return;
	for (uint32_t key_id = 1; key_id <= KEYS_MAX; key_id++) {
		key_make(key_id, key);
		if (keyring_put(port->keys, key_id, key) != 0)
			sim_cluster_fail(encrypting->cluster, "a key cannot be put");
	}
}

static void
on_messages(struct mt_session *session, struct split_msg *const *msgs, uint32_t count)
{
	/* As main would have said: the volume's key is here, and the session names it. */
	port_put_keys(session->port);
	session->volume.key_id = 1 + (uint32_t)(session->volume.id % KEYS_MAX);
	encrypting->real_host->on_messages(session, msgs, count);
}

static void
on_late(struct loop_timer *timer, void *arg)
{
	struct late *late = arg;
	struct mt_gateway *gateway = late->own->gateway;

	(void)timer;
	for (uint32_t i = 0; gateway != NULL && i < late->encrypted->cluster->options.port_count;
	     i++)
		if (gateway->ports[i].magic != 0 && gateway->ports[i].keys != NULL)
			port_put_keys(&gateway->ports[i]);
}

void
sim_encrypted_on_gateway(struct sim_encrypted *encrypted, struct sim_cluster_gateway *own)
{
	struct late *late;

	if (encrypted == NULL)
		return;
	late = &encrypted->late[own->index];
	late->own = own;
	for (uint32_t i = 0; i < encrypted->cluster->options.port_count; i++) {
		struct mt_port *port = &own->gateway->ports[i];

		if (encrypted->real_host == NULL)
			encrypted->real_host = port->session.host;
		assert(port->session.host == encrypted->real_host);
		encrypted->host = *encrypted->real_host;
		encrypted->host.on_messages = on_messages;
		port->session.host = &encrypted->host;
	}
	loop_timer_start(sim_world_nature(encrypted->cluster->world), &late->timer,
	    1 + random_below(encrypted->dice, KEYS_LATE_NS));
}

/* When it was chosen, none of those that mutants.tsv and regressions.tsv name. */
bool
sim_encrypted_is_in(uint64_t seed)
{
	return sim_run_hash(seed, ENCRYPTED_SALT) % ENCRYPTED_SEEDS == 0;
}

struct sim_encrypted *
sim_encrypted_create(struct sim_cluster *cluster, uint64_t seed)
{
	struct sim_encrypted *encrypted = calloc(1, sizeof(*encrypted));

	assert(encrypted != NULL && encrypting == NULL);
	encrypted->cluster = cluster;
	random_seed(encrypted->dice, seed ^ UINT64_C(0x656e6372797074));
	for (uint32_t i = 0; i < SIM_GATEWAYS_MAX; i++) {
		encrypted->late[i].encrypted = encrypted;
		loop_timer_init(&encrypted->late[i].timer, on_late, &encrypted->late[i]);
	}
	encrypted->nonce_max = NONCES_MIN;
	encrypted->nonces = calloc(encrypted->nonce_max, sizeof(*encrypted->nonces));
	assert(encrypted->nonces != NULL);
	encrypting = encrypted;
	cluster->encrypted = encrypted;
	return encrypted;
}

void
sim_encrypted_destroy(struct sim_encrypted *encrypted)
{
	if (encrypted == NULL)
		return;
	encrypting = NULL;
	free(encrypted->extent);
	free(encrypted->nonces);
	free(encrypted);
}

/* ---- nonces ---- */

static struct nonce *
nonce_slot(struct nonce *nonces, uint64_t max, const uint8_t bytes[NONCE_BYTES])
{
	static const uint8_t nothing[NONCE_BYTES];
	uint64_t at = crc32c(0, bytes, NONCE_BYTES) % max;

	while (memcmp(nonces[at].bytes, nothing, NONCE_BYTES) != 0 &&
	    memcmp(nonces[at].bytes, bytes, NONCE_BYTES) != 0)
		at = (at + 1) % max;
	return &nonces[at];
}

static void
nonces_grow(struct sim_encrypted *encrypted)
{
	static const uint8_t nothing[NONCE_BYTES];
	uint64_t max = encrypted->nonce_max * 2;
	struct nonce *nonces = calloc(max, sizeof(*nonces));

	assert(nonces != NULL);
	for (uint64_t i = 0; i < encrypted->nonce_max; i++)
		if (memcmp(encrypted->nonces[i].bytes, nothing, NONCE_BYTES) != 0)
			*nonce_slot(nonces, max, encrypted->nonces[i].bytes) = encrypted->nonces[i];
	free(encrypted->nonces);
	encrypted->nonces = nonces;
	encrypted->nonce_max = max;
}

/* Is it new? The same record may lie in many places; another one may not have its nonce. */
static bool
nonce_note(struct sim_encrypted *encrypted, const struct record_desc *record,
    const uint8_t *envelope)
{
	struct nonce *nonce;

	if (encrypted->nonce_count * 2 >= encrypted->nonce_max)
		nonces_grow(encrypted);
	nonce = nonce_slot(encrypted->nonces, encrypted->nonce_max, envelope + 4);
	if (memcmp(nonce->bytes, envelope + 4, NONCE_BYTES) != 0) {
		memcpy(nonce->bytes, envelope + 4, NONCE_BYTES);
		nonce->stored_crc = record->stored_crc;
		encrypted->nonce_count++;
		return true;
	}
	if (nonce->stored_crc != record->stored_crc)
		sim_cluster_fail(encrypted->cluster,
		    "encrypted: two records have key %u, counter %u and one salt",
		    num_get_le32(envelope + 4), num_get_le32(envelope + 20));
	return false;
}

/* ---- a record ---- */

static void
record_fail(struct sim_encrypted *encrypted, const struct record_desc *record, const char *what)
{
	sim_cluster_fail(encrypted->cluster,
	    "encrypted: segment %" PRIu64 " block %u (%u blocks): %s", record->segment,
	    record->block, record->block_count, what);
}

/* Opens @record as engines/envelope.h says, by other code than that. @text: its CRCs and the codec's output. */
static void
record_open(struct sim_encrypted *encrypted, const struct record_desc *record,
    const uint8_t *envelope, uint8_t *text)
{
	uint8_t label[15 + ENGINE_SALT_BYTES] = "cleave record 1", aad[AAD_BYTES],
			   nonce[12] = { 0 };
	uint8_t key[KEYRING_KEY_BYTES], subkey[KEYRING_KEY_BYTES];
	const gnutls_datum_t prk = { key, sizeof(key) }, info = { label, sizeof(label) };
	const gnutls_datum_t datum = { subkey, sizeof(subkey) };
	size_t text_bytes = record->stored_bytes - HEAD_BYTES - TAG_BYTES, opened = text_bytes;
	uint8_t *sealed = malloc(text_bytes + TAG_BYTES);
	gnutls_aead_cipher_hd_t cipher = NULL;

	assert(sealed != NULL);
	key_make(num_get_le32(envelope + 4), key);
	memcpy(label + 15, envelope + 8, ENGINE_SALT_BYTES);
	memcpy(nonce, envelope + 20, 4);
	memcpy(aad, envelope, HEAD_BYTES);
	aad[24] = record->kind;
	aad[25] = record->codec_id;
	aad[26] = (uint8_t)record->block_count;
	aad[27] = 0;
	num_put_le64(aad + 28, record->segment);
	num_put_le32(aad + 36, record->block);
	memcpy(sealed, envelope + HEAD_BYTES + TAG_BYTES, text_bytes);
	memcpy(sealed + text_bytes, envelope + HEAD_BYTES, TAG_BYTES);
	if (gnutls_hkdf_expand(GNUTLS_MAC_SHA256, &prk, &info, subkey, sizeof(subkey)) < 0 ||
	    gnutls_aead_cipher_init(&cipher, GNUTLS_CIPHER_AES_256_GCM, &datum) < 0)
		record_fail(encrypted, record, "GnuTLS has no memory");
	if (gnutls_aead_cipher_decrypt(cipher, nonce, sizeof(nonce), aad, sizeof(aad), TAG_BYTES,
		sealed, text_bytes + TAG_BYTES, text, &opened) < 0)
		record_fail(encrypted, record, "it does not open where it lies");
	gnutls_aead_cipher_deinit(cipher);
	free(sealed);
	encrypted->opened_count++;
}

/* A raw block's first bytes, if they are like no other's, and its CRC, are looked for in all that is stored. */
static void
stamp_note(struct sim_encrypted *encrypted, const struct record_desc *record, const uint8_t *text)
{
	const uint8_t *block = text + 4 * record->block_count;
	struct stamp *stamp = &encrypted->stamps[encrypted->stamp_count];
	uint8_t seen[256] = { 0 };
	uint32_t distinct = 0;

	if (encrypted->stamp_count == STAMPS_MAX || ENGINE_CODEC(record->codec_id) != ENGINE_NONE)
		return;
	for (uint32_t i = 0; i < STAMP_BYTES; i++)
		distinct += seen[block[i]]++ == 0;
	if (distinct < STAMP_BYTES / 2)
		return;
	memcpy(stamp->begin, block, STAMP_BYTES);
	stamp->volume_segment = record->segment;
	stamp->block = record->block;
	encrypted->stamp_count++;
}

static void
record_check(struct sim_encrypted *encrypted, const struct record_desc *record,
    const uint8_t *stored)
{
	static uint8_t text[ENGINE_STORED_BYTES_MAX];

	if (record->kind != RECORD_WRITE ||
	    crc32c(0, stored, record->stored_bytes) != record->stored_crc)
		return; /* a tombstone; or bits have flipped, which is another checker's */
	if ((record->codec_id & ENGINE_ENCRYPTED) == 0)
		record_fail(encrypted, record, "it is stored plain");
	for (uint32_t i = 0; i < record->block_count; i++)
		if (record->block_crcs[i] != 0)
			record_fail(encrypted, record, "its descriptor has CRCs");
	if (record->stored_bytes <= ENGINE_ENVELOPE_BYTES(record->block_count))
		record_fail(encrypted, record, "it is too short for an envelope");
	if (!nonce_note(encrypted, record, stored))
		return;
	record_open(encrypted, record, stored, text);
	stamp_note(encrypted, record, text);
}

/* ---- disks ---- */

static void
extent_read(struct sim_encrypted *encrypted, const struct sim_slot *slot, uint64_t bytes)
{
	if (bytes > encrypted->extent_max) {
		free(encrypted->extent);
		encrypted->extent = malloc(bytes);
		assert(encrypted->extent != NULL);
		encrypted->extent_max = bytes;
	}
	disk_sim_peek(encrypted->cluster->nodes[slot->node].disk, slot->data_offset,
	    encrypted->extent, bytes);
}

static void
extent_look_for_stamps(struct sim_encrypted *encrypted, const struct sim_slot *slot, uint64_t bytes)
{
	for (uint32_t i = 0; i < encrypted->stamp_count; i++) {
		const struct stamp *stamp = &encrypted->stamps[i];

		if (memmem(encrypted->extent, bytes, stamp->begin, STAMP_BYTES) != NULL)
			sim_cluster_fail(encrypted->cluster,
			    "encrypted: node %u has block %u of segment %" PRIu64 " plain",
			    slot->node + 1, stamp->block, stamp->volume_segment);
	}
}

/* The extent's batches from its begin on; false: it is none of records. */
static uint64_t
extent_walk(struct sim_encrypted *encrypted, const struct sim_slot *slot, enum extent_kind kind,
    uint64_t bytes)
{
	uint32_t prev_crc = batch_chain_seed(&slot->id, kind);
	uint64_t offset = 0;

	while (offset < bytes) {
		struct batch_check check = { .id = slot->id,
			.kind = kind,
			.offset_bytes = offset,
			.prev_crc = prev_crc };
		const uint8_t *batch = encrypted->extent + offset;
		struct record_iter it;
		struct record_desc record;
		const char *field;

		if (batch_check_run(batch, (uint32_t)num_min(bytes - offset, BATCH_BYTES_MAX),
			&check) != 0)
			break;
		record_iter_init(&it, batch, &check.info);
		while (record_iter_next(&it, &record, &field) == 1)
			record_check(encrypted, &record, batch + record.payload_offset_bytes);
		prev_crc = check.info.batch_crc;
		offset += check.info.batch_bytes;
	}
	return offset;
}

static bool
on_slot(const struct sim_slot *slot, void *arg)
{
	struct sim_encrypted *encrypted = arg;
	uint64_t bytes = encrypted->cluster->options.slot_bytes - SLOT_HEAD_BYTES;
	uint64_t used;

	extent_read(encrypted, slot, bytes);
	used = extent_walk(encrypted, slot, EXTENT_LOG, bytes);
	if (used == 0)
		used = extent_walk(encrypted, slot, EXTENT_RUN, bytes);
	extent_look_for_stamps(encrypted, slot, used);
	return true;
}

void
sim_encrypted_check(struct sim_encrypted *encrypted)
{
	if (encrypted == NULL)
		return;
	for (uint32_t i = 0; i < encrypted->cluster->options.node_count; i++)
		(void)sim_check_each_slot(encrypted->cluster, i, on_slot, encrypted);
}

void
sim_encrypted_finish(struct sim_encrypted *encrypted)
{
	sim_encrypted_check(encrypted);
	if (encrypted != NULL && encrypted->opened_count == 0)
		sim_cluster_fail(encrypted->cluster, "encrypted: no record was found that is");
}
