/*
 * Delays a measuring thread in one of several ways until SIGTERM arrives, and then prints the
 * beginning and the end of each delay, in nanoseconds of CLOCK_MONOTONIC.
 *
 *   culprit NAME CPU [PID | FILE]
 *
 * The names are those of the table below. It prints its process ID first.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/perf_event.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
#define MEMORY (48u << 20)
#define TIMERS 1000
#define THREADS 64
#define RANGES 1024

static struct {
	uint64_t begin, end;
} times[100000];

static volatile sig_atomic_t ended;
static const char *target;
static int cpu;

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

static void pause_ns(uint64_t ns)
{
	struct timespec span = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &span, NULL);
}

static void spin_ns(uint64_t ns)
{
	uint64_t end = now_ns() + ns;

	while (now_ns() < end)
		;
}

static void must(int is_done, const char *what)
{
	if (is_done)
		return;
	fprintf(stderr, "culprit: %s: %s\n", what, strerror(errno));
	_exit(1);
}

static void set_policy(int policy, int priority)
{
	struct sched_param param = { .sched_priority = priority };

	must(!sched_setscheduler(0, policy, &param), "policy");
}

static void write_to(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);

	must(file >= 0, path);
	must(write(file, text, strlen(text)) > 0, path);
	close(file);
}

/* A signal stops the process. */
static void stop(void)
{
	kill(atoi(target), SIGSTOP);
	pause_ns(10 * MS);
	kill(atoi(target), SIGCONT);
}

/* Lists the threads of the process, and returns their number. */
static int list_threads(int threads[THREADS])
{
	struct dirent *entry;
	char path[64];
	int count = 0;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%s/task", target);
	folder = opendir(path);
	if (!folder)
		return 0;
	while ((entry = readdir(folder)) && count < THREADS)
		if (entry->d_name[0] != '.')
			threads[count++] = atoi(entry->d_name);
	closedir(folder);
	return count;
}

/* A tracer stops all threads of the process. */
static void trace(void)
{
	int threads[THREADS], count = list_threads(threads), i, status;

	for (i = 0; i < count; i++) {
		ptrace(PTRACE_SEIZE, threads[i], 0, 0);
		ptrace(PTRACE_INTERRUPT, threads[i], 0, 0);
	}
	for (i = 0; i < count; i++)
		waitpid(threads[i], &status, __WALL);
	pause_ns(10 * MS);
	for (i = 0; i < count; i++)
		ptrace(PTRACE_DETACH, threads[i], 0, 0);
}

/* The freezer stops a control group. */
static void freeze(void)
{
	write_to(target, "1");
	pause_ns(10 * MS);
	write_to(target, "0");
}

static void busy(void)
{
	spin_ns(3 * MS);
}

/* A thread with a higher priority waits for a lock that this thread holds. */
static pthread_mutex_t lock;
static volatile int is_held;

static void *wait_for_lock(void *unused)
{
	cpu_set_t set;

	(void)unused;
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	must(!sched_setaffinity(0, sizeof(set), &set), "CPU");
	set_policy(SCHED_FIFO, 90);
	for (;;) {
		if (is_held) {
			pthread_mutex_lock(&lock);
			pthread_mutex_unlock(&lock);
		}
		pause_ns(MS / 4);
	}
	return NULL;
}

static void begin_lock(void)
{
	pthread_mutexattr_t attributes;
	pthread_t waits;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&lock, &attributes);
	must(!pthread_create(&waits, NULL, wait_for_lock, NULL), "thread");
}

static void hold_lock(void)
{
	pthread_mutex_lock(&lock);
	is_held = 1;
	spin_ns(5 * MS);
	is_held = 0;
	pthread_mutex_unlock(&lock);
}

/* Work of the kernel during which a kernel without preemption does not switch. */
static char *populated(void)
{
	char *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	must(memory != MAP_FAILED, "memory");
	madvise(memory, MEMORY, MADV_NOHUGEPAGE);
	must(!madvise(memory, MEMORY, MADV_POPULATE_WRITE), "memory");
	return memory;
}

static void unmap(void)
{
	munmap(populated(), MEMORY);
}

static void end_process(void)
{
	pid_t child = fork();

	if (!child) {
		populated();
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void list_tasks(void)
{
	write_to("/proc/sysrq-trigger", "t");
}

/* Another CPU goes offline, for which the kernel stops all of them. */
static void unplug(void)
{
	write_to(target, "0");
	write_to(target, "1");
}

static void begin_deadline(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attributes = { sizeof(attributes), 6, 0, 0, 0, 4 * MS, 40 * MS, 40 * MS };

	must(!syscall(SYS_sched_setattr, 0, &attributes, 0), "SCHED_DEADLINE");
}

static void begin_fifo(void)
{
	set_policy(SCHED_FIFO, 80);
}

static void begin_low_fifo(void)
{
	set_policy(SCHED_FIFO, 10);
}

/* An ordinary thread that cannot run until the kernel intervenes. */
static void begin_starving(void)
{
	pid_t parent = getpid();

	if (!fork()) {
		while (kill(parent, 0) == 0)
			busy();
		_exit(0);
	}
	set_policy(SCHED_FIFO, 10);
}

/* Many timers of one CPU expire at once, again and again. An interval would not suffice: without a read, a timer of this
 * kind expires once. */
static int timers[TIMERS];

static void begin_timers(void)
{
	int i;

	for (i = 0; i < TIMERS; i++)
		must((timers[i] = timerfd_create(CLOCK_MONOTONIC, 0)) >= 0, "timer");
}

static void start_timers(void)
{
	uint64_t when = now_ns() + 40 * MS;
	struct itimerspec at = { .it_value = { when / 1000000000, when % 1000000000 } };
	int i;

	for (i = 0; i < TIMERS; i++)
		must(!timerfd_settime(timers[i], TFD_TIMER_ABSTIME, &at, NULL), "timer");
	pause_ns(50 * MS);
}

/* The private pages of the process go to the swap area. */
static void page_out(void)
{
	struct iovec ranges[RANGES];
	unsigned long begin, end;
	char line[256], access[5];
	size_t count = 0;
	FILE *maps;
	int process;

	snprintf(line, sizeof(line), "/proc/%s/maps", target);
	maps = fopen(line, "r");
	process = syscall(SYS_pidfd_open, atoi(target), 0);
	if (!maps || process < 0)
		return;
	while (count < RANGES && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %4s", &begin, &end, access) == 3 && !strcmp(access, "rw-p")) {
			ranges[count].iov_base = (void *)begin;
			ranges[count++].iov_len = end - begin;
		}
	fclose(maps);
	/* Some ranges may be gone by now. */
	syscall(SYS_process_madvise, process, ranges, count, MADV_PAGEOUT, 0);
	close(process);
	pause_ns(2 * MS);
}

/* Writes to a disk, and waits until it is written. */
static int disk;

static void begin_disk(void)
{
	disk = open(target, O_WRONLY);
	must(disk >= 0, target);
}

static void write_through(void)
{
	static char block[1 << 20];

	must(pwrite(disk, block, sizeof(block), 0) == sizeof(block), "write");
	must(!fsync(disk), "fsync");
}

/* Packets arrive over a network interface of this program. */
static int tunnel;

static void begin_tunnel(void)
{
	struct ifreq of = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a090001) };
	int any = socket(AF_INET, SOCK_DGRAM, 0);

	tunnel = open("/dev/net/tun", O_RDWR);
	must(tunnel >= 0 && !ioctl(tunnel, TUNSETIFF, &of), "tun");
	memcpy(&of.ifr_addr, &address, sizeof(address));
	must(!ioctl(any, SIOCSIFADDR, &of), "address");
	of.ifr_flags = IFF_UP;
	must(!ioctl(any, SIOCSIFFLAGS, &of), "up");
	close(any);
}

static void send_packets(void)
{
	/* UDP from 10.9.0.2 to port 9 of 10.9.0.1, without data. */
	static const unsigned char packet[28] = {
		0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0x66, 0xbc, 10, 9, 0, 2, 10, 9, 0, 1, 0, 9, 0, 9, 0, 8, 0, 0,
	};
	uint64_t end = now_ns() + 3 * MS;

	while (now_ns() < end)
		must(write(tunnel, packet, sizeof(packet)) == sizeof(packet), "packet");
}

/* The kernel moves pages, so that the free ones are next to each other. */
static char *scattered;

static void begin_compact(void)
{
	scattered = populated();
}

static void compact(void)
{
	static int round;
	size_t at, page = 4096;

	/* Of each two pages, one is free, in turn. */
	for (at = round++ % 2 * page; at < MEMORY / 4; at += 2 * page)
		madvise(scattered + at, page, MADV_DONTNEED);
	for (at = round % 2 * page; at < MEMORY / 4; at += 2 * page)
		scattered[at] = 1;
	write_to("/proc/sys/vm/compact_memory", "1");
}

/* A profiler samples the CPU. */
static int sampler;

static void begin_sampler(void)
{
	struct perf_event_attr event = {
		.size = sizeof(event), .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK, .disabled = 1,
		.sample_period = 50000, .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN,
	};

	sampler = syscall(SYS_perf_event_open, &event, -1, cpu, -1, 0);
	must(sampler >= 0, "perf_event_open");
	must(mmap(NULL, 9 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, sampler, 0) != MAP_FAILED, "samples");
}

static void sample(void)
{
	ioctl(sampler, PERF_EVENT_IOC_ENABLE, 0);
	pause_ns(10 * MS);
	ioctl(sampler, PERF_EVENT_IOC_DISABLE, 0);
}

/* A program raises the timer slack of all threads of the process, as one that saves power. */
static void set_slack(const char *slack_ns)
{
	int threads[THREADS], count = list_threads(threads), i;
	char path[64];

	for (i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "/proc/%d/timerslack_ns", threads[i]);
		write_to(path, slack_ns);
	}
}

static void slacken(void)
{
	set_slack("400000");
	pause_ns(10 * MS);
	set_slack("1");
}

static void nothing(void)
{
}

/* How a culprit begins, what it repeats, and the pause after that; without one, it never sleeps. */
static const struct {
	const char *name;
	void (*begin)(void), (*repeat)(void);
	uint64_t pause_ns;
	int is_elsewhere;
} culprits[] = {
	{ "stop", nothing, stop, 40 * MS, 1 },
	{ "trace", nothing, trace, 40 * MS, 1 },
	{ "freeze", nothing, freeze, 40 * MS, 1 },
	{ "unplug", nothing, unplug, 40 * MS, 1 },
	{ "equal", begin_fifo, busy, 40 * MS, 0 },
	{ "deadline", begin_deadline, busy, 37 * MS, 0 },
	{ "lock", begin_lock, hold_lock, 40 * MS, 0 },
	{ "unmap", nothing, unmap, 20 * MS, 0 },
	{ "exit", nothing, end_process, 20 * MS, 0 },
	{ "tasks", nothing, list_tasks, 40 * MS, 0 },
	{ "timers", begin_timers, start_timers, 0, 0 },
	{ "pages", nothing, page_out, 40 * MS, 1 },
	{ "disk", begin_disk, write_through, 20 * MS, 0 },
	{ "packets", begin_tunnel, send_packets, 40 * MS, 0 },
	{ "compact", begin_compact, compact, 20 * MS, 0 },
	{ "sampler", begin_sampler, sample, 40 * MS, 1 },
	{ "slack", nothing, slacken, 40 * MS, 1 },
	{ "ordinary", nothing, busy, 0, 0 },
	{ "throttled", begin_low_fifo, busy, 0, 0 },
	{ "starved", begin_starving, busy, 0, 0 },
};

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	unsigned int which, done = 0, i;
	cpu_set_t set;

	for (which = 0; argc > 2 && which < sizeof(culprits) / sizeof(culprits[0]); which++)
		if (!strcmp(culprits[which].name, argv[1]))
			break;
	if (argc < 3 || which == sizeof(culprits) / sizeof(culprits[0])) {
		fprintf(stderr, "usage: culprit NAME CPU [PID | FILE]\n");
		return 2;
	}
	target = argc > 3 ? argv[3] : "";
	cpu = atoi(argv[2]);
	CPU_ZERO(&set);
	CPU_SET(culprits[which].is_elsewhere ? 0 : cpu, &set);
	must(!sched_setaffinity(0, sizeof(set), &set), "CPU");
	sigaction(SIGTERM, &action, NULL);
	printf("pid %d\n", getpid());
	fflush(stdout);
	culprits[which].begin();
	while (!ended && done < sizeof(times) / sizeof(times[0])) {
		times[done].begin = now_ns();
		culprits[which].repeat();
		times[done++].end = now_ns();
		if (culprits[which].pause_ns)
			pause_ns(culprits[which].pause_ns);
	}
	for (i = 0; i < done; i++)
		printf("%llu %llu\n", (unsigned long long)times[i].begin, (unsigned long long)times[i].end);
	return 0;
}
