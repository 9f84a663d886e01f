/* SPDX-License-Identifier: MIT */
#ifndef INCOMING_MODEL_H
#define INCOMING_MODEL_H

#include <sys/stat.h>

#include "incoming_world.h"

/*
 * What users were promised, and what they did: the bytes of each file as they wrote them, who may
 * see it, and whether it may be committed. Everything is checked as it happens: a promise that is
 * broken ends the test.
 */

#define ROW 4u

void must_at(bool holds, const char *what, int line);
#define must(holds, what) must_at(holds, what, __LINE__)

void model_begin(void);
/* A row that was never written before. */
void model_row(char out[ROW]);

void model_created(const struct process *process, const char *name, uint64_t ino);
void model_opened(const struct process *process, uint64_t ino, int flags);
void model_wrote(const struct process *process, const struct open_file *file, const char *bytes,
		 size_t size, uint64_t offset, size_t done, int why);
void model_cut(uint64_t ino, uint64_t size, int why);
void model_read(uint64_t ino, const char *bytes, size_t got, uint64_t offset, int why);
/* It dies of a signal; what it has open then. */
void model_dies(const struct process *process);
void model_killed(const struct process *process, uint64_t ino);
/* `alone`: nothing came in between. */
void model_closed(const struct process *process, const struct open_file *file, int answer,
		  bool alone);
/* Nobody can see whether the process that closes the file still has it. */
void model_unwatched(uint64_t ino);
void model_seen(const struct process *process, const char *name, const struct stat *st);
void model_not_seen(const struct process *process, const char *name);
void model_renames(const struct process *process, uint64_t ino, const char *to);
void model_renamed(const struct process *process, uint64_t ino, const char *from, const char *to,
		   int why);
void model_unlinks(const char *name);
void model_unlinked(const struct process *process, const char *name, int why);

/* A commit begins, of these bytes under this name; the outcome that rows give: 0, EMPTY, SCHEMA. */
int model_commits(const char *source, const char *bytes, size_t n);
void model_committed(const char *bytes, size_t n, int code);

/* Between requests, and when all is over. */
void model_check(void);
void model_end(void);

#endif
