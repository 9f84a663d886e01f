/* SPDX-License-Identifier: MIT */
/*
 * The difference of two sequences of data files, row by row, in bounded memory. Knows rows by their
 * 128-bit hashes and places; nothing of versions, or of what is in a row.
 *
 * Both sides are read in step. A row that has met no equal one waits in a table, and goes when one
 * comes from the other side: the first that waits, so that what is left in the end are the later
 * ones of equal rows. Rows that stand in both at about the same place never fill the table.
 *
 * Once too many wait, these and all that follow are dealt by their hashes into the parts of a
 * temporary file. Each part holds every row of a hash that is not settled, in the order of its
 * side, so it can be done alone: its hashes are counted, then as many rows of each side are skipped
 * as the other has. A part with too many hashes is dealt out again.
 *
 * What is left are places. They are sorted (or dealt by place, and each part is sorted), and the
 * rows are read once more where they lie.
 */
#include "table/row_diff.h"

#include <stdbool.h>
#include <string.h>

#include "error.h"
#include "table/deal.h"
#include "util/hash.h"
#include "util/hashmap.h"
#include "util/util.h"

#define MEMORY	  ((uint64_t)256 << 20)
#define READ_SIZE ((size_t)1 << 20)
#define PART_BITS 6
#define LEVELS	  10 /* that 64 bits can be dealt by */

struct diff {
	const struct tdl__row_files *files[2];
	const tdl_diff_options *options;
	tdl_error *error;
	uint64_t bytes[2];   /* of each side */
	uint64_t read;	     /* bytes of both, for the progress */
	size_t slots;	     /* how large a table of hashes may become; a power of two */
	size_t pile;	     /* how many places are sorted at once */
	size_t block;	     /* records that are written to a temporary file at once */
	uint64_t counts[2];  /* rows that are left */
	struct emitter *out; /* NULL: they are only counted */
};

static unsigned side_of(const struct diff *diff, const struct tdl__row_record *record)
{
	return record->at >= diff->bytes[0];
}

/* The part that a record belongs to by its hash, of the first deal, of one of its parts, ... */
static unsigned part_of_hash(const struct tdl__row_record *record, unsigned level)
{
	return record->hash[1] >> (64 - PART_BITS * (level + 1)) & (TDL__PARTS - 1);
}

/* ---- Telling of rows ---------------------------------------------------------------------- */

/* Reads rows at ascending places. */
struct emitter {
	struct diff *diff;
	unsigned side;
	size_t file;
	uint64_t file_at; /* its place */
	char *bytes;	  /* of that file, from `from` on */
	size_t count, cap;
	uint64_t from;
	size_t step; /* how much is read at once: much where rows lie close together */
};

/* Goes to the file that has the place. */
static void emitter_find(struct emitter *out, uint64_t at)
{
	for (;;) {
		const struct tdl__row_files *files = out->diff->files[out->side];

		if (out->file == files->count) {
			out->side++;
			out->file = 0;
		} else if (at - out->file_at < files->sizes[out->file]) {
			return;
		} else {
			out->file_at += files->sizes[out->file++];
		}
		out->count = 0;
		out->from = 0;
	}
}

/* Reads what comes behind the bytes that are there. */
static int emitter_read(struct emitter *out, uint64_t size)
{
	const struct tdl__row_files *files = out->diff->files[out->side];
	uint64_t at = out->from + out->count;
	size_t want = size - at < out->step ? (size_t)(size - at) : out->step, got;
	int r;

	if (!tdl__reserve(&out->bytes, &out->cap, out->count + want, 1))
		return tdl__fail_nomem(out->diff->error);
	r = files->read(files->context, out->file, out->bytes + out->count, want, at, &got,
			out->diff->error);
	if (r < 0)
		return r;
	if (got < want)
		return tdl__fail(out->diff->error, TDL_ERR_CORRUPT, "a data file became shorter");
	out->count += want;
	if (out->step < READ_SIZE)
		out->step *= 2;
	return 0;
}

static int emit(struct emitter *out, const struct tdl__row_record *record)
{
	const tdl_diff_options *options = out->diff->options;
	uint64_t size, at, hash[2];
	size_t begin, looked;
	const char *newline;

	emitter_find(out, record->at);
	size = out->diff->files[out->side]->sizes[out->file];
	at = record->at - out->file_at;
	if (at >= out->from + out->count) {
		/* Behind all that was read, much or little. */
		if (out->count == 0 || at - out->from - out->count > READ_SIZE / 16)
			out->step = 4096;
		out->from = at;
		out->count = 0;
	}
	begin = looked = (size_t)(at - out->from);
	for (;;) {
		newline = out->count > looked
				  ? memchr(out->bytes + looked, '\n', out->count - looked)
				  : NULL;
		if (newline || out->from + out->count == size)
			break;
		if (begin > 0) {
			out->count -= begin;
			memmove(out->bytes, out->bytes + begin, out->count);
			out->from = at;
			begin = 0;
		}
		looked = out->count;
		int r = emitter_read(out, size);

		if (r < 0)
			return r;
	}
	looked = (newline ? (size_t)(newline - out->bytes) : out->count) - begin;
	tdl__hash128(hash, out->bytes + begin, looked);
	if (memcmp(hash, record->hash, sizeof hash) != 0)
		return tdl__fail(out->diff->error, TDL_ERR_CORRUPT,
				 "a data file was changed while it was read");
	if (!options->row(options->context, out->side == 0 ? TDL_REMOVED : TDL_ADDED,
			  out->bytes + begin, looked))
		return tdl__fail(out->diff->error, TDL_ERR_STOPPED, "stopped");
	return 0;
}

/* ---- What is left, by place --------------------------------------------------------------- */

/* Records between two places. */
struct pile {
	struct diff *diff;
	uint64_t from, to;
	struct tdl__row_record *records;
	size_t count, cap;
	struct tdl__deal *deal; /* NULL: all are in `records` */
};

static void pile_clear(struct pile *pile)
{
	free(pile->records);
	tdl__deal_free(pile->deal);
}

static uint64_t pile_width(const struct pile *pile)
{
	return (pile->to - pile->from) / TDL__PARTS + 1;
}

static int pile_deal(struct pile *pile, const struct tdl__row_record *record)
{
	return tdl__deal_put(pile->deal, (unsigned)((record->at - pile->from) / pile_width(pile)),
			     record);
}

static int pile_add(void *context, const struct tdl__row_record *record)
{
	struct pile *pile = context;

	if (!pile->deal && pile->count >= pile->diff->pile) {
		int r = tdl__deal_new(pile->diff->block, &pile->deal, pile->diff->error);

		for (size_t i = 0; i < pile->count && r == 0; i++)
			r = pile_deal(pile, &pile->records[i]);
		if (r < 0)
			return r;
		free(tdl__steal(pile->records));
		pile->count = pile->cap = 0;
	}
	if (pile->deal)
		return pile_deal(pile, record);
	if (!tdl__reserve(&pile->records, &pile->cap, pile->count + 1, sizeof *record))
		return tdl__fail_nomem(pile->diff->error);
	pile->records[pile->count++] = *record;
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct tdl__row_record *left = a, *right = b;

	return (left->at > right->at) - (left->at < right->at);
}

/* Tells of the rows, in order. A part of a pile is smaller, and places are all different, so this
 * ends. */
static int pile_emit(struct pile *pile)
{
	int r = 0;

	if (!pile->deal) {
		if (pile->count > 0)
			qsort(pile->records, pile->count, sizeof *pile->records, by_place);
		for (size_t i = 0; i < pile->count && r == 0; i++)
			r = emit(pile->diff->out, &pile->records[i]);
		return r;
	}
	for (unsigned i = 0; i < TDL__PARTS && r == 0; i++) {
		struct pile part = {
			.diff = pile->diff,
			.from = pile->from + i * pile_width(pile),
			.to = pile->from + (i + 1) * pile_width(pile) - 1,
		};

		r = tdl__deal_each(pile->deal, i, pile_add, &part);
		if (r == 0)
			r = pile_emit(&part);
		pile_clear(&part);
	}
	return r;
}

/* A row has met no other. */
static int leave(struct pile *pile, const struct tdl__row_record *record)
{
	pile->diff->counts[side_of(pile->diff, record)]++;
	return !pile->diff->out ? 0 : pile_add(pile, record);
}

/* ---- A part alone ------------------------------------------------------------------------- */

/* How often a hash is there, and then how many of a side are still to be skipped. */
struct tally {
	uint64_t hash1;
	uint64_t count[2];
};

/* Hashes of a part. */
struct tallies {
	struct diff *diff;
	struct pile *pile;
	tdl__hashmap map;
	struct tally *items;
	size_t count, cap;
	struct tdl__deal *deeper;
	unsigned level; /* of `deeper` */
};

static void tallies_clear(struct tallies *tallies)
{
	tdl__hashmap_clear(&tallies->map);
	free(tallies->items);
	tdl__deal_free(tallies->deeper);
}

static struct tally *find_tally(const struct tallies *tallies, const struct tdl__row_record *record)
{
	struct tdl__slot *slot = tdl__hashmap_first(&tallies->map, record->hash[0]);

	for (; slot; slot = tdl__hashmap_next(&tallies->map, slot))
		if (tallies->items[slot->value - 1].hash1 == record->hash[1])
			return &tallies->items[slot->value - 1];
	return NULL;
}

#define TOO_MANY 1

static int count_record(void *context, const struct tdl__row_record *record)
{
	struct tallies *tallies = context;
	struct tally *tally = find_tally(tallies, record);

	if (!tally) {
		if (tallies->count >= tallies->diff->slots / 4 * 3 && tallies->level < LEVELS)
			return TOO_MANY;
		if (!tdl__reserve(&tallies->items, &tallies->cap, tallies->count + 1,
				  sizeof *tally) ||
		    !tdl__hashmap_add(&tallies->map, record->hash[0], tallies->count + 1))
			return tdl__fail_nomem(tallies->diff->error);
		tally = &tallies->items[tallies->count++];
		*tally = (struct tally){ .hash1 = record->hash[1] };
	}
	tally->count[side_of(tallies->diff, record)]++;
	return 0;
}

static int deal_deeper(void *context, const struct tdl__row_record *record)
{
	struct tallies *tallies = context;

	return tdl__deal_put(tallies->deeper, part_of_hash(record, tallies->level), record);
}

static int skip_or_leave(void *context, const struct tdl__row_record *record)
{
	struct tallies *tallies = context;
	struct tally *tally = find_tally(tallies, record);
	uint64_t *skip = &tally->count[side_of(tallies->diff, record)];

	if (*skip == 0)
		return leave(tallies->pile, record);
	--*skip;
	return 0;
}

/* Finds what is left of the parts of a deal, which was made at `level`. */
static int finish_parts(struct diff *diff, const struct tdl__deal *deal, unsigned level,
			struct pile *pile)
{
	int r = 0;

	for (unsigned part = 0; part < TDL__PARTS && r == 0; part++) {
		struct tallies tallies = { .diff = diff, .pile = pile, .level = level + 1 };

		r = tdl__deal_each(deal, part, count_record, &tallies);
		if (r == TOO_MANY) {
			r = tdl__deal_new(diff->block, &tallies.deeper, diff->error);
			if (r == 0)
				r = tdl__deal_each(deal, part, deal_deeper, &tallies);
			tdl__hashmap_clear(&tallies.map);
			free(tdl__steal(tallies.items));
			if (r == 0)
				r = finish_parts(diff, tallies.deeper, level + 1, pile);
		} else if (r == 0) {
			for (size_t i = 0; i < tallies.count; i++) {
				uint64_t *count = tallies.items[i].count;

				count[0] = count[1] = count[0] < count[1] ? count[0] : count[1];
			}
			r = tdl__deal_each(deal, part, skip_or_leave, &tallies);
		}
		tallies_clear(&tallies);
	}
	return r;
}

/* ---- Rows that wait ----------------------------------------------------------------------- */

/* One that waits; those of one hash, all of one side, are a chain in their order. */
struct waiting {
	uint64_t hash1;
	uint64_t at;
	uint32_t next; /* + 1; 0: the last one. Of a free one: the next free one */
	uint32_t last; /* of the first of a chain */
};

struct table {
	struct diff *diff;
	tdl__hashmap map; /* of the first of each chain */
	struct waiting *items;
	size_t count, cap;	/* of `items` */
	size_t taken;		/* of them that wait */
	uint32_t free;		/* + 1 */
	struct tdl__deal *deal; /* not NULL: too many waited, and `items` is empty for good */
};

static void table_clear(struct table *table)
{
	tdl__hashmap_clear(&table->map);
	free(table->items);
	tdl__deal_free(table->deal);
}

static struct tdl__slot *find_chain(const struct table *table, const struct tdl__row_record *record)
{
	struct tdl__slot *slot = tdl__hashmap_first(&table->map, record->hash[0]);

	for (; slot; slot = tdl__hashmap_next(&table->map, slot))
		if (table->items[slot->value - 1].hash1 == record->hash[1])
			return slot;
	return NULL;
}

static bool waits_on_other_side(const struct table *table, const struct tdl__slot *slot,
				const struct tdl__row_record *record)
{
	return slot && (table->items[slot->value - 1].at >= table->diff->bytes[0]) !=
			       side_of(table->diff, record);
}

/* Calls each() for all that wait, those of one hash in their order. */
static int table_each(const struct table *table,
		      int (*each)(void *context, const struct tdl__row_record *record),
		      void *context)
{
	int r = 0;

	for (size_t i = 0; table->map.slots && i <= table->map.mask; i++) {
		const struct tdl__slot *slot = &table->map.slots[i];

		for (size_t k = slot->value; k != 0 && r == 0; k = table->items[k - 1].next) {
			const struct waiting *item = &table->items[k - 1];
			struct tdl__row_record record = { { slot->hash, item->hash1 }, item->at };

			r = each(context, &record);
		}
	}
	return r;
}

static int table_deal(void *context, const struct tdl__row_record *record)
{
	struct table *table = context;

	return tdl__deal_put(table->deal, part_of_hash(record, 0), record);
}

static int table_leave(void *context, const struct tdl__row_record *record)
{
	return leave(context, record);
}

static int table_overflow(struct table *table)
{
	int r = tdl__deal_new(table->diff->block, &table->deal, table->diff->error);

	if (r == 0)
		r = table_each(table, table_deal, table);
	tdl__hashmap_clear(&table->map);
	free(tdl__steal(table->items));
	table->count = table->cap = table->taken = 0;
	return r;
}

/* The first of a chain has met its like. */
static void table_cancel(struct table *table, struct tdl__slot *slot)
{
	uint32_t number = (uint32_t)slot->value;
	struct waiting *item = &table->items[number - 1];

	if (item->next != 0) {
		table->items[item->next - 1].last = item->last;
		slot->value = item->next;
	} else {
		tdl__hashmap_remove(&table->map, slot);
	}
	item->next = table->free;
	table->free = number;
	table->taken--;
}

/* Puts a row at the end of its chain, which is at `slot` (NULL: there is none). */
static int table_wait(struct table *table, struct tdl__slot *slot,
		      const struct tdl__row_record *record)
{
	uint32_t number = table->free;

	if (number == 0) {
		if (table->count >= table->diff->slots / 4 * 3) {
			int r = table_overflow(table);

			return r < 0 ? r : table_deal(table, record);
		}
		if (!tdl__reserve(&table->items, &table->cap, table->count + 1,
				  sizeof *table->items))
			return tdl__fail_nomem(table->diff->error);
		number = (uint32_t)++table->count;
	} else {
		table->free = table->items[number - 1].next;
	}
	table->items[number - 1] =
		(struct waiting){ .hash1 = record->hash[1], .at = record->at, .last = number };
	if (slot) {
		struct waiting *first = &table->items[slot->value - 1];

		table->items[first->last - 1].next = number;
		first->last = number;
	} else if (!tdl__hashmap_add(&table->map, record->hash[0], number)) {
		return tdl__fail_nomem(table->diff->error);
	}
	table->taken++;
	return 0;
}

static int table_add(struct table *table, const struct tdl__row_record *record)
{
	struct tdl__slot *slot;

	if (table->deal)
		return table_deal(table, record);
	slot = find_chain(table, record);
	if (!waits_on_other_side(table, slot, record))
		return table_wait(table, slot, record);
	table_cancel(table, slot);
	return 0;
}

/* ---- Reading in step ---------------------------------------------------------------------- */

struct reader {
	struct diff *diff;
	unsigned side;
	size_t file;
	uint64_t file_at; /* the place of the file */
	uint64_t at;	  /* how much of it was read */
	char *bytes;	  /* before `at`; those from `begin` on are no row yet */
	size_t begin, count, cap;
	/* The next row, where there is one. */
	bool there, hashed;
	const char *row;
	size_t length;
	struct tdl__row_record record;
};

static bool is_blank(const char *row, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (row[i] != ' ' && row[i] != '\t' && row[i] != '\r')
			return false;
	return true;
}

static int reader_read(struct reader *reader)
{
	struct diff *diff = reader->diff;
	const struct tdl__row_files *files = diff->files[reader->side];
	uint64_t rest = files->sizes[reader->file] - reader->at;
	size_t want = rest < READ_SIZE ? (size_t)rest : READ_SIZE, got;
	int r;

	reader->count -= reader->begin;
	if (reader->count > 0 && reader->begin > 0)
		memmove(reader->bytes, reader->bytes + reader->begin, reader->count);
	reader->begin = 0;
	if (!tdl__reserve(&reader->bytes, &reader->cap, reader->count + want, 1))
		return tdl__fail_nomem(diff->error);
	r = files->read(files->context, reader->file, reader->bytes + reader->count, want,
			reader->at, &got, diff->error);
	if (r < 0)
		return r;
	if (got < want)
		return tdl__fail(diff->error, TDL_ERR_CORRUPT, "a data file became shorter");
	reader->count += want;
	reader->at += want;
	diff->read += want;
	if (diff->options->progress)
		diff->options->progress(diff->options->context, diff->read,
					diff->bytes[0] + diff->bytes[1]);
	return 0;
}

/* Goes to the next row; there may be none. */
static int reader_next(struct reader *reader)
{
	const struct tdl__row_files *files = reader->diff->files[reader->side];
	size_t looked = 0; /* bytes from `begin` on without a newline among them */

	reader->there = reader->hashed = false;
	while (reader->file < files->count) {
		bool end = reader->at == files->sizes[reader->file];
		size_t left = reader->count - reader->begin;
		const char *row = left > 0 ? reader->bytes + reader->begin : NULL;
		const char *newline =
			left > looked ? memchr(row + looked, '\n', left - looked) : NULL;

		if (!newline && !end) {
			int r;

			looked = left;
			r = reader_read(reader);
			if (r < 0)
				return r;
			continue;
		}
		if (!newline && left == 0) {
			reader->file_at += reader->at;
			reader->file++;
			reader->at = 0;
			reader->begin = reader->count = looked = 0;
			continue;
		}
		reader->row = row;
		reader->length = newline ? (size_t)(newline - row) : left;
		reader->record.at = reader->file_at + reader->at - left;
		reader->begin += reader->length + (newline != NULL);
		looked = 0;
		if (!is_blank(row, reader->length)) {
			reader->there = true;
			return 0;
		}
	}
	return 0;
}

static const struct tdl__row_record *reader_record(struct reader *reader)
{
	if (!reader->hashed)
		tdl__hash128(reader->record.hash, reader->row, reader->length);
	reader->hashed = true;
	return &reader->record;
}

static bool same_row(const struct reader *a, const struct reader *b)
{
	return a->length == b->length && memcmp(a->row, b->row, a->length) == 0;
}

/* Takes care of the next row of one of both sides, or of the next of each. */
static int step(struct table *table, struct reader sides[2])
{
	unsigned behind;
	int r = 0;

	if (!sides[0].there || !sides[1].there) {
		behind = sides[1].there;
	} else if (same_row(&sides[0], &sides[1])) {
		/* Unless others of its kind wait, which have to go first, both go. */
		if (table->deal ||
		    (table->taken > 0 && find_chain(table, reader_record(&sides[0])))) {
			r = table_add(table, reader_record(&sides[0]));
			memcpy(sides[1].record.hash, sides[0].record.hash, sizeof(uint64_t[2]));
			if (r == 0)
				r = table_add(table, &sides[1].record);
		}
		if (r == 0)
			r = reader_next(&sides[0]);
		return r < 0 ? r : reader_next(&sides[1]);
	} else {
		behind = sides[0].record.at > sides[1].record.at - table->diff->bytes[0];
		/* One that another waits for goes first: so both find back into step. */
		for (unsigned i = 0; i < 2 && !table->deal; i++) {
			const struct tdl__row_record *record = reader_record(&sides[i]);
			struct tdl__slot *slot = find_chain(table, record);

			if (waits_on_other_side(table, slot, record)) {
				table_cancel(table, slot);
				return reader_next(&sides[i]);
			}
		}
	}
	r = table_add(table, reader_record(&sides[behind]));
	return r < 0 ? r : reader_next(&sides[behind]);
}

/* Compares the sides and tells of what is left. */
static int compare(struct diff *diff, struct reader sides[2], struct pile *pile)
{
	struct table table = { .diff = diff };
	int r = 0;

	while (r == 0 && (sides[0].there || sides[1].there))
		r = step(&table, sides);
	if (r == 0)
		r = table.deal ? finish_parts(diff, table.deal, 0, pile)
			       : table_each(&table, table_leave, pile);
	table_clear(&table);
	return r < 0 || !diff->out ? r : pile_emit(pile);
}

/* The other side has nothing: all rows of this one are left. */
static int tell_all(struct diff *diff, struct reader *reader)
{
	const tdl_diff_options *options = diff->options;
	int r = 0;

	while (r == 0 && reader->there) {
		diff->counts[reader->side]++;
		if (options->row &&
		    !options->row(options->context, reader->side == 0 ? TDL_REMOVED : TDL_ADDED,
				  reader->row, reader->length))
			return tdl__fail(diff->error, TDL_ERR_STOPPED, "stopped");
		r = reader_next(reader);
	}
	return r;
}

static int sum_sizes(struct diff *diff)
{
	uint64_t all;

	for (unsigned side = 0; side < 2; side++)
		for (size_t i = 0; i < diff->files[side]->count; i++)
			if (__builtin_add_overflow(diff->bytes[side], diff->files[side]->sizes[i],
						   &diff->bytes[side]))
				return tdl__fail(diff->error, TDL_ERR_LIMIT, "too many bytes");
	return __builtin_add_overflow(diff->bytes[0], diff->bytes[1], &all)
		       ? tdl__fail(diff->error, TDL_ERR_LIMIT, "too many bytes")
		       : 0;
}

/* A table takes a half of the memory and, while it grows, an eighth more; places another quarter,
 * the blocks of a deal an eighth. */
static void share_memory(struct diff *diff)
{
	uint64_t memory = diff->options->memory != 0 ? diff->options->memory : MEMORY;
	uint64_t slots = memory / 2 / (sizeof(struct tdl__slot) + sizeof(struct waiting) * 3 / 4);
	uint64_t pile = memory / 4 / sizeof(struct tdl__row_record);
	uint64_t block = memory / 8 / TDL__PARTS / sizeof(struct tdl__row_record);

	/* Items are numbered in 32 bits. */
	diff->slots = 16;
	while (diff->slots * 2 <= slots && diff->slots < (size_t)1 << 30)
		diff->slots *= 2;
	diff->pile = pile > 16 ? (size_t)pile : 16;
	diff->block = block > 4096 ? 4096 : block > 4 ? (size_t)block : 4;
}

int tdl__row_diff(const struct tdl__row_files *old_files, const struct tdl__row_files *new_files,
		  const tdl_diff_options *options, uint64_t counts[2], tdl_error *error)
{
	struct diff diff = {
		.files = { old_files, new_files },
		.options = options,
		.error = error,
	};
	struct emitter out = { .diff = &diff };
	struct reader sides[2] = { { .diff = &diff }, { .diff = &diff, .side = 1 } };
	struct pile pile = { .diff = &diff };
	int r = sum_sizes(&diff);

	share_memory(&diff);
	if (options->row)
		diff.out = &out;
	if (r == 0) {
		pile.to = diff.bytes[0] + diff.bytes[1];
		sides[1].file_at = diff.bytes[0];
		r = reader_next(&sides[0]);
	}
	if (r == 0)
		r = reader_next(&sides[1]);
	if (r == 0)
		r = diff.bytes[0] == 0	 ? tell_all(&diff, &sides[1])
		    : diff.bytes[1] == 0 ? tell_all(&diff, &sides[0])
					 : compare(&diff, sides, &pile);
	pile_clear(&pile);
	free(out.bytes);
	free(sides[0].bytes);
	free(sides[1].bytes);
	if (r == 0)
		memcpy(counts, diff.counts, sizeof diff.counts);
	return r;
}
