/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts that modules share that inject delays: the wait for the next injection, and the log of
 * when each one began and ended, in nanoseconds of CLOCK_MONOTONIC. /proc/NAME prints one line for
 * each injection.
 */
#ifndef INJECTED_H
#define INJECTED_H

#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>

struct injection {
	u64 begin, end;
};

static struct injection *injections;
/* The number of complete entries. */
static uint injected;

/* Called by one thread or handler only. */
static inline void injection_log(u64 begin, u64 end)
{
	injections[injected].begin = begin;
	injections[injected].end = end;
	smp_store_release(&injected, injected + 1);
}

static inline int injections_show(struct seq_file *file, void *unused)
{
	uint count = smp_load_acquire(&injected), i;

	for (i = 0; i < count; i++)
		seq_printf(file, "%llu %llu\n", injections[i].begin, injections[i].end);
	return 0;
}

static inline int injections_init(const char *name, uint count)
{
	injections = kvcalloc(count, sizeof(*injections), GFP_KERNEL);
	if (!injections)
		return -ENOMEM;
	if (!proc_create_single(name, 0444, NULL, injections_show)) {
		kvfree(injections);
		return -ENOMEM;
	}
	return 0;
}

static inline void injections_exit(const char *name)
{
	remove_proc_entry(name, NULL);
	kvfree(injections);
}

/*
 * Blocks the module's thread until the next injection is due, or until it must stop. Returns whether
 * an injection is due. Once all of them are logged, it blocks until the thread must stop.
 *
 * The interval varies from 3/4 to 5/4 of the mean, in steps of 1/64, so that the injections do not
 * stay in phase with a periodic timer.
 */
static inline bool injection_wait(uint interval_us, uint count)
{
	uint done = READ_ONCE(injected);
	ktime_t interval = ns_to_ktime((u64)interval_us * NSEC_PER_USEC / 64 * (48 + done * 37 % 33));

	set_current_state(TASK_INTERRUPTIBLE);
	/* The thread that stops this one wakes it after it has set the condition. */
	if (!kthread_should_stop()) {
		if (done == count)
			schedule();
		else
			schedule_hrtimeout_range(&interval, 0, HRTIMER_MODE_REL);
	}
	__set_current_state(TASK_RUNNING);
	return done < count && !kthread_should_stop();
}

/* Keeps the CPU busy, and returns when it ended. */
static inline u64 injection_spin(u64 begin, uint length_us)
{
	u64 now;

	do {
		cpu_relax();
		now = ktime_get_ns();
	} while (now - begin < (u64)length_us * NSEC_PER_USEC);
	return now;
}

#endif
