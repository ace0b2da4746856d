/*
 * Ends the emulation of an ARM board: QEMU exits at once. Freestanding, because it must start on
 * every board. Exits with 1 if semihosting is not available.
 *
 * Arm, Semihosting for AArch32 and AArch64 (2024Q1), 5.5 the instructions, 6.9 SYS_EXIT_EXTENDED.
 */

#define SYS_EXIT_EXTENDED 0x20
#define ADP_STOPPED_APPLICATION_EXIT 0x20026

__attribute__((noreturn)) void _start(void)
{
	unsigned long block[2] = { ADP_STOPPED_APPLICATION_EXIT, 0 };

#ifdef __aarch64__
	register unsigned long x0 __asm__("x0") = SYS_EXIT_EXTENDED;
	register unsigned long *x1 __asm__("x1") = block;
	__asm__ volatile("hlt #0xf000" : "+r"(x0) : "r"(x1) : "memory");

	register unsigned long x8 __asm__("x8") = 93; /* exit */
	x0 = 1;
	__asm__ volatile("svc #0" : : "r"(x0), "r"(x8));
#else
	register unsigned long r0 __asm__("r0") = SYS_EXIT_EXTENDED;
	register unsigned long *r1 __asm__("r1") = block;
	__asm__ volatile("svc #0x123456" : "+r"(r0) : "r"(r1) : "memory");

	register unsigned long r7 __asm__("r7") = 1; /* exit */
	r0 = 1;
	__asm__ volatile("svc #0" : : "r"(r0), "r"(r7));
#endif
	__builtin_unreachable();
}
