/* Forbids the counter to the program that this is loaded into, once its loader is done: prctl(2), PR_SET_TSC. */
#include <sys/prctl.h>

__attribute__((constructor)) static void forbid_counter(void)
{
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
}
