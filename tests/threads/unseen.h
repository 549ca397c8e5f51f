/* unseen.h — what ThreadSanitizer is not to look at.
 *
 * The scheduler and the judge share memory between threads with nothing but the
 * scheduler's own order, which is none of the product's: they are compiled
 * without instrumentation. What they call in the C library (or the compiler for
 * them, to copy or clear) is instrumented all the same, as is what the judge asks
 * the product without its mutexes (books.c): it stands behind UNSEEN, which holds
 * to the end of its block.
 *
 * Where one thread of a test gives another one an object of the product's, as a
 * program would by a mutex of its own, GIVEN and TAKEN say so. */
#ifndef THREADS_UNSEEN_H
#define THREADS_UNSEEN_H

#ifdef THREADS_UNSEEN
/* The sanitizer's own names. */
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
void __tsan_release(void *at);
void __tsan_acquire(void *at);
#define GIVEN(at) __tsan_release(at)
#define TAKEN(at) __tsan_acquire(at)

static inline int unseen_begin(void)
{
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    return 0;
}

static inline void unseen_end(const int *unseen)
{
    (void)unseen;
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}

#define UNSEEN __attribute__((cleanup(unseen_end))) int unseen = unseen_begin()
#else
#define UNSEEN    ((void)0)
#define GIVEN(at) ((void)(at))
#define TAKEN(at) ((void)(at))
#endif

#endif
