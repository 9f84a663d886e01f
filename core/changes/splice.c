/* SPDX-License-Identifier: MIT */
/*
 * Where the rows of a data file begin, and how it reads with a text in each of them. Knows neither
 * versions nor what the text says.
 */
#include "changes/splice.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "util/util.h"

/* A place in the file, with what has to be known of all before it. */
struct place {
	uint64_t at;   /* bytes of the file */
	uint64_t rows; /* whose '{' is before that */
	bool in_line;  /* the line has begun: a '{' that follows does not begin a row */
};

struct tdl__splice {
	tdl__splice_source source;
	uint64_t blocks;
	/*
	 * The rows before each block, and after the last one all of them: known for blocks up to
	 * `front` and from `back` on. Where they come from the newlines of each block, a row that
	 * began before a block and goes on in it is not counted yet.
	 */
	uint64_t *before;
	uint64_t front, back;
	bool by_newlines;
	/* The block read last. */
	char *bytes;
	uint64_t held; /* UINT64_MAX: none */
	/* Where the last read ended, in the block held. */
	struct place cursor;
};

static int wrong_rows(const tdl__splice *splice, tdl_error *error)
{
	return tdl__fail(error, TDL_ERR_CORRUPT,
			 "it does not have the %" PRIu64 " rows that the log tells of",
			 splice->source.rows);
}

static size_t block_length(const tdl__splice *splice, uint64_t block)
{
	uint64_t left = splice->source.size - block * splice->source.block;

	return left < splice->source.block ? (size_t)left : splice->source.block;
}

int tdl__splice_new(const tdl__splice_source *source, tdl__splice **out, tdl_error *error)
{
	tdl__splice *splice = calloc(1, sizeof *splice);
	uint64_t sum = 0;

	if (!splice)
		return tdl__fail_nomem(error);
	splice->source = *source;
	splice->blocks = source->size / source->block + (source->size % source->block != 0);
	splice->back = splice->blocks;
	splice->held = UINT64_MAX;
	splice->before = calloc(splice->blocks + 1, sizeof *splice->before);
	splice->bytes =
		malloc(source->size < source->block ? (size_t)source->size + 1 : source->block);
	if (!splice->before || !splice->bytes) {
		tdl__splice_free(splice);
		return tdl__fail_nomem(error);
	}
	if (source->newlines) {
		for (uint64_t i = 0; i < splice->blocks; i++) {
			splice->before[i] = sum;
			sum += source->newlines[i];
		}
		splice->by_newlines = true;
		splice->front = splice->blocks;
		sum += source->lacks_newline;
		if (sum != source->rows) {
			int r = wrong_rows(splice, error);

			tdl__splice_free(splice);
			return r;
		}
	}
	if (splice->blocks == 0 && source->rows > 0) {
		int r = wrong_rows(splice, error);

		tdl__splice_free(splice);
		return r;
	}
	splice->before[splice->blocks] = source->rows;
	*out = splice;
	return 0;
}

void tdl__splice_free(tdl__splice *splice)
{
	if (!splice)
		return;
	free(splice->before);
	free(splice->bytes);
	free(splice);
}

bool tdl__splice_size(const tdl__splice_source *source, uint64_t *size)
{
	uint64_t texts;

	return !__builtin_mul_overflow(source->rows, source->text_length, &texts) &&
	       !__builtin_add_overflow(texts, source->size, size) &&
	       !__builtin_add_overflow(*size, source->lacks_newline, size) && *size <= INT64_MAX;
}

static int hold(tdl__splice *splice, uint64_t block, tdl_error *error)
{
	int r;

	if (splice->held == block)
		return 0;
	splice->held = UINT64_MAX;
	r = splice->source.read(splice->source.context, splice->bytes, block_length(splice, block),
				block * splice->source.block, error);
	if (r < 0)
		return r;
	splice->held = block;
	splice->cursor.at = UINT64_MAX;
	return 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Whether the line that a block begins in has begun before it with anything but blanks. */
static int begins_in_line(tdl__splice *splice, uint64_t block, bool *in_line, tdl_error *error)
{
	char bytes[512];

	*in_line = false;
	for (uint64_t end = block * splice->source.block; end > 0;) {
		/* Nearly always the one byte before it tells. */
		size_t n = end == block * splice->source.block ? 1 : sizeof bytes;
		int r;

		n = end < n ? (size_t)end : n;
		r = splice->source.read(splice->source.context, bytes, n, end - n, error);
		if (r < 0)
			return r;
		for (size_t i = n; i > 0; i--) {
			if (bytes[i - 1] == '\n')
				return 0;
			if (!is_blank(bytes[i - 1])) {
				*in_line = true;
				return 0;
			}
		}
		end -= n;
	}
	return 0;
}

/* What is known at the beginning of a block whose rows before it are known. */
static int place_of(tdl__splice *splice, uint64_t block, struct place *place, tdl_error *error)
{
	int r = begins_in_line(splice, block, &place->in_line, error);

	place->at = block * splice->source.block;
	place->rows = splice->before[block] + (splice->by_newlines && place->in_line);
	return r;
}

static uint64_t offset_of(const tdl__splice *splice, const struct place *place)
{
	return place->at + place->rows * splice->source.text_length;
}

/* Where what is read goes: after `skip` bytes, n bytes to `out`. */
struct sink {
	char *out;
	size_t n;
	uint64_t skip;
};

/* False where not all of it was skipped or written. */
static bool sink_put(struct sink *sink, const char *bytes, size_t n)
{
	size_t take;

	if (sink->skip >= n) {
		sink->skip -= n;
		return true;
	}
	bytes += sink->skip;
	n -= (size_t)sink->skip;
	sink->skip = 0;
	take = n < sink->n ? n : sink->n;
	memcpy(sink->out, bytes, take);
	sink->out += take;
	sink->n -= take;
	return take == n;
}

/* Goes on from *place to the end of the block held, as long as there is room for it. *place is
 * behind what was written whole. */
static void go_on(const tdl__splice *splice, struct place *place, struct sink *sink)
{
	size_t length = block_length(splice, splice->held);
	uint64_t first = splice->held * splice->source.block;
	const char *p = splice->bytes + (place->at - first), *end = splice->bytes + length;
	bool whole = true;

	while (p < end && sink->n > 0) {
		bool in_line = place->in_line, row = false;
		const char *q = p;

		if (in_line) {
			q = memchr(p, '\n', (size_t)(end - p));
			in_line = !q;
			q = q ? q + 1 : end;
		} else {
			while (q < end && is_blank(*q))
				q++;
			if (q < end) {
				row = *q == '{';
				in_line = *q != '\n';
				q++;
			}
		}
		whole = sink_put(sink, p, (size_t)(q - p)) &&
			(!row || sink_put(sink, splice->source.text, splice->source.text_length));
		if (!whole)
			return;
		p = q;
		place->at = first + (uint64_t)(p - splice->bytes);
		place->rows += row;
		place->in_line = in_line;
	}
}

/* At the end of the block held: whether its rows are as many as they must be, or how many they are.
 */
static int end_splice_block(tdl__splice *splice, const struct place *place, tdl_error *error)
{
	uint64_t next = splice->held + 1, want;

	if (next == splice->blocks && (splice->bytes[block_length(splice, splice->held) - 1] !=
				       '\n') != splice->source.lacks_newline)
		return tdl__fail(error, TDL_ERR_CORRUPT, "it does not end as it should");
	if (next > splice->front && next < splice->back) {
		if (splice->held == splice->front) {
			splice->before[next] = place->rows;
			splice->front = next;
		}
		return 0;
	}
	want = splice->before[next];
	if (splice->by_newlines && next < splice->blocks)
		want += place->in_line;
	if (splice->held == splice->front && next == splice->back)
		splice->front = next;
	return place->rows == want ? 0 : wrong_rows(splice, error);
}

/* Counts the rows of the block behind the front ones, or of that before the last ones. */
static int count_block(tdl__splice *splice, bool from_front, tdl_error *error)
{
	uint64_t block = from_front ? splice->front : splice->back - 1;
	struct sink nowhere = { .n = 1, .skip = UINT64_MAX };
	struct place place = { .at = block * splice->source.block };
	int r = begins_in_line(splice, block, &place.in_line, error);

	if (r == 0)
		r = hold(splice, block, error);
	if (r < 0)
		return r;
	place.rows = from_front ? splice->before[block] : 0;
	go_on(splice, &place, &nowhere);
	if (from_front)
		return end_splice_block(splice, &place, error);
	if (place.rows > splice->before[block + 1])
		return wrong_rows(splice, error);
	if (block == splice->front &&
	    splice->before[block] != splice->before[block + 1] - place.rows)
		return wrong_rows(splice, error);
	splice->before[block] = splice->before[block + 1] - place.rows;
	splice->back = block;
	return 0;
}

static uint64_t begin_of(const tdl__splice *splice, uint64_t block)
{
	uint64_t at = block < splice->blocks ? block * splice->source.block : splice->source.size;

	return at + splice->before[block] * splice->source.text_length;
}

/* The last block of first..last, all of them known, that begins at or before an offset. */
static uint64_t last_before(const tdl__splice *splice, uint64_t first, uint64_t last,
			    uint64_t offset)
{
	while (first < last) {
		uint64_t middle = first + (last - first + 1) / 2;

		if (begin_of(splice, middle) <= offset)
			first = middle;
		else
			last = middle - 1;
	}
	return first;
}

/* Finds a place at or before an offset, at most a block before it. */
static int locate(tdl__splice *splice, uint64_t offset, struct place *place, tdl_error *error)
{
	uint64_t block, last = splice->blocks - 1;
	int r;

	if (splice->held != UINT64_MAX && splice->cursor.at != UINT64_MAX &&
	    offset_of(splice, &splice->cursor) <= offset &&
	    offset - offset_of(splice, &splice->cursor) < splice->source.block) {
		*place = splice->cursor;
		return 0;
	}
	while (splice->front < splice->back && offset >= begin_of(splice, splice->front) &&
	       offset < begin_of(splice, splice->back)) {
		uint64_t done = begin_of(splice, splice->front);
		uint64_t left = begin_of(splice, splice->back) - offset;

		/* The block that begins where the reader goes on is the one wanted. */
		if (offset - done < splice->source.block)
			break;
		r = count_block(splice, offset - done <= left, error);
		if (r < 0)
			return r;
	}
	if (offset >= begin_of(splice, splice->back) && splice->back < splice->blocks)
		block = last_before(splice, splice->back, last, offset);
	else
		block = last_before(splice, 0, splice->front < last ? splice->front : last, offset);
	r = place_of(splice, block, place, error);
	/* A row that goes on in this block was not counted: its text is before it, too. */
	if (r == 0 && offset_of(splice, place) > offset && block > 0)
		r = place_of(splice, block - 1, place, error);
	return r;
}

int tdl__splice_read(tdl__splice *splice, void *buffer, size_t n, uint64_t offset, tdl_error *error)
{
	struct sink sink = { .out = buffer, .n = n };
	uint64_t end = splice->source.size + splice->source.rows * splice->source.text_length;
	struct place place = { .at = splice->source.size };
	int r;

	if (offset < end) {
		r = locate(splice, offset, &place, error);
		if (r < 0)
			return r;
		sink.skip = offset - offset_of(splice, &place);
	}
	while (sink.n > 0 && place.at < splice->source.size) {
		r = hold(splice, place.at / splice->source.block, error);
		if (r < 0)
			return r;
		go_on(splice, &place, &sink);
		splice->cursor = place;
		if (place.at <
		    splice->held * splice->source.block + block_length(splice, splice->held))
			continue;
		r = end_splice_block(splice, &place, error);
		if (r < 0)
			return r;
	}
	/* Where there are more rows than the log says, they are behind what it promised. */
	if (offset + n >= end && place.at < splice->source.size)
		return wrong_rows(splice, error);
	if (sink.n > 0)
		sink_put(&sink, "\n", 1);
	return 0;
}
