/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ondisk.c -- pages encoded and decoded; see ondisk.h and ONDISK.md
 *
 * Every page begins with the same 32 bytes: what it is, which version, whose disk, and a CRC-32C of
 * the bytes that mean something. A page that names another disk is as good as unwritten: a disk that
 * was formatted anew still holds pages of its former life.
 *
 * Slot and state pages keep all their meaning in the first sector and their CRC covers it alone: a
 * power loss that tears the page at a sector leaves either the old page or the new one. Superblocks
 * too. Fence pages are longer, and rely on their second copy; claim pages are, too, and may be lost.
 */
#include "ondisk.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/field.h"
#include "base/num.h"
#include "cleave/wire.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "pages are used as they are stored");
_Static_assert(ONDISK_FENCE_PAGES *ONDISK_FENCE_SHARDS == CLEAVE_SHARDS_MAX, "a fence a shard");
_Static_assert(ONDISK_CLAIM_PAGES *ONDISK_CLAIM_SHARDS >= CLEAVE_SHARDS_MAX, "a claim a shard");
_Static_assert(ONDISK_SLOTS_MAX <= WIRE_LIST_CURSOR_MAX, "a list's cursor is a slot");

#define MAGIC_SUPER 0x314b5344564c4321u /* "!CLVDSK1" */
#define MAGIC_FENCE 0x31434e46564c4321u /* "!CLVFNC1" */
#define MAGIC_CLAIM 0x314d4c43564c4321u /* "!CLVCLM1" */
#define MAGIC_SLOT 0x31544c53564c4321u  /* "!CLVSLT1" */
#define MAGIC_STATE 0x31415453564c4321u /* "!CLVSTA1" */

struct page_prefix {
	uint64_t magic;                       /*  0 */
	uint32_t version;                     /*  8 */
	uint32_t crc;                         /* 12 of the page's covered bytes, this field zero */
	uint8_t disk_uuid[ONDISK_UUID_BYTES]; /* 16 */
} __attribute__((packed));
_Static_assert(sizeof(struct page_prefix) == 32, "page prefix");
_Static_assert(offsetof(struct page_prefix, crc) == 12, "page prefix");

struct super_disk {
	struct page_prefix prefix; /*  0 */
	uint64_t cluster_id;       /* 32 */
	uint64_t slot_bytes;       /* 40 */
	uint64_t created_unix_ns;  /* 48 */
	uint64_t generation;       /* 56 */
	uint32_t node_id;          /* 64 */
	uint32_t slot_count;       /* 68 */
	uint32_t flags;            /* 72 SUPER_FLAG_* */
	uint8_t reserved[436];     /* 76 zeros */
} __attribute__((packed));
_Static_assert(sizeof(struct super_disk) == ONDISK_SECTOR_BYTES, "superblock");
_Static_assert(offsetof(struct super_disk, generation) == 56, "superblock");
_Static_assert(offsetof(struct super_disk, reserved) == 76, "superblock");

#define SUPER_FLAG_FAILED 1u

struct fence_disk {
	struct page_prefix prefix;            /*  0 */
	uint64_t generation;                  /* 32 */
	uint32_t page_index;                  /* 40 */
	uint32_t shard_count;                 /* 44 ONDISK_FENCE_SHARDS */
	uint64_t store_high;                  /* 48 of page 0; else 0 */
	uint64_t store_low;                   /* 56 */
	uint32_t epochs[ONDISK_FENCE_SHARDS]; /* 64 */
	uint8_t tail[1984];                   /* 2112 zeros */
} __attribute__((packed));
_Static_assert(sizeof(struct fence_disk) == ONDISK_PAGE_BYTES, "fence page");
_Static_assert(offsetof(struct fence_disk, store_high) == 48, "fence page");
_Static_assert(offsetof(struct fence_disk, epochs) == 64, "fence page");

struct claim_disk {
	uint32_t epoch;   /* 0 */
	uint64_t gateway; /* 4 */
} __attribute__((packed));

struct claims_disk {
	struct page_prefix prefix;                     /*  0 */
	uint32_t page_index;                           /* 32 */
	uint32_t shard_count;                          /* 36 ONDISK_CLAIM_SHARDS */
	struct claim_disk claims[ONDISK_CLAIM_SHARDS]; /* 40 */
} __attribute__((packed));
_Static_assert(sizeof(struct claims_disk) == ONDISK_PAGE_BYTES, "claim page");
_Static_assert(offsetof(struct claims_disk, claims) == 40, "claim page");

struct slot_disk {
	struct page_prefix prefix; /*  0 */
	uint64_t incarnation;      /* 32 */
	uint64_t counter;          /* 40 */
	uint32_t shard;            /* 48 */
	uint32_t epoch;            /* 52 */
	uint32_t create_epoch;     /* 56 */
	uint32_t slot_index;       /* 60 */
	uint8_t kind;              /* 64 */
	uint8_t reserved[447];     /* 65 zeros */
} __attribute__((packed));
_Static_assert(sizeof(struct slot_disk) == ONDISK_SECTOR_BYTES, "slot header");
_Static_assert(offsetof(struct slot_disk, shard) == 48, "slot header");
_Static_assert(offsetof(struct slot_disk, kind) == 64, "slot header");

struct state_disk {
	struct page_prefix prefix; /*   0 */
	uint64_t incarnation;      /*  32 */
	uint64_t counter;          /*  40 */
	uint32_t shard;            /*  48 */
	uint32_t epoch;            /*  52 */
	uint32_t create_epoch;     /*  56 */
	uint32_t slot_index;       /*  60 */
	uint8_t kind;              /*  64 */
	uint8_t state;             /*  65 enum ondisk_slot_state */
	uint16_t flags;            /*  66 STATE_FLAG_* */
	uint32_t freeze_epoch;     /*  68 */
	uint64_t generation;       /*  72 */
	uint64_t length_bytes;     /*  80 */
	uint64_t mark_bytes;       /*  88 */
	uint32_t chain_crc;        /*  96 */
	uint8_t reserved[412];     /* 100 zeros */
} __attribute__((packed));
_Static_assert(sizeof(struct state_disk) == ONDISK_SECTOR_BYTES, "state page");
_Static_assert(offsetof(struct state_disk, generation) == 72, "state page");
_Static_assert(offsetof(struct state_disk, reserved) == 100, "state page");

#define STATE_FLAG_DAMAGED 1u

#define FENCE_OFFSET ((uint64_t)ONDISK_PAGE_BYTES)
#define CLAIMS_OFFSET (FENCE_OFFSET + (uint64_t)ONDISK_PAGE_BYTES * 2 * ONDISK_FENCE_PAGES)
#define SUPER_SECOND_OFFSET ((uint64_t)ONDISK_SLOTS_OFFSET - ONDISK_PAGE_BYTES)
_Static_assert(CLAIMS_OFFSET + (uint64_t)ONDISK_PAGE_BYTES * ONDISK_CLAIM_PAGES <=
	SUPER_SECOND_OFFSET,
    "claims end before the second superblock");

static const uint8_t zeros[ONDISK_PAGE_BYTES];

#define ONDISK_EXPECT(condition, name) FIELD_EXPECT(condition, name, -EBADMSG)

uint64_t
ondisk_super_offset(uint32_t copy)
{
	assert(copy < ONDISK_SUPER_COPIES);
	return copy == 0 ? 0 : SUPER_SECOND_OFFSET;
}

uint64_t
ondisk_fence_offset(uint32_t page_index, uint32_t copy)
{
	assert(page_index < ONDISK_FENCE_PAGES);
	assert(copy < 2);
	return FENCE_OFFSET + (uint64_t)(page_index * 2 + copy) * ONDISK_PAGE_BYTES;
}

uint64_t
ondisk_claims_offset(uint32_t page_index)
{
	assert(page_index < ONDISK_CLAIM_PAGES);
	return CLAIMS_OFFSET + (uint64_t)page_index * ONDISK_PAGE_BYTES;
}

uint64_t
ondisk_slot_offset(const struct ondisk_super *super, uint32_t slot_index)
{
	assert(slot_index < super->slot_count);
	return ONDISK_SLOTS_OFFSET + slot_index * super->slot_bytes;
}

uint64_t
ondisk_state_offset(const struct ondisk_super *super, uint32_t slot_index, uint32_t copy)
{
	assert(copy < 2);
	return ondisk_slot_offset(super, slot_index) + (uint64_t)(1 + copy) * ONDISK_PAGE_BYTES;
}

uint64_t
ondisk_data_offset(const struct ondisk_super *super, uint32_t slot_index)
{
	return ondisk_slot_offset(super, slot_index) + ONDISK_SLOT_HEAD_BYTES;
}

uint64_t
ondisk_capacity(const struct ondisk_super *super)
{
	assert(super->slot_bytes > ONDISK_SLOT_HEAD_BYTES);
	return super->slot_bytes - ONDISK_SLOT_HEAD_BYTES;
}

static bool
ondisk_slot_bytes_is_valid(uint64_t slot_bytes)
{
	return slot_bytes >= ONDISK_SLOT_BYTES_MIN && slot_bytes <= ONDISK_SLOT_BYTES_MAX &&
	    num_is_aligned(slot_bytes, ONDISK_PAGE_BYTES);
}

int
ondisk_super_plan(struct ondisk_super *super, uint64_t capacity_bytes)
{
	uint64_t slots;

	if (!ondisk_slot_bytes_is_valid(super->slot_bytes))
		return -EINVAL;
	if (capacity_bytes < ONDISK_SLOTS_OFFSET + super->slot_bytes)
		return -ENOSPC;
	slots = (capacity_bytes - ONDISK_SLOTS_OFFSET) / super->slot_bytes;
	super->slot_count = (uint32_t)num_min(slots, ONDISK_SLOTS_MAX);
	assert(super->slot_count > 0);
	return 0;
}

/* ---- what all pages share ---- */

static struct page_prefix
prefix_of(uint64_t magic, const struct ondisk_super *super)
{
	struct page_prefix prefix = { .magic = magic, .version = ONDISK_VERSION };

	memcpy(prefix.disk_uuid, super->disk_uuid, sizeof(prefix.disk_uuid));
	return prefix;
}

static uint32_t
page_crc(const void *page, uint32_t covered_bytes)
{
	const uint8_t *bytes = page;
	size_t after = offsetof(struct page_prefix, crc) + sizeof(uint32_t);
	uint32_t crc = crc32c(0, bytes, offsetof(struct page_prefix, crc));

	assert(covered_bytes >= sizeof(struct page_prefix));
	assert(covered_bytes <= ONDISK_PAGE_BYTES);
	crc = crc32c(crc, zeros, sizeof(uint32_t));
	return crc32c(crc, bytes + after, covered_bytes - after);
}

/* Fill @page: the @covered_bytes at @from, zeros behind them, and their CRC in the prefix. */
static void
page_finish(void *page, const void *from, uint32_t covered_bytes)
{
	uint8_t *bytes = page;

	assert(covered_bytes <= ONDISK_PAGE_BYTES);
	memcpy(bytes, from, covered_bytes);
	memset(bytes + covered_bytes, 0, ONDISK_PAGE_BYTES - covered_bytes);
	num_put_le32(bytes + offsetof(struct page_prefix, crc), page_crc(page, covered_bytes));
}

static bool
is_zero(const void *data, size_t bytes)
{
	assert(bytes <= sizeof(zeros));
	return memcmp(data, zeros, bytes) == 0;
}

/* Is @page of the kind @magic, whole, and of this disk (@super NULL: of any)? As decoders return. */
static int
prefix_check(const void *page, uint64_t magic, uint32_t covered_bytes,
    const struct ondisk_super *super, const char **ret_field)
{
	struct page_prefix prefix;

	memcpy(&prefix, page, sizeof(prefix));
	if (is_zero(page, ONDISK_SECTOR_BYTES)) {
		*ret_field = "magic";
		return -ENODATA;
	}
	ONDISK_EXPECT(prefix.magic == magic, "magic");
	ONDISK_EXPECT(prefix.crc == page_crc(page, covered_bytes), "crc");
	ONDISK_EXPECT(prefix.version == ONDISK_VERSION, "version");
	if (super != NULL &&
	    memcmp(prefix.disk_uuid, super->disk_uuid, sizeof(prefix.disk_uuid)) != 0) {
		*ret_field = "disk_uuid";
		return -ENODATA;
	}
	return 0;
}

/* ---- superblock ---- */

void
ondisk_super_encode(void *page, const struct ondisk_super *super)
{
	struct super_disk disk = {
		.prefix = prefix_of(MAGIC_SUPER, super),
		.cluster_id = super->cluster_id,
		.slot_bytes = super->slot_bytes,
		.created_unix_ns = super->created_unix_ns,
		.generation = super->generation,
		.node_id = super->node_id,
		.slot_count = super->slot_count,
		.flags = super->is_failed ? SUPER_FLAG_FAILED : 0,
	};

	assert(ondisk_slot_bytes_is_valid(super->slot_bytes));
	assert(super->slot_count > 0);
	assert(super->slot_count <= ONDISK_SLOTS_MAX);
	assert(super->cluster_id != 0);
	assert(super->node_id != 0);
	page_finish(page, &disk, sizeof(disk));
}

int
ondisk_super_decode(const void *page, uint64_t capacity_bytes, struct ondisk_super *ret_super,
    const char **ret_field)
{
	struct super_disk disk;
	int rc;

	memcpy(&disk, page, sizeof(disk));
	/* A later version may check its pages otherwise: its number is judged before its CRC. */
	if (disk.prefix.magic == MAGIC_SUPER && disk.prefix.version != ONDISK_VERSION) {
		*ret_field = "version";
		return -EPROTONOSUPPORT;
	}
	rc = prefix_check(page, MAGIC_SUPER, sizeof(disk), NULL, ret_field);
	if (rc != 0)
		return rc;
	ONDISK_EXPECT(ondisk_slot_bytes_is_valid(disk.slot_bytes), "slot_bytes");
	ONDISK_EXPECT(disk.slot_count > 0 && disk.slot_count <= ONDISK_SLOTS_MAX, "slot_count");
	ONDISK_EXPECT((disk.flags & ~SUPER_FLAG_FAILED) == 0, "flags");
	ONDISK_EXPECT(disk.generation <= ONDISK_COUNT_MAX, "generation");
	ONDISK_EXPECT(disk.node_id != 0, "node_id");
	ONDISK_EXPECT(disk.cluster_id != 0, "cluster_id");
	ONDISK_EXPECT(is_zero(disk.reserved, sizeof(disk.reserved)), "reserved");
	ONDISK_EXPECT(ONDISK_SLOTS_OFFSET + disk.slot_count * disk.slot_bytes <= capacity_bytes,
	    "capacity");
	*ret_super = (struct ondisk_super){
		.cluster_id = disk.cluster_id,
		.node_id = disk.node_id,
		.slot_bytes = disk.slot_bytes,
		.slot_count = disk.slot_count,
		.created_unix_ns = disk.created_unix_ns,
		.generation = disk.generation,
		.is_failed = (disk.flags & SUPER_FLAG_FAILED) != 0,
	};
	memcpy(ret_super->disk_uuid, disk.prefix.disk_uuid, ONDISK_UUID_BYTES);
	return 0;
}

bool
ondisk_crc_is_good(const void *page)
{
	struct page_prefix prefix;

	memcpy(&prefix, page, sizeof(prefix));
	return prefix.crc == page_crc(page, sizeof(struct super_disk));
}

/* ---- fences ---- */

bool
ondisk_is_fence(const void *page)
{
	return num_get_le64(page) == MAGIC_FENCE;
}

void
ondisk_fence_encode(void *page, const struct ondisk_super *super, const struct ondisk_fence *fence)
{
	struct fence_disk disk = {
		.prefix = prefix_of(MAGIC_FENCE, super),
		.generation = fence->generation,
		.page_index = fence->page_index,
		.shard_count = ONDISK_FENCE_SHARDS,
		.store_high = fence->store.high,
		.store_low = fence->store.low,
	};

	assert(fence->page_index < ONDISK_FENCE_PAGES);
	assert(fence->page_index == 0 || store_id_is_zero(&fence->store));
	memcpy(disk.epochs, fence->epochs, sizeof(fence->epochs));
	page_finish(page, &disk, sizeof(disk));
}

int
ondisk_fence_decode(const void *page, const struct ondisk_super *super, uint32_t page_index,
    struct ondisk_fence *ret_fence, const char **ret_field)
{
	struct fence_disk disk;
	int rc = prefix_check(page, MAGIC_FENCE, sizeof(disk), super, ret_field);

	assert(page_index < ONDISK_FENCE_PAGES);
	if (rc != 0)
		return rc;
	memcpy(&disk, page, sizeof(disk));
	ONDISK_EXPECT(disk.page_index == page_index, "page_index");
	ONDISK_EXPECT(disk.shard_count == ONDISK_FENCE_SHARDS, "shard_count");
	ONDISK_EXPECT(disk.generation <= ONDISK_COUNT_MAX, "generation");
	ONDISK_EXPECT(page_index == 0 || (disk.store_high == 0 && disk.store_low == 0), "store_id");
	ONDISK_EXPECT(is_zero(disk.tail, sizeof(disk.tail)), "reserved");
	for (uint32_t i = 0; i < ONDISK_FENCE_SHARDS; i++)
		ONDISK_EXPECT(disk.epochs[i] <= EXTENT_EPOCH_MAX, "epochs");
	ret_fence->page_index = page_index;
	ret_fence->generation = disk.generation;
	ret_fence->store = (struct store_id){ disk.store_high, disk.store_low };
	memcpy(ret_fence->epochs, disk.epochs, sizeof(ret_fence->epochs));
	return 0;
}

/* ---- claims ---- */

void
ondisk_claims_encode(void *page, const struct ondisk_super *super,
    const struct ondisk_claims *claims)
{
	struct claims_disk disk = {
		.prefix = prefix_of(MAGIC_CLAIM, super),
		.page_index = claims->page_index,
		.shard_count = ONDISK_CLAIM_SHARDS,
	};

	assert(claims->page_index < ONDISK_CLAIM_PAGES);
	for (uint32_t i = 0; i < ONDISK_CLAIM_SHARDS; i++)
		disk.claims[i] =
		    (struct claim_disk){ claims->shards[i].epoch, claims->shards[i].gateway };
	page_finish(page, &disk, sizeof(disk));
}

int
ondisk_claims_decode(const void *page, const struct ondisk_super *super, uint32_t page_index,
    struct ondisk_claims *ret_claims, const char **ret_field)
{
	struct claims_disk disk;
	int rc = prefix_check(page, MAGIC_CLAIM, sizeof(disk), super, ret_field);

	assert(page_index < ONDISK_CLAIM_PAGES);
	if (rc != 0)
		return rc;
	memcpy(&disk, page, sizeof(disk));
	ONDISK_EXPECT(disk.page_index == page_index, "page_index");
	ONDISK_EXPECT(disk.shard_count == ONDISK_CLAIM_SHARDS, "shard_count");
	for (uint32_t i = 0; i < ONDISK_CLAIM_SHARDS; i++) {
		ONDISK_EXPECT(disk.claims[i].epoch <= EXTENT_EPOCH_MAX, "epochs");
		ONDISK_EXPECT((disk.claims[i].epoch == 0) == (disk.claims[i].gateway == 0),
		    "gateways");
	}
	ret_claims->page_index = page_index;
	for (uint32_t i = 0; i < ONDISK_CLAIM_SHARDS; i++)
		ret_claims->shards[i] =
		    (struct ondisk_claim){ disk.claims[i].epoch, disk.claims[i].gateway };
	return 0;
}

/* ---- slots ---- */

static bool
extent_id_is_valid(const struct extent_id *id)
{
	return id->shard < CLEAVE_SHARDS_MAX && id->epoch <= EXTENT_EPOCH_MAX &&
	    id->counter <= EXTENT_COUNTER_MAX;
}

/* The first field of an identity that cannot be, or NULL. */
static const char *
slot_wrong_field(const struct ondisk_slot *slot, uint32_t slot_index)
{
	if (slot->slot_index != slot_index)
		return "slot_index";
	if (!extent_id_is_valid(&slot->id))
		return "extent_id";
	if (slot->kind < EXTENT_LOG || slot->kind > EXTENT_MANIFEST)
		return "kind";
	if (slot->create_epoch < slot->id.epoch || slot->create_epoch > EXTENT_EPOCH_MAX)
		return "create_epoch";
	if (slot->incarnation == 0 || slot->incarnation > ONDISK_COUNT_MAX)
		return "incarnation";
	return NULL;
}

void
ondisk_slot_encode(void *page, const struct ondisk_super *super, const struct ondisk_slot *slot)
{
	struct slot_disk disk = {
		.prefix = prefix_of(MAGIC_SLOT, super),
		.incarnation = slot->incarnation,
		.counter = slot->id.counter,
		.shard = slot->id.shard,
		.epoch = slot->id.epoch,
		.create_epoch = slot->create_epoch,
		.slot_index = slot->slot_index,
		.kind = (uint8_t)slot->kind,
	};

	assert(slot_wrong_field(slot, slot->slot_index) == NULL);
	page_finish(page, &disk, sizeof(disk));
}

int
ondisk_slot_decode(const void *page, const struct ondisk_super *super, uint32_t slot_index,
    struct ondisk_slot *ret_slot, const char **ret_field)
{
	struct slot_disk disk;
	struct ondisk_slot slot;
	int rc = prefix_check(page, MAGIC_SLOT, sizeof(disk), super, ret_field);

	assert(slot_index < super->slot_count);
	if (rc != 0)
		return rc;
	memcpy(&disk, page, sizeof(disk));
	slot = (struct ondisk_slot){
		.slot_index = disk.slot_index,
		.id = { .shard = disk.shard, .epoch = disk.epoch, .counter = disk.counter },
		.kind = (enum extent_kind)disk.kind,
		.create_epoch = disk.create_epoch,
		.incarnation = disk.incarnation,
	};
	*ret_field = slot_wrong_field(&slot, slot_index);
	if (*ret_field != NULL)
		return -EBADMSG;
	ONDISK_EXPECT(is_zero(disk.reserved, sizeof(disk.reserved)), "reserved");
	*ret_slot = slot;
	return 0;
}

void
ondisk_state_encode(void *page, const struct ondisk_super *super, const struct ondisk_state *state)
{
	const struct ondisk_slot *slot = &state->slot;
	struct state_disk disk = {
		.prefix = prefix_of(MAGIC_STATE, super),
		.incarnation = slot->incarnation,
		.counter = slot->id.counter,
		.shard = slot->id.shard,
		.epoch = slot->id.epoch,
		.create_epoch = slot->create_epoch,
		.slot_index = slot->slot_index,
		.kind = (uint8_t)slot->kind,
		.state = (uint8_t)state->state,
		.flags = state->is_damaged ? STATE_FLAG_DAMAGED : 0,
		.freeze_epoch = state->freeze_epoch,
		.generation = state->generation,
		.length_bytes = state->length_bytes,
		.mark_bytes = state->mark_bytes,
		.chain_crc = state->chain_crc,
	};

	assert(slot_wrong_field(slot, slot->slot_index) == NULL);
	assert(state->state != ONDISK_SLOT_OPEN);
	assert(state->length_bytes <= ondisk_capacity(super));
	assert(state->generation != 0);
	assert(num_is_aligned(state->length_bytes, BATCH_ALIGN));
	assert(state->freeze_epoch <= EXTENT_EPOCH_MAX);
	page_finish(page, &disk, sizeof(disk));
}

int
ondisk_state_decode(const void *page, const struct ondisk_super *super, uint32_t slot_index,
    struct ondisk_state *ret_state, const char **ret_field)
{
	struct state_disk disk;
	struct ondisk_state state;
	int rc = prefix_check(page, MAGIC_STATE, sizeof(disk), super, ret_field);

	assert(slot_index < super->slot_count);
	if (rc != 0)
		return rc;
	memcpy(&disk, page, sizeof(disk));
	state = (struct ondisk_state){
		.slot = { .slot_index = disk.slot_index,
		    .id = { .shard = disk.shard, .epoch = disk.epoch, .counter = disk.counter },
		    .kind = (enum extent_kind)disk.kind,
		    .create_epoch = disk.create_epoch,
		    .incarnation = disk.incarnation },
		.generation = disk.generation,
		.state = (enum ondisk_slot_state)disk.state,
		.freeze_epoch = disk.freeze_epoch,
		.length_bytes = disk.length_bytes,
		.mark_bytes = disk.mark_bytes,
		.chain_crc = disk.chain_crc,
		.is_damaged = (disk.flags & STATE_FLAG_DAMAGED) != 0,
	};
	*ret_field = slot_wrong_field(&state.slot, slot_index);
	if (*ret_field != NULL)
		return -EBADMSG;
	ONDISK_EXPECT(disk.state >= ONDISK_SLOT_FROZEN && disk.state <= ONDISK_SLOT_DELETED,
	    "state");
	ONDISK_EXPECT((disk.flags & ~STATE_FLAG_DAMAGED) == 0, "flags");
	ONDISK_EXPECT(state.freeze_epoch <= EXTENT_EPOCH_MAX, "freeze_epoch");
	ONDISK_EXPECT(state.generation != 0 && state.generation <= ONDISK_COUNT_MAX, "generation");
	ONDISK_EXPECT(state.length_bytes <= ondisk_capacity(super) &&
		num_is_aligned(state.length_bytes, BATCH_ALIGN),
	    "length_bytes");
	ONDISK_EXPECT(is_zero(disk.reserved, sizeof(disk.reserved)), "reserved");
	*ret_state = state;
	return 0;
}

void
ondisk_uuid_text(const uint8_t uuid[ONDISK_UUID_BYTES], char out[ONDISK_UUID_TEXT_BYTES])
{
	char *at = out;

	for (uint32_t i = 0; i < ONDISK_UUID_BYTES; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		(void)snprintf(at, 3, "%02x", uuid[i]); /* always two digits */
		at += 2;
	}
}
