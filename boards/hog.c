/*
 * Keeps a CPU busy at a real-time priority for part of each period, as a misbehaving real-time
 * program does, and prints when it did so.
 * Prints its process ID first. At the end, or when SIGTERM arrives, prints the beginning and the
 * end of each busy time, in nanoseconds of CLOCK_MONOTONIC.
 *
 *   hog CPU PRIORITY BUSY_US PERIOD_US COUNT
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct busy {
	uint64_t begin, end;
};

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
	(void)number;
	ended = 1;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
	struct timespec until = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static int failed(const char *what)
{
	fprintf(stderr, "hog: %s: %s\n", what, strerror(errno));
	return 1;
}

int main(int argc, char **argv)
{
	struct sched_param priority = { 0 };
	struct sigaction action = { .sa_handler = on_signal };
	uint64_t busy_ns, period_ns, next;
	unsigned long count, done = 0, i;
	struct busy *times;
	cpu_set_t set;

	if (argc != 6) {
		fprintf(stderr, "usage: hog CPU PRIORITY BUSY_US PERIOD_US COUNT\n");
		return 2;
	}
	CPU_ZERO(&set);
	CPU_SET(atoi(argv[1]), &set);
	priority.sched_priority = atoi(argv[2]);
	busy_ns = strtoull(argv[3], NULL, 10) * 1000;
	period_ns = strtoull(argv[4], NULL, 10) * 1000;
	count = strtoul(argv[5], NULL, 10);

	times = calloc(count, sizeof(*times));
	if (!times)
		return failed("memory");
	if (sched_setaffinity(0, sizeof(set), &set))
		return failed("CPU");
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		return failed("mlockall");
	/* Without SA_RESTART, the signal ends the sleep. */
	sigaction(SIGTERM, &action, NULL);
	printf("pid %d\n", getpid());
	fflush(stdout);
	if (sched_setscheduler(0, priority.sched_priority ? SCHED_FIFO : SCHED_OTHER, &priority))
		return failed("priority");

	next = now_ns();
	while (!ended && done < count) {
		next += period_ns;
		sleep_until(next);
		if (ended)
			break;
		times[done].begin = now_ns();
		do {
			times[done].end = now_ns();
		} while (times[done].end - times[done].begin < busy_ns);
		done++;
	}
	for (i = 0; i < done; i++)
		printf("%llu %llu\n", (unsigned long long)times[i].begin, (unsigned long long)times[i].end);
	return 0;
}
